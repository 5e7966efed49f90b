"""kill -9 of whoever prepares, at every moment at which a file changes, loses nothing and corrupts nothing."""

from __future__ import annotations

import csv
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from soundwhere.data.shard_index import read_index
from soundwhere.preparation import prepare as preparing
from soundwhere.preparation import shard
from soundwhere.preparation.lists import Listing
from soundwhere.preparation.prepare import prepare
from soundwhere.preparation.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.context import BaseContext

SMALL = Recipe(short_px=32)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.truncate")


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory, make_video: Callable[..., Path]) -> Path:
    """Five videos of 1 s, and a file that is none."""
    folder = tmp_path_factory.mktemp("clips")
    for seed in range(5):
        make_video(folder / f"clip{seed}.mp4", seed, 1.0)
    (folder / "bad.mp4").write_text("not a video\n" * 50)
    return folder


@pytest.fixture(scope="module")
def peace(tmp_path_factory: pytest.TempPathFactory, clips: Path) -> Path:
    """The set as it is when nobody is killed."""
    folder = tmp_path_factory.mktemp("peace")
    assert prepare(folder, Listing([clips]), SMALL, clips_per_shard=2, workers=1).complete
    return folder


def in_this_process(_engine: str, todo: list[int], make: Any, _workers: int, news: Any) -> Iterator[tuple[int, Any]]:
    work = make(news)
    return ((number, work(number)) for number in todo)


def prepare_until(clips: Path, folder: Path, deadly: int) -> None:
    """Prepare in this process, which is killed just before it changes a file of the folder for the `deadly`-th time."""
    changes = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES):
            paths = [Path(os.fsdecode(each)) for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike)]
            if any(path == folder or folder in path.parents for path in paths):
                changes += 1
                if changes == deadly:
                    os.kill(os.getpid(), signal.SIGKILL)

    preparing.work_on = in_this_process  # type: ignore[assignment]
    shard.try_alone = lambda *_: 0  # type: ignore[assignment] # the clip is not to blame; asking takes a second
    sys.addaudithook(watch)
    sys.exit(0 if prepare(folder, Listing([clips]), SMALL, clips_per_shard=2, workers=1).complete else 3)


def whole(folder: Path) -> int:
    """How many shards are finished, each of which is what its index says."""
    indexes = list(folder.glob("shard-*.index"))
    for index in indexes:
        header, _ = read_index(index)
        assert hashlib.sha256(index.with_suffix(".tar").read_bytes()).hexdigest() == header["tar_sha256"]
    return len(indexes)


def check(folder: Path, peace: Path, hashes: Callable[[Path], dict[str, str]]) -> None:
    assert hashes(folder) == hashes(peace)
    with (folder / "problems.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["bad.mp4"]
    assert not list(folder.glob(".*.partial*"))


def test_kill_9_before_every_change_of_a_file(
    warm: BaseContext, tmp_path: Path, clips: Path, peace: Path, hashes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run is killed before its first change, the next, which goes on, before its second, and so on."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    folder = tmp_path / "set"
    finished = 0
    for deadly in range(1, 100):
        run = warm.Process(target=prepare_until, args=(clips, folder, deadly))  # type: ignore[attr-defined]
        run.start()
        run.join(120)
        assert run.exitcode in (0, -signal.SIGKILL)
        there = whole(folder)
        assert there >= finished  # what was finished stays
        finished = there
        if run.exitcode == 0:
            break
    assert deadly > 12  # runs were killed, each at another moment
    check(folder, peace, hashes)


def wait_for(condition: Callable[[], bool], run: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_kill_9_of_a_worker_and_of_the_driver(tmp_path: Path, clips: Path, peace: Path, hashes: Any) -> None:
    """The real processes: a worker while it writes, whose shard is made again, then the driver, as shards appear."""
    arguments = [sys.executable, "-m", "soundwhere", "prepare", str(clips), "--out", str(tmp_path)]
    arguments += ["--short-px", "32", "--clips-per-shard", "2", "--workers", "1"]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    run = start()
    wait_for(lambda: any(tmp_path.glob(".shard-*.partial.tar")), run)
    found = subprocess.run(["pgrep", "-P", str(run.pid), "-f", "spawn_main"], capture_output=True, text=True)
    os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
    wait_for(lambda: any(tmp_path.glob("shard-*.tar")), run)  # by the worker in its place
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    whole(tmp_path)
    for _ in range(5):  # the last worker may be at its shard still
        run = start()
        said = run.communicate(timeout=200)
        assert run.returncode == 0, said
        if "the set is complete" in said[1]:
            break
    check(tmp_path, peace, hashes)
