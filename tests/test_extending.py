"""The benchmark and the format of docs/extending.md; its method and its encoder have tests of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from soundwhere.cli.main import run
from soundwhere.data.benchmarks.catalogue import BENCHMARKS
from soundwhere.inference.formats import FILES
from soundwhere.inference.writers import WRITERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType


def test_a_benchmark(documented: Callable[[str], ModuleType], tmp_path: Path) -> None:
    documented("squares.py")
    try:
        assert (
            run(
                [
                    "evaluate",
                    "--benchmark",
                    "squares",
                    "--count",
                    "4",
                    "--model",
                    "scav-tiny",
                    "--no-page",
                    "--out",
                    str(tmp_path),
                ]
            )
            == 0
        )
    finally:
        del BENCHMARKS["squares"]
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["benchmark"]["name"] == "squares"
    assert results["benchmark"]["scenes_scored"] == 4
    assert "scav-tiny, audio-shuffled" in results["scores"]


def test_a_format(documented: Callable[[str], ModuleType], clip_path: Path, tmp_path: Path) -> None:
    documented("subtitles.py")
    try:
        arguments = [str(clip_path), "--formats", "srt,json", "--model", "scav-tiny", "--out", str(tmp_path / "out")]
        assert run(arguments) == 0
    finally:
        del FILES["srt"], WRITERS["srt"]
    lines = (tmp_path / "out" / "clip.soundwhere" / "sources.srt").read_text().splitlines()
    assert lines[:2] == ["1", "00:00:00,000 --> 00:00:00,200"]
    assert set(lines[2::4]) <= {"silence", "source 1", "source 2", "source 1, source 2"}
