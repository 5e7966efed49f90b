from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from soundwhere.errors import OutputError
from soundwhere.training import journal as module
from soundwhere.training.checkpoint import Progress
from soundwhere.training.journal import Journal, forget_later_lines, preparing

if TYPE_CHECKING:
    from pathlib import Path


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def write(folder: Path, first: int, last: int, every: int = 1, stage: str = "one", steps: int = 9) -> None:
    with Journal(folder, Progress(stage, step=first), steps, batch_size=4, every=every) as journal:
        for step in range(first + 1, last + 1):
            journal.write(Progress(stage, step=step, smooth_loss=0.5), {"loss": 1 / step, "peak": 0.25})


def test_every_nth_step_and_the_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, 0, 9, every=4)
    assert [line["step"] for line in lines(tmp_path)] == [4, 8, 9]
    assert lines(tmp_path)[0] | {"samples_per_s": 0} == {
        "stage": "one",
        "step": 4,
        "loss": 0.25,
        "peak": 0.25,
        "samples_per_s": 0,
    }
    said = capsys.readouterr().err
    assert "stage one  9/9" in said
    assert "loss 0.500" in said
    assert "samples/s" in said


def test_a_resumed_journal_has_each_line_once(tmp_path: Path) -> None:
    write(tmp_path, 0, 5)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "one", "st')  # killed while writing
    write(tmp_path, 3, 9)
    write(tmp_path, 0, 2, stage="two", steps=2)
    assert [(line["stage"], line["step"]) for line in lines(tmp_path)] == [
        *(("one", step) for step in range(1, 10)),
        ("two", 1),
        ("two", 2),
    ]


def test_a_line_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with Journal(tmp_path, Progress("one"), 9, batch_size=4, every=1) as journal:
        (tmp_path / "metrics.jsonl").mkdir()
        with pytest.raises(OutputError, match=r"metrics\.jsonl cannot be written"):
            journal.write(Progress("one", step=1), {"loss": 1.0})


def test_nothing_to_forget_makes_no_file(tmp_path: Path) -> None:
    forget_later_lines(tmp_path / "metrics.jsonl", Progress("one"))
    assert not list(tmp_path.iterdir())


def test_work_before_training_is_told_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLAIN_EVERY_S", 0.0)
    with preparing("preparing scenes") as done:
        done(3, 7)
    assert capsys.readouterr().err == "preparing scenes 3/7\n"
