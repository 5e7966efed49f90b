"""Servers in processes of their own, and a worker that does what the name of a clip says, at once and without torch."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from soundwhere.media.writer import VideoWriter
from soundwhere.serve.jobs import Jobs
from soundwhere.serve.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WORKER = """
import json, os, pathlib, sys, time
def tell(**news): print(json.dumps(news), flush=True)
if "useless" in sys.argv:
    tell(useless=True, error="There is no model nowhere.", remedy="Choose another.")
    sys.exit()
tell(ready=True, model="fake")
for line in sys.stdin:
    order = json.loads(line)
    name, folder = order["name"], pathlib.Path(order["folder"])
    tell(stage="localising", done=1, total=4)
    if "crash" in name:
        os._exit(9)
    if "slow" in name:
        time.sleep(60)
    if "bad" in name:
        tell(failed=True, error=name + " has no sound track.", remedy="Give another.")
        continue
    (folder / "result" / "heatmaps").mkdir(parents=True)
    for file in ("result.json", "overlay.png", "index.html", "heatmaps/1.png"):
        (folder / "result" / file).write_text(file)
    player = {"title": name, "plain": order["clip"], "plain_start_s": 0.0}
    (folder / "player.json").write_text(json.dumps(player))
    tell(finished=True)
"""
PATIENCE_S = 60.0


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    return wait_for


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(tmp_path / "jobs")


@pytest.fixture
def worker(tmp_path: Path) -> list[str]:
    path = tmp_path / "worker.py"
    path.write_text(WORKER)
    return [sys.executable, "-S", "-E", str(path)]


@pytest.fixture
def runner(jobs: Jobs, worker: list[str]) -> Iterator[Runner]:
    """Not started yet; stopped at the end."""
    runner = Runner(jobs, worker)
    yield runner
    runner.stop()


class Server:
    """`soundwhere serve` in a process of its own, as a user starts it."""

    def __init__(self, work: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "soundwhere", "serve", *arguments, "--work", str(work), "--no-browser"]
        port = [] if "--port" in arguments else ["--port", "0"]
        self.process = subprocess.Popen([*command, *port], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        assert self.said.startswith("http"), "the server ended"
        self.address = self.said.split()[0]
        self.port = self.address.split(":")[2].split("/")[0]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.said += self.process.stdout.read()
        self.process.stdout.close()
        return code


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Server]]:
    """Starts servers; those that still run at the end are stopped."""
    running: list[Server] = []

    def begin(work: Path, *arguments: str) -> Server:
        running.append(Server(work, *arguments))
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
    noise = (0.1 * rng.standard_normal(200 * 22_050)).astype(np.float32)
    picture = rng.integers(0, 255, (64, 96, 3), np.uint8)
    with VideoWriter(folder / "long.mp4", 96, 64, 1, waveform=noise) as video:
        for _ in range(200):
            video.write(picture)
    with VideoWriter(folder / "mute.mp4", 96, 64, 5) as video:
        video.write(picture)
    (folder / "text.mp4").write_text("once upon a time\n" * 20)
    return folder
