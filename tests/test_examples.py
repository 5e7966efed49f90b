"""The examples run as they are, with the built-in model."""

from __future__ import annotations

import ast
import csv
import json
import runpy
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import soundwhere

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOK = EXAMPLES / "look_and_listen.ipynb"


def call(name: str, *arguments: str) -> None:
    runpy.run_path(str(EXAMPLES / name))["main"](*arguments)


@pytest.fixture(autouse=True)
def clip(tmp_path: Path, clip_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clip in the folder in which the examples run."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(clip_path, tmp_path / "clip.mp4"))


def test_every_example_is_here() -> None:
    scripts = {"one_clip.py", "who_sounds_when.py", "folder_to_table.py"}
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == {*scripts, NOTEBOOK.name}


def test_one_clip(capsys: pytest.CaptureFixture[str]) -> None:
    call("one_clip.py", "clip.mp4", "found")
    out = capsys.readouterr().out
    assert out.startswith("source 1 (orange): ")
    assert {"overlay.mp4", "index.html", "result.json"} <= {path.name for path in Path("found").iterdir()}
    assert f"wrote {Path('found') / 'overlay.mp4'}" in out


def test_who_sounds_when(capsys: pytest.CaptureFixture[str]) -> None:
    call("who_sounds_when.py", "clip.mp4")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("   0.00 s  ")
    assert all(line.endswith("silence") or "source" in line for line in lines)


def test_a_folder_into_a_table(
    movie: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    knows_made_up_things = partial(soundwhere.Localiser, "scav-mobile")
    monkeypatch.setattr(soundwhere, "Localiser", knows_made_up_things)
    Path("films").mkdir()
    for name in ("one.mp4", "two.mp4"):
        shutil.copy(movie, f"films/{name}")
    Path("films/notes.txt").write_text("no film")
    call("folder_to_table.py", "films", "table.csv")
    assert "notes.txt" in capsys.readouterr().err
    with Path("table.csv").open(newline="") as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file)]
    result = knows_made_up_things().localise(movie)
    assert result.sounding.all()  # both things sound from beginning to end, as written
    sources = [
        (str(source + 1), "0.00", "2.00", result.where(source), f"{result.confidence[:, source].mean():.2f}")
        for source in range(2)
    ]
    assert rows == [(name, *source) for name in ("one.mp4", "two.mp4") for source in sources]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does: the value of a last line that is an expression is what it shows."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last is not None else None


def test_the_notebook(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip.unlink()  # it makes one
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    names: dict[str, Any] = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in cells]
    pictures = [value for value in shown if hasattr(value, "_repr_png_")]  # what a notebook draws
    assert len(pictures) == 2
    assert pictures[0]._repr_png_().startswith(b"\x89PNG")
    assert shown[-1] == ["coco.json", "index.html", "overlay.mp4", "result.json"]
    assert "source 1 orange" in capsys.readouterr().out
