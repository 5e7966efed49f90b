from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.cli.main import run
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.methods.catalogue import METHODS
from soundwhere.methods.files import write_model
from soundwhere.methods.scav.config import NAMED
from soundwhere.methods.scav.model import SCAV
from soundwhere.methods.wide.config import WideConfig
from soundwhere.methods.wide.model import WideSCAV
from soundwhere.metrics.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("quick_intervals")

SYNTHETIC = ["--benchmark", "synthetic", "--layout", "free", "--limit", "6"]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training run that kept two copies of its stage 1."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    for seed, name in enumerate(("stage-one", "steps/stage-one-000000", "steps/stage-one-000010")):
        torch.manual_seed(seed)
        write_model(folder / f"{name}.safetensors", SCAV(NAMED["scav-tiny"]).without_stage_two())
    return folder


def test_convergence(folder: Path, model_path: Path, run_folder: Path, capsys: Capture) -> None:
    options = [*SYNTHETIC, "--run", str(run_folder), "--gain-db", "6", "--out", "out"]
    models = [str(model_path), str(run_folder / "stage-one.safetensors")]
    assert run(["analyse", "convergence", *options, "--model", *models]) == 0
    out = capsys.readouterr().out
    for title in ("Dominant against second", "What predicts which source wins", "same source wins", "over the steps"):
        assert title in out
    values = json.loads((folder / "out" / "convergence.json").read_text())
    assert list(values["gaps"])[:2] == ["tiny", "first/stage-one"]
    assert [step["step"] for step in values["steps"]] == [0, 10]
    assert values["paper"]["dominant"]["ciou@0.3"] == 0.617
    assert values["settings"]["gain_db"] == 6
    assert values["settings"]["benchmark"] == "synthetic"
    assert values["settings"]["command"].startswith("soundwhere analyse convergence --benchmark synthetic")
    assert {path.name for path in (folder / "out").iterdir()} == {
        *("convergence.json", "convergence.md", "convergence.png", "convergence-steps.png")
    }
    assert "| the paper, on VGGSound-Duet | dominant | 63.4 |" in (folder / "out" / "convergence.md").read_text()


def test_convergence_names_a_run_by_its_folder(folder: Path, model_path: Path, capsys: Capture) -> None:
    (folder / "v1.2").mkdir()
    (folder / "v1.2" / "best.safetensors").write_bytes(model_path.read_bytes())
    assert run(["analyse", "convergence", *SYNTHETIC, "--model", "v1.2"]) == 0
    assert "feature norm of v1.2 " in capsys.readouterr().out


def test_convergence_says_when_a_run_kept_nothing(folder: Path, model_path: Path, capsys: Capture) -> None:
    (folder / "run").mkdir()
    (folder / "run" / "stage-one.safetensors").write_bytes(model_path.read_bytes())
    assert run(["analyse", "convergence", *SYNTHETIC, "--run", "run"]) == 0
    captured = capsys.readouterr()
    assert "--keep-every" in captured.err
    assert "over the steps" not in captured.out
    assert [path.name for path in folder.iterdir()] == ["run"]  # nothing is written without --out


def test_convergence_without_a_model(capsys: Capture) -> None:
    assert run(["analyse", "convergence", *SYNTHETIC]) == 0
    out = capsys.readouterr().out
    assert "constant" in out
    assert "feature norm" not in out


def test_protocols(folder: Path, model_path: Path, capsys: Capture) -> None:
    assert run(["analyse", "protocols", *SYNTHETIC, "--model", str(model_path), "--out", "out"]) == 0
    out = capsys.readouterr().out
    assert "IoU lost to the box" in out
    values = json.loads((folder / "out" / "protocols.json").read_text())
    assert list(values["presets"]) == list(PRESETS)
    assert 0 < values["boxes"]["mean_fill"] < 1
    assert {path.suffix for path in (folder / "out").iterdir()} == {".json", ".md", ".png"}


def test_protocols_of_predictions(folder: Path, capsys: Capture) -> None:
    import numpy as np

    from soundwhere.data.synthetic.scenes import SPLIT_SEEDS

    (folder / "maps").mkdir()
    for index in range(6):
        maps = np.random.default_rng(index).random((2, 7, 7))
        np.savez(folder / "maps" / f"made-up-{SPLIT_SEEDS['test']}-{index}.npz", maps=maps)
    assert run(["analyse", "protocols", *SYNTHETIC, "--predictions", "maps"]) == 0
    captured = capsys.readouterr()
    assert "avgn" in captured.err
    assert "maps" in captured.out


