"""Servers in processes of their own, and a runner whose worker does what the name of a clip says."""

from __future__ import annotations

import importlib
import resource
import shutil
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from soundwhere.media.writer import VideoWriter
from soundwhere.serve.jobs import Jobs
from soundwhere.serve.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

PATIENCE_S = 60.0


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    return wait_for


@contextmanager
def fail_to_write() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def no_space() -> Callable[[], AbstractContextManager[None]]:
    """Every file that is written within fails, as on a full disk."""
    return fail_to_write


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(tmp_path / "jobs")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module `fake_worker`, importable in worker processes too."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("fake_worker")


@pytest.fixture
def runner(jobs: Jobs, fake: ModuleType) -> Iterator[Runner]:
    """Not started yet; stopped at the end."""
    runner = Runner(jobs, fake.make_fake)
    yield runner
    runner.stop()


class Server:
    """`soundwhere serve` in a process of its own, as a user starts it."""

    def __init__(self, start_program: Callable[..., Any], work: Path, *arguments: str) -> None:
        port = [] if "--port" in arguments else ["--port", "0"]
        self.process = start_program("serve", *arguments, "--work", str(work), "--no-browser", *port)
        self.said = self.process.stdout.readline()
        assert self.said.startswith("http"), "the server ended"
        self.address = self.said.split()[0]
        self.port = self.address.split(":")[2].split("/")[0]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code: int = self.process.wait(PATIENCE_S)
        self.said += self.process.stdout.read()
        self.process.stdout.close()
        return code


@pytest.fixture(scope="session")
def start(start_program: Callable[..., Any]) -> Iterator[Callable[..., Server]]:
    """Starts servers; those that still run at the end are stopped."""
    running: list[Server] = []

    def begin(work: Path, *arguments: str) -> Server:
        running.append(Server(start_program, work, *arguments))
        return running[-1]

    yield begin
    for server in running:
        if server.process.poll() is None:
            server.end()


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory, movie: Path) -> Path:
    """A folder to pick from: a short clip, one that takes its time, one without sound, and something else."""
    folder = tmp_path_factory.mktemp("films")
    shutil.copy(movie, folder / "short.mp4")
    rng = np.random.default_rng(0)
    noise = (0.1 * rng.standard_normal(600 * 22_050)).astype(np.float32)
    picture = rng.integers(0, 255, (64, 96, 3), np.uint8)
    with VideoWriter(folder / "long.mp4", 96, 64, 1, waveform=noise) as video:
        for _ in range(600):
            video.write(picture)
    with VideoWriter(folder / "mute.mp4", 96, 64, 5) as video:
        video.write(picture)
    (folder / "text.mp4").write_text("once upon a time\n" * 20)
    return folder


@pytest.fixture(autouse=True)
def _warm(warm_workers: None) -> None:
    """Workers of runners that tests start themselves."""
