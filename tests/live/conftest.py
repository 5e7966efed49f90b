"""`soundwhere live` in a process of its own, and clips of the made-up world as Chromium's fake camera takes them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_S = 120.0


class Server:
    """The server as a user starts it."""

    def __init__(self, start_program: Callable[..., Any], *arguments: str) -> None:
        options = ["--model", "scav-tiny", "--device", "cpu", "--no-browser", "--port", "0"]
        self.process = start_program("live", *options, *arguments)
        said = self.process.stdout.readline()
        assert said.startswith("http"), "the server ended"
        self.address = said.split()[0]
        self.port = int(self.address.split(":")[2].split("/")[0])

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Stop it; its exit code, and what it wrote to stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, errors


@pytest.fixture(scope="session")
def start_live(start_program: Callable[..., Any]) -> Iterator[Callable[..., Server]]:
    running: list[Server] = []

    def begin(*arguments: str) -> Server:
        running.append(Server(start_program, *arguments))
        return running[-1]

    yield begin
    for server in running:
        if server.process.poll() is None:
            server.end()
