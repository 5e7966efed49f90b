"""`soundwhere analyse compare` from the first step to the page, killed in between and taken up again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from soundwhere.cli.main import run
from soundwhere.training.loop import DivergedError

if TYPE_CHECKING:
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("quick_intervals")

RIVAL = """
[method]
name = "{name}"
visual = "tiny"
audio = "tiny"
visual_weights = "none"
frame_px = 64
spectrogram = "mel"
dimension = 16
batch_size = 4
[data]
scenes = 8
"""
SCAV = """
[method]
name = "scav-tiny"
frame_px = 64
dimension = 16
decoupler_layers = 1
decoupler_heads = 2
steps_one = 1
steps_two = 1
batch_size = 4
[data]
scenes = 8
"""
COMMAND = ["analyse", "compare", "--configs", "rivals", "--recipe", "scav.toml", "--out", "out", "--device", "cpu"]
BENCHMARK = ["--benchmark", "synthetic", "--layout", "side-by-side", "--limit", "4"]


@pytest.fixture
def recipes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Configurations of three rivals and of SCAV; the constant answer is chosen by few scenes."""
    monkeypatch.setattr("soundwhere.evaluation.constant._ENOUGH", 4)
    (folder / "rivals").mkdir()
    for name in ("dmc", "lvs", "oa-ssl"):
        (folder / "rivals" / f"{name}-controlled.toml").write_text(RIVAL.format(name=name))
    (folder / "scav.toml").write_text(SCAV)
    return folder


def test_from_training_to_the_page(recipes: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from soundwhere.methods.scav.stages import SCAVStage

    with monkeypatch.context() as patched:
        patched.setattr(SCAVStage, "objective", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run([*COMMAND, *BENCHMARK]) == 130
    rows = recipes / "out" / "rows"
    done = {path: path.stat().st_mtime_ns for path in rows.rglob("best.safetensors")}
    assert {path.parent.name for path in done} == {"dmc-seed-0", "lvs-seed-0"}
    capsys.readouterr()

    assert run([*COMMAND, *BENCHMARK, "--also", "lvs=1"]) == 0
    captured = capsys.readouterr()
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert "No sign that these listen" in captured.out or "With another scene's sound" in captured.out
    assert "against SCAV, by CIoU@0.3?" in captured.out

    values = json.loads((recipes / "out" / "compare.json").read_text())
    names = ["dmc (number given, cluster of each sound centre)", "lvs, seed 0 (same map twice)"]
    names += ["lvs, seed 1 (same map twice)", "scav"]
    assert list(values["rows"]) == names
    assert values["left_out"] == {"oa-ssl": "it needs the embeddings of captions (--captions FILE)"}
    assert values["settings"]["steps"] == 2
    found = values["benchmarks"]["synthetic test"]
    assert found["scenes"] == 4
    assert set(found["seconds"]) == set(names)
    assert set(found["differences"]) == {f"{name} - scav" for name in names[:3]}
    for control in ("", ", audio-shuffled", ", silence", ", picture-shuffled"):
        assert f"scav{control}" in found["scores"]
    assert {"value", "low", "high"} == set(found["lost"]["scav"]["ciou@0.3"])
    page = (recipes / "out" / "compare.html").read_text()
    for words in ("Beside published figures", "quoted by SCAV; figures of the AVGN paper", "seed 0, 2 steps in"):
        assert words in page
    for heading in ("Best scenes of scav, synthetic test", "Random scenes (seed 0), synthetic test"):
        assert heading in page
    assert "**synthetic test: listening?**" in (recipes / "out" / "compare.md").read_text()
    assert (recipes / "out" / "synthetic" / "results.json").is_file()

    # another budget is refused before anything is trained; nothing is lost
    assert run([*COMMAND, *BENCHMARK, "--steps", "3"]) == 2
    assert "trained with other settings: method.steps" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in done} == done

    # a model that is taken, under its name only
    taken = rows / "lvs-seed-0"
    assert run([*COMMAND, *BENCHMARK, "--methods", "dmc", "--take", f"dmc={taken}"]) == 2
    assert "a model of the method 'lvs', not of 'dmc'" in capsys.readouterr().err
    assert run([*COMMAND, *BENCHMARK, "--methods", "lvs", "--take", f"lvs={taken}"]) == 0
    values = json.loads((recipes / "out" / "compare.json").read_text())
    assert values["rows"]["lvs (same map twice)"]["trained"] == f"taken from {taken}"


def test_a_row_that_diverges_does_not_take_the_others_with_it(
    recipes: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from soundwhere.analysis import trained_rows

    real = trained_rows.train

    def diverges(config: object, folder: Path, **keywords: object) -> Path:
        if folder.name.startswith("lvs"):
            raise DivergedError("At step 1 the loss is nan.", "Lower the rate.")
        return real(config, folder, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(trained_rows, "train", diverges)
    assert run([*COMMAND, *BENCHMARK, "--methods", "lvs", "dmc"]) == 0
    assert json.loads((recipes / "out" / "compare.json").read_text())["left_out"] == {
        "lvs": "At step 1 the loss is nan."
    }
    assert "left out: At step 1 the loss is nan." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--methods", "weather"], "There is no row weather"),
        (["--methods", "oa-ssl"], "oa-ssl: OA-SSL needs the embeddings of captions"),
        (["--take", "lvs"], "--take lvs does not name a method and MODEL"),
        (["--take", "weather=x"], "no method 'weather'"),
        (["--also", "lvs=one"], "Give seeds as numbers"),
        (["--steps", "0"], "--steps is 0"),
        (["--steps", "1"], "steps is 1"),
        (["--minutes", "0"], "--minutes is 0"),
        (["--limit", "1"], "--limit is 1"),
        (["--configs", "nowhere"], "nowhere holds no controlled configuration"),
        (["--benchmark", "synthetic", "nothing"], "There is no benchmark 'nothing'"),
        (["--benchmark", "real-duet"], "does not take the option 'layout'"),
        (["--benchmark", "synthetic", "real-duet"], "real-duet needs a folder"),
    ],
)
def test_bad_input_is_refused_before_anything_is_trained(
    recipes: Path, options: list[str], words: str, capsys: Capture
) -> None:
    assert run([*COMMAND, *BENCHMARK, *options]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert not (recipes / "out").exists()


def test_labels_that_clips_or_scenes_lack_are_refused(recipes: Path, capsys: Capture) -> None:
    (recipes / "rivals" / "avgn-controlled.toml").write_text(RIVAL.format(name="avgn"))
    assert run([*COMMAND, *BENCHMARK, "--methods", "lvs", "avgn"]) == 2
    assert "avgn: The made-up world has scenes, not clips." in capsys.readouterr().err
    assert not (recipes / "out").exists()


def test_it_runs_on_one_process(recipes: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run([*COMMAND, *BENCHMARK]) == 2
    assert "without torchrun" in capsys.readouterr().err
