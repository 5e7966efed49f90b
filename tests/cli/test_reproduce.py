"""`soundwhere reproduce` from made-up clips to the page, stopped in between and taken up again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from soundwhere.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]

RIVAL = """
[method]
name = "{name}"
dimension = 16
[data]
source = "real-duet"
"""
RECIPE = """
[method]
name = "scav-tiny"
frame_px = 64
dimension = 16
decoupler_layers = 1
decoupler_heads = 2
steps_one = 2
steps_two = 1
batch_size = 4
[data]
source = "real-duet"
"""
COMMAND = ["reproduce", "--configs", "rivals", "--recipe", "scav.toml", "--device", "cpu", "--limit", "4"]


@pytest.fixture
def recipes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two rivals and SCAV, all tiny; few made-up clips, and a constant answer chosen by few scenes."""
    monkeypatch.setattr("soundwhere.evaluation.constant._ENOUGH", 4)
    monkeypatch.setattr("soundwhere.cli.reproduce.MADE_UP_CLIPS", 64)
    monkeypatch.setattr("soundwhere.reproduction.durations._TRIED_S", 0.0)
    (folder / "rivals").mkdir()
    for name in ("lvs", "oa-ssl"):
        (folder / "rivals" / f"{name}-controlled.toml").write_text(RIVAL.format(name=name))
    (folder / "scav.toml").write_text(RECIPE)
    return folder


def test_every_part_on_one_page(recipes: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run([*COMMAND, "--dry-run"]) == 0
    assert "compare      about" in capsys.readouterr().err
    out = recipes / "reproduction"
    assert not (out / "index.html").exists()

    with monkeypatch.context() as patched:
        patched.setattr(
            "soundwhere.analysis.ablation.score_rows", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        assert run(COMMAND) == 130
    page = (out / "index.html").read_text()
    assert "Selective convergence" in page
    assert "Frame-wise against source-wise" not in page
    done = {path: path.stat().st_mtime_ns for path in out.rglob("best.safetensors")}
    assert {path.parent.name for path in done} >= {"lvs-seed-0", "scav-seed-0", "full"}
    capsys.readouterr()

    assert run(COMMAND) == 0
    captured = capsys.readouterr()
    assert {path: path.stat().st_mtime_ns for path in done} == done  # nothing was trained twice
    assert "oa-ssl" in (out / "index.html").read_text()
    page = (out / "index.html").read_text()
    for words in (
        *("Verdicts", "Box and mask tables, every system", "Theory appendix", "Benchmarks", "VGGSound-Duet-Mask"),
        *("Ablation, Algorithm 1, box against mask", "Frame-wise against source-wise", "Algorithm 1, step by step"),
        *("What both protocols compare", "How training went", "Failure modes", "The gap over the steps of stage 1"),
        *("real-duet test, boxes", "real-trio test, boxes"),
    ):
        assert words in page, words
    found = json.loads((out / "claims.json").read_text())
    parts = {each["part"] for each in found["claims"]}
    assert parts >= {"box table", "selective convergence", "ablation", "box against mask", "protocols"}
    assert all(each["verdict"] for each in found["claims"] + found["statements"])
    assert "not done" in found["settings"]
    assert found["settings"]["not done"] == "-"
    assert "index.html" in captured.out


def test_some_parts_and_a_part_that_fails(recipes: Path, capsys: Capture) -> None:
    assert run([*COMMAND, "--parts", "theory", "data-sets", "--quick"]) == 0
    page = (recipes / "reproduction" / "index.html").read_text()
    assert "--quick trains for" in page
    assert "Box and mask tables" not in page
    capsys.readouterr()
    assert run([*COMMAND, "--parts", "theory", "compare", "--methods", "oa-ssl"]) == 1
    captured = capsys.readouterr()
    assert "compare could not be done" in captured.err
    assert "index.html" in captured.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scale", "paper"], "needs data"),
        (["--limit", "1"], "too few scenes"),
        (["--data", "nowhere"], "nowhere is not a folder"),
        (["--recipe", "nowhere.toml"], "does not exist"),
        (["--configs", "nowhere"], "holds no controlled configuration"),
        (["--benchmark", "nothing"], "There is no benchmark 'nothing'"),
    ],
)
def test_bad_input_is_told_before_anything_is_trained(
    recipes: Path, capsys: Capture, arguments: list[str], words: str
) -> None:
    assert run([*COMMAND, *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not (recipes / "reproduction" / "compare").exists()