def test_theory(folder: Path, capsys: Capture) -> None:
    assert run(["analyse", "theory", "--steps", "20", "--cells", "4", "4", "--out", "out"]) == 0
    out = capsys.readouterr().out
    assert "Lemma 1" in out
    assert "does not hold" in out
    values = json.loads((folder / "out" / "theory.json").read_text())
    assert values["settings"]["steps"] == 20
    assert len(values["trajectories"]) == 4
    assert all(len(path["c1"]) == 21 for path in values["trajectories"].values())
    assert len(list((folder / "out").glob("*.png"))) == 3


RECIPE = """
[model]
name = "scav-tiny"
frame_px = 64
dimension = 16
decoupler_layers = 1
decoupler_heads = 2
[data]
scenes = 8
[train]
steps_one = 2
steps_two = 300
batch_size = 4
"""


@pytest.mark.slow
def test_ablation(folder: Path, capsys: Capture) -> None:
    """Trains three rows in seconds, finds them when asked again, and names what it does not know."""
    (folder / "recipe.toml").write_text(RECIPE)
    arguments = ["analyse", "ablation", *SYNTHETIC, "--config", "recipe.toml", "--steps-two", "2", "--out", "out"]
    assert run([*arguments, "--rows", "full", "c", "d"]) == 0
    out = capsys.readouterr().out
    for words in (
        "Ablation, scored by masks",
        "Box against mask",
        "Selective convergence of the shared",
        "Differences",
    ):
        assert words in out
    values = json.loads((folder / "out" / "ablation.json").read_text())
    assert set(values["rows"]) == {"full", "b", "c", "d", "peel", "constant"}
    assert values["settings"]["steps_two"] == 2
    assert values["rows"]["c"]["paper"]["table"] == "tab:ablation"
    assert "paper, tab:ablation" in (folder / "out" / "ablation.md").read_text()
    assert {path.name for path in (folder / "out").iterdir()} == {
        *("ablation.json", "ablation.md", "ablation.png", "rows", "stage-one")
    }
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*.safetensors")}
    (folder / "copy").mkdir()
    shutil.copy(folder / "out" / "stage-one" / "stage-one.safetensors", folder / "copy" / "best.safetensors")
    assert run([*arguments, "--rows", "full", "--from", "copy"]) == 0  # the folder of a run, as a model may be given
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert run([*arguments, "--rows", "e"]) == 2
    assert "This recipe has no row e" in capsys.readouterr().err


