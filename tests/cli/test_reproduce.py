"""`soundwhere reproduce` from made-up clips to the page, stopped in between and taken up again."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from tests.shortcuts import FEW, draw_few

from soundwhere.analysis.appendix import appendix_checks
from soundwhere.cli.main import run
from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.context import BaseContext

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


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few clips, intervals and lemmas by few draws, and blank figures: the slowest of all, drawn in one test."""
    monkeypatch.setattr("soundwhere.evaluation.constant._ENOUGH", 4)
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda _, file, **__: Image.new("L", (1, 1)).save(file, "png")
    )
    draw_few(monkeypatch)
    monkeypatch.setattr("soundwhere.analysis.winners._DRAWS", FEW)
    monkeypatch.setattr("soundwhere.analysis.appendix.appendix_checks", partial(appendix_checks, draws=FEW))
    monkeypatch.setattr("soundwhere.analysis.appendix._CHART", 5)
    for name in ("MADE_UP_CLIPS", "QUICK_CLIPS"):
        monkeypatch.setattr(f"soundwhere.reproduction.scales.{name}", 24)
    monkeypatch.setattr("soundwhere.reproduction.budget._TRIED_S", 0.0)


def reproduce_until_killed(folder: Path) -> None:
    """Run the command in this process, which is killed when the rows of the ablation are trained."""
    os.chdir(folder)
    patch = pytest.MonkeyPatch()
    make_small(patch)
    patch.setattr("soundwhere.analysis.ablation.score_rows", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    run(COMMAND)


@pytest.fixture
def savefig() -> Callable[..., None]:
    """Draws a figure for real; to be asked for before `recipes`."""
    return Figure.savefig


@pytest.fixture
def recipes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two rivals and SCAV, all tiny."""
    make_small(monkeypatch)
    (folder / "rivals").mkdir()
    for name in ("lvs", "oa-ssl"):
        (folder / "rivals" / f"{name}-controlled.toml").write_text(RIVAL.format(name=name))
    (folder / "scav.toml").write_text(RECIPE)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_part_on_one_page_after_kill_9(
    warm: BaseContext, savefig: Callable[..., None], recipes: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run([*COMMAND, "--dry-run"]) == 0
    assert "compare      about" in capsys.readouterr().err
    out = recipes / "reproduction"
    assert not (out / "index.html").exists()

    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # where the new process finds this file
    killed = warm.Process(target=reproduce_until_killed, args=(recipes,))  # type: ignore[attr-defined]
    killed.start()
    killed.join(600)
    assert killed.exitcode == -signal.SIGKILL
    page = (out / "index.html").read_text()
    assert "Selective convergence" in page
    assert "Frame-wise against source-wise" not in page
    done = {path: path.stat().st_mtime_ns for path in out.rglob("best.safetensors")}
    assert {path.parent.name for path in done} >= {"lvs-seed-0", "scav-seed-0", "full"}
    capsys.readouterr()

    monkeypatch.setattr(Figure, "savefig", savefig)
    assert run(COMMAND) == 0
    captured = capsys.readouterr()
    assert {path: path.stat().st_mtime_ns for path in done} == done  # nothing was trained twice
    assert "oa-ssl" in (out / "index.html").read_text()
    page = (out / "index.html").read_text()
    for words in (
        *("Verdicts", "Box and mask tables, every system", "Theory appendix", "Benchmarks", "VGGSound-Duet-Mask"),
        *("Ablation, Algorithm 1, box against mask", "Frame-wise against source-wise", "Algorithm 1, step by step"),
        *("What both protocols compare", "How training went", "Failure modes", "The gap over the steps of stage 1"),
        *("Mask table: real-duet test", "Box table: real-trio test", "The losses of the others"),
    ):
        assert words in page, words
    found = json.loads((out / "claims.json").read_text())
    parts = {each["part"] for each in found["claims"]}
    assert parts >= {"box table", "selective convergence", "ablation", "box against mask", "protocols"}
    assert all(each["verdict"] for each in found["claims"] + found["statements"])
    assert found["settings"]["not done"] == "-"
    assert "drawn things with synthesised sounds" in found["settings"]["data"]
    for drawn in ("theory/theory-trajectories", "convergence/convergence-steps", "ablation/ablation"):
        assert Image.open(out / f"{drawn}.png").width > 100, drawn
    assert "index.html" in captured.out


def test_some_parts_and_a_part_that_fails(recipes: Path, capsys: Capture) -> None:
    assert run([*COMMAND, "--parts", "theory", "data-sets", "--quick"]) == 0
    page = (recipes / "reproduction" / "index.html").read_text()
    assert "all but 4 scenes of each benchmark" in page
    assert "Box and mask tables" not in page
    capsys.readouterr()
    assert run([*COMMAND, "--parts", "theory", "compare", "--methods", "oa-ssl", "--quick"]) == 1
    captured = capsys.readouterr()
    assert "compare could not be done" in captured.err
    assert "index.html" in captured.out


def test_what_was_done_before_is_taken_and_other_settings_are_refused(recipes: Path, capsys: Capture) -> None:
    command = [*COMMAND, "--parts", "protocols"]
    assert run(command) == 0
    assert (recipes / "reproduction/protocols/protocols.json").is_file()
    capsys.readouterr()
    assert run([*command, "--steps", "4"]) == 2
    assert "was trained with other settings: method.steps_one" in capsys.readouterr().err
    assert run([*command, "--limit", "6"]) == 2
    assert "made with other settings" in capsys.readouterr().err

    taken = f"scav={recipes / 'reproduction/compare/rows/scav-seed-0'}"
    other = [*command, "--data", "reproduction/made-up", "--out", "other", "--take", taken]
    assert run([*other, "--parts", "convergence", "figures"]) == 0
    assert not (recipes / "other/compare").exists()
    assert "How training went" in (recipes / "other/index.html").read_text()


def write_media(folder: Path, names: Sequence[str]) -> None:
    """A grey picture and a tone for each name, as the benchmarks' media are laid out."""
    for part in ("frames", "audio"):
        (folder / part).mkdir(parents=True)
    time_s = np.arange(3 * SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ
    for number, name in enumerate(names):
        Image.new("RGB", (64, 64), (20 * number + 20,) * 3).save(folder / "frames" / f"{name}.jpg")
        write_wav(folder / "audio" / f"{name}.wav", (0.2 * np.sin(2e3 * (number + 1) * time_s)).astype(np.float32))


def put_side_by_side(media: Path, folder: Path) -> None:
    """The same pictures and sounds as clips to train on."""
    folder.mkdir()
    for path in (*media.glob("frames/*"), *media.glob("audio/*")):
        shutil.copy(path, folder)


def test_the_papers_own_benchmarks_where_some_media_are_at_hand(recipes: Path, capsys: Capture, shared: Path) -> None:
    annotations = shared / "data/annotations"
    with (annotations / "avgn/vggsound_duet_test.csv").open(newline="") as file:
        pairs = [row for _, row in zip(range(3), csv.reader(file), strict=False)]
    write_media(Path("media"), sorted({name for row in pairs for name in (row[0], row[2])}))
    put_side_by_side(Path("media"), Path("clips"))
    (recipes / "scav.toml").write_text(RECIPE.replace('"real-duet"', '"folder"'))
    (recipes / "rivals/avgn-controlled.toml").write_text(RIVAL.format(name="avgn"))
    made_up: Any = ["--scale", "paper", "--data", "media", "--annotations", str(annotations), "--root", "clips"]
    found = run([*COMMAND, *made_up, "--allow-missing", "--parts", "data-sets", "compare"])
    captured = capsys.readouterr()
    assert found == 1, captured.err  # some benchmarks are left out
    assert "vggsound-duet-mask is left out: vggsound-duet-mask needs the masks" in captured.err
    assert "avgn is left out" in captured.err
    page = Path("reproduction/index.html").read_text()
    assert "Box table: vggsound-duet" in page
    assert "5 158" in page
    claims = json.loads(Path("reproduction/claims.json").read_text())["claims"]
    assert {(each["part"], each["data"]) for each in claims} == {("box table", "vggsound-duet")}


def test_figures_need_matplotlib(recipes: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run(COMMAND) == 2
    assert "matplotlib" in capsys.readouterr().err
    assert not (recipes / "reproduction").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scale", "paper"], "needs data"),
        (["--limit", "1"], "too few scenes"),
        (["--data", "nowhere"], "nowhere is not a folder"),
        (["--recipe", "nowhere.toml"], "does not exist"),
        (["--configs", "nowhere"], "holds no controlled configuration"),
        (["--benchmark", "nothing"], "There is no benchmark 'nothing'"),
        (["--methods", "nobody"], "There is no row nobody"),
        (["--take", "scav"], "does not name a method and MODEL"),
        (["--take", "scav=nowhere"], "There is no model named 'nowhere'"),
        (["--take", "lvs=scav-wide"], "holds a model of the method 'scav-wide', not of 'lvs'"),
        (["--steps", "0"], "--steps is 0"),
        (["--minutes", "-1"], "--minutes is -1"),
        (["--out", "scav.toml"], "A file has that name"),
        (["--recipe", "rivals/lvs-controlled.toml"], "is a recipe of the method lvs, not of scav"),
        (["--scale", "paper", "--data", "rivals"], "None of the benchmarks is at hand"),
    ],
)
def test_bad_input_is_told_before_anything_is_trained(
    recipes: Path, capsys: Capture, arguments: list[str], words: str
) -> None:
    assert run([*COMMAND, *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not (recipes / "reproduction").exists()
