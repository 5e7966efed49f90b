from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soundwhere.bench import command
from soundwhere.bench.command import PARTS, bench_command, time_command
from soundwhere.bench.localising import write_clip
from soundwhere.errors import SoundwhereError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_command_is_timed_in_a_process_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = tmp_path / "clip.mp4"
    write_clip(clip, 1.0, size=(64, 96), fps=10)
    rows = bench_command(clip, {"onnx": ["--model", "scav-tiny", "--device", "cpu"]}, seconds=1.0, turns=1)
    head, *lines, _ = capsys.readouterr().out.splitlines()
    assert head.split() == ["seconds", "wall", "first", "CPU", *PARTS]
    for line, row, what in zip(lines, rows, ("json", "overlay"), strict=True):
        parts_s = row["parts_s"]
        told = [row["wall_s"], row["first_s"], row["cpu_s"], *parts_s.values()]
        assert line.split() == ["onnx,", what, *(f"{figure:.2f}" for figure in told)]
        assert 0 < row["first_s"] < row["wall_s"]
        assert min(parts_s["import"], parts_s["open"], parts_s["network"]) > 0
        assert 0 < sum(parts_s.values()) <= row["cpu_s"] + 0.05
        assert (parts_s["draw"] > 0) == (what == "overlay")


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(SoundwhereError, match=r"none\.mp4"):
        time_command(["localise", str(tmp_path / "none.mp4")])


def test_scenes_a_second_leave_out_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run_process(arguments: list[str], _: object) -> tuple[float, float]:
        asked.append(arguments)
        scenes = int(arguments[arguments.index("--limit") + 1])
        return 10 + scenes / 2, 20 + scenes / 4  # starting up, and two or four scenes a second

    monkeypatch.setattr(command, "run_process", run_process)
    took = command.bench_evaluate(["--benchmark", "synthetic"], 30)
    assert (took.scenes / took.wall_s, took.scenes / took.cpu_s, took.start_s) == (2, 4, 21)
    assert [arguments[2] for arguments in asked] == ["evaluate", "evaluate"]
