"""Two processes that share the scenes of an evaluation find what one finds, to the digit, and go on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from tests.programs import run_torchrun

from soundwhere import distributed
from soundwhere.cli.main import run
from soundwhere.errors import ConfigError, DataError
from soundwhere.evaluation.answerers import Answer, InputFreeAnswerer
from soundwhere.evaluation.constant import Blobs
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.scoring import evaluate
from soundwhere.methods.files import write_model
from soundwhere.methods.scav.config import NAMED
from soundwhere.methods.scav.model import SCAV
from soundwhere.metrics.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

    from soundwhere.evaluation.reading import View

SCENES = 7  # an odd number: partners then lie in batches of different processes
PARTS = ["--benchmark", "synthetic", "--layout", "side-by-side", "--batch", "2", "--device", "cpu", "--no-page"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    write_model(path, SCAV(NAMED["scav-tiny"]))
    return path


def command(model: Path, out: str, scenes: int = SCENES) -> list[str]:
    return ["evaluate", *PARTS, "--count", str(scenes), "--model", str(model), "--out", out]


def work(rank: int, folder: Path, arguments: list[str], port: int) -> None:
    """What each of two processes does, as torchrun starts it; what it says goes to a file of its own."""
    from soundwhere.evaluation import constant

    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    constant._ENOUGH = 4
    os.chdir(folder)
    with (folder / f"said-{rank}.txt").open("w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        code = run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    (folder / f"code-{rank}.txt").write_text(str(code))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def contents(folder: Path) -> dict[str, str]:
    """The hash of every file of a folder, but for npz, which holds the time at which it was written."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".npz"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """The same evaluation by one process."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("soundwhere.evaluation.constant._ENOUGH", 4)
        assert run(command(model, "out")) == 0
    return folder / "out"


def test_two_processes_leave_what_one_leaves(
    on_two_processes: Callable[..., None], tmp_path: Path, model: Path, alone: Path
) -> None:
    on_two_processes(work, tmp_path, command(model, "out"), free_port())
    assert [(tmp_path / f"code-{rank}.txt").read_text() for rank in range(2)] == ["0", "0"]
    ours, theirs = (json.loads((out / "results.json").read_text()) for out in (tmp_path / "out", alone))
    assert ours == theirs
    assert ours["benchmark"]["scenes_scored"] == SCENES
    assert contents(tmp_path / "out") == contents(alone)  # also the lines of every scene, in the same order
    assert "wrote out/list.csv" in (tmp_path / "said-0.txt").read_text()
    assert (tmp_path / "said-1.txt").read_text() == ""


def test_what_one_process_began_two_go_on_with(
    on_two_processes: Callable[..., None], tmp_path: Path, model: Path, alone: Path
) -> None:
    """Of each book the first lines are there, and half a line, as a kill leaves it."""
    scores = tmp_path / "out" / "scores"
    scores.mkdir(parents=True)
    for place, path in enumerate(sorted((alone / "scores").glob("*.jsonl"))):
        lines = path.read_bytes().splitlines(keepends=True)
        kept = lines[: 2 + place]
        (scores / path.name).write_bytes(b"".join(kept) + (lines[len(kept)][:30] if len(kept) < len(lines) else b""))
    on_two_processes(work, tmp_path, command(model, "out"), free_port())
    assert (tmp_path / "out" / "results.json").read_bytes() == (alone / "results.json").read_bytes()
    for path in (alone / "scores").glob("*.jsonl"):
        assert sorted((scores / path.name).read_bytes().splitlines()) == sorted(path.read_bytes().splitlines())


# `python -m soundwhere`, with a constant answer chosen by few scenes
SCRIPT = """
import sys
from soundwhere.cli.main import run
from soundwhere.evaluation import constant

constant._ENOUGH = 4
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_torchrun_is_killed_and_goes_on(warm: BaseContext, tmp_path: Path, model: Path, alone: Path) -> None:
    """By the real thing: killed as soon as scores of scenes are there, then again, for the figures of one process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    (tmp_path / "script.py").write_text(SCRIPT)
    arguments = ["--nproc-per-node", "2", str(tmp_path / "script.py"), *command(model, "out")]
    log = tmp_path / "log.txt"

    def start() -> BaseProcess:
        given = (["--master-port", str(free_port()), *arguments], tmp_path, environment, log)
        started: BaseProcess = warm.Process(target=run_torchrun, args=given)  # type: ignore[attr-defined]
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(Path(__file__).parents[2])  # where the new process finds `run_torchrun`
            started.start()
        return started

    killed = start()
    assert killed.pid is not None
    members: list[int] = []
    deadline = time.monotonic() + 200
    while scored(tmp_path / "out" / "scores") < 2:
        assert killed.exitcode is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline
        if not members and (tmp_path / "out").exists():
            members = family(killed.pid)  # beforehand: on a busy machine finding them takes as long as some scenes
        time.sleep(0.01)
    for process in members:
        os.kill(process, signal.SIGSTOP)
    for process in family(killed.pid):
        os.kill(process, signal.SIGKILL)
    killed.join(60)
    assert not (tmp_path / "out" / "results.json").exists()
    assert 2 <= scored(tmp_path / "out" / "scores") < SCENES
    done = start()
    done.join(250)
    assert done.exitcode == 0, log.read_text()[-3000:]
    assert (tmp_path / "out" / "results.json").read_bytes() == (alone / "results.json").read_bytes()


def scored(folder: Path) -> int:
    """How many scenes the fullest book that is about scenes holds."""
    return max((path.read_bytes().count(b"\n") - 1 for path in folder.glob("*.jsonl")), default=0)


def family(process: int) -> list[int]:
    """A process and all that descend from it."""
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True).stdout.split()
    return [process, *(descendant for child in found for descendant in family(int(child)))]


BLOBS = {Row(answer="blobs"): Blobs((1, 2), (0, 1), 20.0)}


class Choking(InputFreeAnswerer):
    """Cannot answer about one of the scenes."""

    def answer(self, view: View) -> dict[Row, Answer]:
        if any(scene.name.endswith("-3") for scene in view.scenes):
            raise DataError("scene 3 cannot be answered", "leave it out")
        return super().answer(view)


def refuse(rank: int, folder: Path, port: int) -> None:
    from soundwhere.data.benchmarks.catalogue import Options, open_benchmark

    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    distributed.initialise("cpu")
    benchmark = open_benchmark("synthetic", options=Options(count=6))
    names = list(benchmark.order)
    for name, listed, asked in (
        ("choked", names, Choking(BLOBS, 2, others=())),
        ("other", names if rank else names[::-1], InputFreeAnswerer(BLOBS, 2, others=())),
        ("fewer", names, InputFreeAnswerer(BLOBS, 2 + rank, others=())),
    ):
        try:
            evaluate(benchmark.scenes, listed, [asked], PRESETS["scav"], (1, 2), batch=1)
        except (ConfigError, DataError) as error:
            (folder / f"{name}-{rank}.txt").write_text(f"{type(error).__name__} {error}")
    distributed.shutdown()


def test_all_processes_are_told_what_stops_one(on_two_processes: Callable[..., None], tmp_path: Path) -> None:
    on_two_processes(refuse, tmp_path, free_port())
    for rank in range(2):
        said = {name: (tmp_path / f"{name}-{rank}.txt").read_text() for name in ("choked", "other", "fewer")}
        assert said["choked"] == "DataError scene 3 cannot be answered\nleave it out"
        assert said["other"] == said["fewer"]
        assert said["other"].startswith("ConfigError Process 1 of this evaluation was given other scenes or models")
