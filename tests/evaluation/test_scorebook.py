"""What was scored is found again; lines that nobody scored are refused, whatever they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import OutputError
from soundwhere.evaluation.answerers import InputFreeAnswerer
from soundwhere.evaluation.constant import Blobs, Constant, choose_constant
from soundwhere.evaluation.scorebook import Scorebook, outdated
from soundwhere.evaluation.scoring import evaluate
from soundwhere.evaluation.summary import summarise_evaluation
from soundwhere.metrics.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from soundwhere.evaluation.scoring import Evaluation

    Spoilt = Callable[[str], Iterator[str]]

SCENES = WorldScenes(World(5, (64, 128), seconds=0.2), 2, silent=0, layout="side-by-side")


def test_lines_come_back_and_one_that_was_cut_short_is_dropped(tmp_path: Path) -> None:
    book = Scorebook(tmp_path, {"a": 1})
    book.add({"one": 1, "two": 2})
    assert book.path is not None
    with book.path.open("ab") as file:
        file.write(b'["three", 3')  # and the process was killed
    again = Scorebook(tmp_path, {"a": 1})
    assert ("one" in again, again["two"], "three" in again) == (True, 2, False)
    again.add({"three": 3, "one": 99})
    assert [json.loads(line)[:2] for line in book.path.read_text().splitlines()[1:]] == [
        ["one", 1],
        ["two", 2],
        ["three", 3],
    ]
    assert "one" not in Scorebook(tmp_path, {"a": 2})


@pytest.mark.parametrize(
    "line", ["{}", "5", '["three"]', '["three", 3, 3]', "[3, 3]", '["three", "x"]', "scores", "[" * 9999, "\\udc80"]
)
def test_a_foreign_line_is_named_and_the_file_left_alone(tmp_path: Path, line: str) -> None:
    book = Scorebook(tmp_path, {"a": 1})
    book.add({"one": 1})
    assert book.path is not None
    text = f'{book.path.read_text()}{line}\n["two", 2]\n'
    book.path.write_text(text)
    with pytest.raises(OutputError, match=r"\.jsonl, line 3 does not hold the scores of a scene") as caught:
        Scorebook(tmp_path, {"a": 1})
    assert "Remove that file" in caught.value.remedy
    assert book.path.read_text() == text


def test_a_file_with_other_settings_than_its_name_says_is_refused(tmp_path: Path) -> None:
    book = Scorebook(tmp_path, {"a": 1})
    assert book.path is not None
    book.path.write_text('{"settings": {"a": 2}}\n["one", 1]\n')
    with pytest.raises(OutputError, match="line 1 does not hold"):
        Scorebook(tmp_path, {"a": 1})


def score(folder: Path) -> Evaluation:
    asked = [InputFreeAnswerer(Constant(Blobs((1, 2), (0, 1), 25.0), "val").rows, 2)]
    found = evaluate(SCENES, ["a", "b"], asked, PRESETS["scav"], (1, 2), folder, about={}, batch=1)
    summarise_evaluation(found, draws=2)
    return found


def test_whatever_stands_in_a_file_of_scores_is_refused_unless_it_was_written_there(
    tmp_path: Path, spoilt: Spoilt
) -> None:
    """Facts of scenes, scores, and the choice of the constant, each with one part replaced."""
    before, chosen = score(tmp_path), choose(tmp_path)
    refused = 0
    for path in sorted(tmp_path.glob("*.jsonl")):
        first, line, *rest = path.read_text().splitlines()
        key, value, check = json.loads(line)
        value = value if not isinstance(value, dict) else dict(list(value.items())[:1])  # rows are alike
        for text in set(spoilt(json.dumps(value))) - {json.dumps(value)}:
            path.unlink()  # to write over a file waits for the disk
            path.write_text("\n".join([first, f"[{json.dumps(key)}, {text}, {check}]", *rest, ""]))
            with pytest.raises(OutputError, match="line 2 does not hold the scores"):
                (score(tmp_path), choose(tmp_path))
            refused += 1
        path.write_text("\n".join([first, line, *rest, ""]))
    assert refused > 300
    again = score(tmp_path)
    assert all((again.scores[name].pairs.iou == row.pairs.iou).all() for name, row in before.scores.items())
    assert choose(tmp_path) == chosen


def choose(folder: Path) -> Constant:
    return choose_constant(SCENES, (1, 2), 2, PRESETS["scav"], "val", folder=folder)


def test_files_of_another_version_are_known_by_their_first_line(tmp_path: Path) -> None:
    """Written by version 0.1: scores of a method, and the choice of the constant."""
    assert outdated(tmp_path / "nowhere") == []
    score(tmp_path)
    assert outdated(tmp_path) == []
    first = {"settings": {"schema": 1, "version": "0.1.0", "about": {}, "probe": {"label": "tiny"}}}
    line = ["0 a", {"tiny": {"confidence": 0.5, "lit": 0.1, "pairs": [[0, 0, 0.5, 0.5, 1.0, 0.0]]}}]
    (tmp_path / "0123456789abcdef.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(line)}\n")
    (tmp_path / "1123456789abcdef.jsonl").write_text('{"settings": {"maps": 2}}\n["choice", {"grid": [1, 2]}]\n')
    assert [path.name[0] for path in outdated(tmp_path)] == ["0", "1"]


def test_nothing_is_written_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    book = Scorebook(None, {"a": 1})
    book.add({"one": 1})
    assert book["one"] == 1
    assert not list(tmp_path.iterdir())
