"""The command in processes that are forks of one that has imported torch already."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from soundwhere.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.context import BaseContext

_get_context = multiprocessing.get_context


def warm_context(name: str | None = None) -> BaseContext:
    """`multiprocessing.get_context`, but what is to be spawned is forked off the warm process."""
    return _get_context("forkserver" if name == "spawn" else name)


def run_program(arguments: list[str], folder: Path, out: Connection, err: Path) -> None:
    """What a `Program` does in its process."""
    os.chdir(folder)
    os.dup2(out.fileno(), 1)
    out.close()
    with err.open("ab") as file:
        os.dup2(file.fileno(), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests were told to ignore it
    multiprocessing.get_context = warm_context  # type: ignore[assignment]
    main(arguments)


class Program:
    """`soundwhere` in a process of its own, which starts within milliseconds; like `subprocess.Popen`.

    Attributes:
        stdout: What it prints.
        err: The file of what it complains about.
    """

    def __init__(self, warm: BaseContext, err: Path, arguments: Sequence[str]) -> None:
        self.err = err
        reading, writing = os.pipe()
        self.stdout = os.fdopen(reading, encoding="utf-8")
        with Connection(writing, readable=False) as out:
            given = (list(arguments), Path.cwd(), out, err)
            self._process = warm.Process(target=run_program, args=given)  # type: ignore[attr-defined]
            self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        assert self.returncode is not None, "it has not ended"
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for its end; the rest of what it printed, and all it complained about."""
        self.wait(timeout)
        with self.stdout:
            return self.stdout.read(), self.err.read_text(encoding="utf-8")