def test_stage_one_needs_a_recording_of_each_source(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = WorldScenes(World(5, (32, 64), seconds=0.2), 2, silent=0)[0]
    together = replace(apart, name="both", sounds=apart.mixture[None])
    (folder / "recipe.toml").write_text(RECIPE)
    monkeypatch.setattr("soundwhere.cli.analyse.stage_one.task_of", lambda _: SimpleNamespace(scenes=[apart, together]))
    assert run(["analyse", "stage-one", *SYNTHETIC, "--config", "recipe.toml", "--out", "out"]) == 2
    assert "both has 2 sources and 1 separate sounds" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_recipes_of_other_methods_are_refused_by_name(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, documented: Callable[[str], ModuleType]
) -> None:
    monkeypatch.setitem(METHODS, "toy", documented("toy.py").METHOD)
    (folder / "recipe.toml").write_text('[method]\nname = "toy"\n')
    for analysis in ("ablation", "stage-one"):
        assert run(["analyse", analysis, *SYNTHETIC, "--config", "recipe.toml", "--out", "out"]) == 2
        assert "is a recipe of the method toy, not of scav" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_calibration(folder: Path, model_path: Path, capsys: Capture) -> None:
    arguments = ["analyse", "calibration", *SYNTHETIC, "--model", str(model_path)]
    assert run([*arguments, "--out", "out"]) == 0
    captured = capsys.readouterr()
    assert "Sounding or not" in captured.out
    values = json.loads((folder / "out" / "calibration.json").read_text())
    threshold = values["calibration"]["least_confidence"]
    assert 0 <= threshold <= 1
    assert f"least_confidence = {threshold:.4f}" in captured.err
    assert "synthetic val" in values["calibration"]["chosen_on"]
    assert (folder / "out" / "calibration.png").is_file()
    assert run([*arguments, "--choose", "halves"]) == 0
    assert "each half by the" in capsys.readouterr().out
    assert run([*arguments, "--split", "val"]) == 2
    assert "no other split" in capsys.readouterr().err


def test_a_model_that_counts_is_calibrated_on_val_alone(folder: Path, capsys: Capture) -> None:
    config = WideConfig(visual_weights="none", audio_weights="none", frame_px=64, others=2)
    write_model(folder / "wide.safetensors", WideSCAV(config))
    arguments = ["analyse", "calibration", *SYNTHETIC, "--model", "wide.safetensors", "--out", "out"]
    assert run([*arguments, "--split", "val"]) == 0
    said = capsys.readouterr()
    assert "Nothing, one or two" in said.out
    values = json.loads((folder / "out" / "calibration.json").read_text())
    assert f"dark = {values['dark']['below']:.4f}" in said.err
    found = values["counting"]
    assert found["chosen_on"] == found["reported_on"]
    assert "synthetic val" in found["chosen_on"]
    assert run([*arguments, "--split", "val", "--also", "synthetic"]) == 0
    both = json.loads((folder / "out" / "calibration.json").read_text())["counting"]
    assert both["chosen_on"].count("synthetic val") == 1, "the same list twice is one list"
    assert both["least_confidence"] == found["least_confidence"]
    capsys.readouterr()
    assert run([*arguments, "--split", "val", "--most-second", "0.15"]) == 0
    assert "second source in at most 15 %" in " ".join(capsys.readouterr().out.split())
    seldom = json.loads((folder / "out" / "calibration.json").read_text())
    assert seldom["settings"]["most_second"] == 0.15
    assert seldom["counting"]["second"]["value"] <= max(0.15, found["second"]["value"])
    assert run([*arguments, "--split", "val", "--choose", "halves"]) == 2
    assert "chosen on val" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["convergence", "--benchmark", "nothing"], "There is no benchmark"),
        (["convergence", "--benchmark", "synthetic", "--model", "missing.safetensors"], "does not exist"),
        (["convergence", *SYNTHETIC, "--run", "nowhere"], "stage-one"),
        (["convergence", *SYNTHETIC, "--gain-db", "-1"], "--gain-db"),
        (["convergence", "--benchmark", "synthetic", "--limit", "1"], "--limit"),
        (["convergence", "--benchmark", "real-duet"], "--data"),
        (["protocols", *SYNTHETIC], "--predictions"),
        (["convergence", *SYNTHETIC, "--sigma-px", "0"], "--sigma-px"),
        (["protocols", *SYNTHETIC, "--predictions", "nowhere"], "not a folder"),
        (["calibration", *SYNTHETIC, "--model", "scav-wide", "--most-second", "15"], "--most-second is 15"),
        (["calibration", *SYNTHETIC, "--model", "scav-tiny", "--most-second", "0.1"], "does not count"),
        (["theory", "--alpha", "0.5", "1.0"], "exchange them"),
        (["motion", "--data", "nowhere"], "not a folder"),
        (["motion", "--data", "nowhere", "--limit", "0"], "--limit"),
        (["motion", "--data", "small"], "Give the folder of wide-duet"),
        (["theory", "--tau", "0"], "greater than 0"),
        (["ablation", *SYNTHETIC, "--config", "full.toml", "--minutes", "-1"], "--minutes is -1"),
        (["ablation", *SYNTHETIC, "--config", "full.toml", "--from", "scav-wide"], "'scav-wide', which is not a SCAV"),
        (["ablation", *SYNTHETIC, "--config", "full.toml", "--from", "scav-tiny"], "another architecture"),
        (["theory", "--out", "full.toml"], "A file has that name"),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], words: str, capsys: Capture) -> None:
    (folder / "small").mkdir()
    (folder / "small" / "clips.csv").write_text("split,image,audio\n")
    (folder / "full.toml").write_text('[method]\nname = "scav-tiny"\nframe_px = 64\ndimension = 16\n')
    assert run(["analyse", *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""  # nothing was computed before
    assert {path.name for path in folder.iterdir()} == {"small", "full.toml"}


def test_unknown_analysis_is_a_usage_error(capsys: Capture) -> None:
    assert run(["analyse", "weather"]) == 2
    assert "no command 'analyse weather'" in capsys.readouterr().err


def test_figures_need_matplotlib(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run(["analyse", "theory", "--steps", "2", "--cells", "2", "2", "--out", "out"]) == 2
    assert "soundwhere[report]" in capsys.readouterr().err
    assert not (folder / "out").exists()
    assert run(["analyse", "theory", "--steps", "2", "--cells", "2", "2"]) == 0
