from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from soundwhere.bench.localising import write_clip
from soundwhere.cli.demo import compare
from soundwhere.cli.main import run
from soundwhere.cli.serve import _key as serve_key
from soundwhere.data.synthetic.movie import MovieTruth, ThingTruth
from soundwhere.errors import ConfigError
from soundwhere.inference.footage import Footage
from soundwhere.inference.result import Answer, Result
from soundwhere.inference.settings import Settings
from soundwhere.media.video import probe
from soundwhere.methods.files import read_model
from soundwhere.methods.scav.config import NAMED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]


def test_demo(folder: Path, model_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soundwhere.cli.demo.SECONDS", 2.0)
    monkeypatch.setattr("soundwhere.cli.demo.SIZE", (96, 96))
    assert run(["demo", "--model", str(model_path), "--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert "(silent)" in out
    assert "of the time" in out
    assert "open demo/index.html" in out
    names = {path.name for path in (folder / "demo").iterdir()}
    expected = {"clip.mp4", "clip.truth.json", "overlay.mp4", "overlay.png", "heatmaps", "result.json", "index.html"}
    assert names == expected
    assert probe(folder / "demo" / "overlay.mp4").has_audio
    assert run(["demo", "--model", str(model_path), "--seed", "4"]) == 0  # replaces the earlier one
    assert [path.name for path in folder.iterdir()] == ["demo"]


def test_demo_never_replaces_what_is_not_its_own(folder: Path, model_path: Path, capsys: Capture) -> None:
    (folder / "demo").mkdir()
    (folder / "demo" / "notes.txt").write_text("mine")
    assert run(["demo", "--model", str(model_path)]) == 2
    assert "something other than a result" in capsys.readouterr().err
    assert (folder / "demo" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("out", [".", "../demo"])
def test_the_demo_does_not_replace_the_folder_it_runs_in(
    out: str, tmp_path: Path, model_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path / "demo")
    assert run(["demo", "--model", str(model_path), "--out", out]) == 2
    assert f"{out} is the current folder" in capsys.readouterr().err
    assert list((tmp_path / "demo").iterdir()) == []


def test_the_demo_compares_with_the_truth(clip_path: Path) -> None:
    """Two things swap sides half-way; the sources follow them, but source 1 is lost a fifth of the time."""
    left, right = (0, 0, 24, 32), (72, 32, 96, 64)
    boxes = [(left, right)] * 10 + [(right, left)] * 10
    things = [
        ThingTruth("bell", ((0.0, 2.0),), tuple(pair[1] for pair in boxes), (1,) * 20),
        ThingTruth("drum", ((0.0, 1.0),), tuple(pair[0] for pair in boxes), (1,) * 20),
        ThingTruth("frog", (), tuple(pair[0] for pair in boxes), (1,) * 20),
    ]
    truth = MovieTruth("clip.mp4", 96, 64, 10, 2.0, tuple(things))
    footage = Footage.open(clip_path)
    answers = []
    for frame in range(10):
        maps = np.zeros((2, 4, 6), np.float32)
        maps[(0, 0, 0) if frame < 5 else (0, 3, 5)] = 1  # source 1 follows the drum
        maps[(1, 3, 5) if frame < 5 else (1, 0, 0)] = 1  # source 2 follows the bell
        if frame == 2:
            maps[0] = np.eye(4, 6)[::-1] * [0, 0, 1, 0, 0, 0]
        answers.append(Answer(frame / 5, maps, maps.max((1, 2)), np.array([True, True]), -10.0, (64, 96)))
    result = Result.collect(footage, answers, Settings(), NAMED["scav-tiny"], 5.0)
    bell, drum = compare(result, truth)
    assert (bell.thing, bell.source, bell.hits, bell.centre_hits) == (0, 1, 1.0, 0.0)
    assert (drum.thing, drum.source, drum.hits) == (1, 0, pytest.approx(0.8))
    assert drum.random_hits == pytest.approx(24 * 32 / (96 * 64))
    assert drum.distance > bell.distance > 0


def test_world(folder: Path, capsys: Capture) -> None:
    assert run(["world", "--out", "world", "--scenes", "2", "--seed", "5"]) == 0
    with (folder / "world" / "scenes" / "scenes.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 2
    assert run(["world", "--out", "world", "--scenes", "0", "--movies", "0"]) == 2
    assert "nothing to write" in capsys.readouterr().err


def test_world_movies(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from soundwhere.data.synthetic import movie

    written = []
    original = movie.write_movie
    monkeypatch.setattr(movie, "write_movie", lambda *a, **k: written.append(original(*a, seconds=2.0, fps=2, **k)))
    for _ in range(2):  # the second time they are there
        assert run(["world", "--out", "world", "--scenes", "0", "--movies", "2"]) == 0
    assert len(written) == 2
    truth = json.loads((folder / "world" / "movies" / "made-up-0-1.truth.json").read_text())
    assert len(truth["things"]) == 3
    assert probe(folder / "world" / "movies" / "made-up-0-1.mp4").has_audio
    assert run(["world", "--out", "world", "--scenes", "0", "--movies", "2", "--silent", "0"]) == 2
    assert "movies was made with other settings" in capsys.readouterr().err
    assert run(["world", "--out", "world", "--scenes", "0", "--movies", "1", "--seed", "1"]) == 0  # has its own names


@pytest.mark.parametrize("what", ["scenes", "movies"])
def test_a_world_that_cannot_be_made_claims_no_folder(what: str, folder: Path, capsys: Capture) -> None:
    numbers = ["--scenes", "0", "--movies", "0", f"--{what}", "1"]
    assert run(["world", "--out", "world", *numbers, "--sounding", "100"]) == 2
    assert "cannot be made" in capsys.readouterr().err
    assert not (folder / "world").exists()


def test_the_key_of_a_server_lasts_and_is_nobody_elses(folder: Path) -> None:
    work, path = folder / "work", folder / "work" / "key"
    key = serve_key(work)
    assert len(key) >= 32
    assert sys.platform == "win32" or path.stat().st_mode & 0o777 == 0o600
    assert serve_key(work) == key
    path.write_text("")  # as a full disk leaves it
    again = serve_key(work)
    assert len(again) >= 32
    assert serve_key(work) == again
    assert [file.name for file in work.iterdir()] == ["key"]
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        serve_key(work)


@pytest.mark.parametrize(
    "command",
    [
        ["sources", "--scenes", "0"],
        ["seam", "--root", "real-duet", "--scenes", "-3"],
        ["localise", "--seconds", "-1"],
        ["localise", "--seconds", "nan"],
        ["train", "--steps", "1"],
    ],
)
def test_nothing_to_measure(command: list[str], folder: Path, capsys: Capture) -> None:
    assert run(["bench", *command]) == 2
    message, remedy = capsys.readouterr().err.strip().split("\n")
    assert "internal error" not in message
    assert remedy.startswith("Give ")


def test_how_fast_a_clip_is_localised(
    folder: Path, model_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_clip(folder / "clip.mp4", 1.0, size=(64, 96), fps=10)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)  # torch alone: an export takes a minute
    assert run(["bench", "localise", "--clip", "clip.mp4", "--model", str(model_path), "--fps", "4"]) == 0
    said = capsys.readouterr()
    assert "onnx and openvino are left out" in said.err
    lines = {line[:12].strip(): line.split() for line in said.out.splitlines()}
    assert lines["plain loop"][-1] == "1.0"
    seconds, speed, ratio = map(float, lines["torch"][1:4])
    assert speed * seconds == pytest.approx(4, abs=0.01 * speed)  # seconds are printed with two digits
    assert ratio > 0
    assert "4/4" in lines["torch"]  # the same maps as the plain loop's
    assert "times real time" in said.out


def test_the_seam_says_how_many_duets_there_were_and_how_far_it_reaches(
    own_root: Path, model_path: Path, tmp_path: Path, capsys: Capture
) -> None:
    header, duet = (own_root / "duets_val.csv").read_text().splitlines()
    turned = "d1,images/4.png|images/2.png,drum|bell,audio/4.wav|audio/2.wav"
    (own_root / "duets_val.csv").write_text("\n".join([header, duet, turned, duet.replace("d0", "d2")]) + "\n")
    torch.save(read_model(model_path).visual.state_dict(), tmp_path / "eye.pth")
    command = ["bench", "seam", "--root", str(own_root), "--model", "scav-tiny"]
    command += ["--visual-weights", str(tmp_path / "eye.pth")]
    assert run([*command, "--scenes", "64", "--json", str(tmp_path / "seam.json")]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("scav-tiny, 3 duets of real-duet val")
    shares = [float(line.split()[-2]) for line in lines]
    # frames of 128 pixels are 8 cells wide; a cell sees 38 pixels, averaged over its neighbours: 2 cells from the seam
    assert len(shares) == 8
    assert shares[0] > 1
    assert shares[2:] == [0.0] * 6
    kept = json.loads((tmp_path / "seam.json").read_text())
    assert kept["command"] == "soundwhere bench seam --model scav-tiny --scenes 64"
    assert [row["cells"] for row in kept["rows"]] == list(range(1, 9))
    assert [round(100 * row["difference"], 1) for row in kept["rows"]] == shares
    assert run([*command, "--scenes", "2"]) == 0
    assert capsys.readouterr().out.startswith("scav-tiny, 2 duets of")


def test_the_seam_is_that_of_the_given_weights_whatever_the_method(
    own_root: Path, tmp_path: Path, capsys: Capture
) -> None:
    command = ["bench", "seam", "--root", str(own_root), "--model", "ez-vsl"]
    assert run([*command, "--visual-weights", str(tmp_path / "nowhere.pth")]) == 2
    assert "nowhere.pth" in capsys.readouterr().err


def test_doctor(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "weights").mkdir()
    (folder / "weights" / "resnet18-f37072fd.pth").touch()
    monkeypatch.setenv("SOUNDWHERE_WEIGHTS", str(folder / "weights"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("soundwhere", "python", "torch", "libavcodec", "threads", "train", "torch hub", "cache"):
        assert word in out
    assert "resnet18-f37072fd.pth" in out


def test_doctor_says_what_to_install(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from soundwhere.cli import doctor

    monkeypatch.setattr(doctor, "requires", lambda _: ["torch>=2", "no-such-thing>=1 ; extra == 'moon'"])
    assert run(["doctor"]) == 0
    assert "missing no-such-thing: pip install 'soundwhere[moon]'" in capsys.readouterr().out


def test_doctor_looks_into_files(give: Callable[[str], Path], model_path: Path, capsys: Capture) -> None:
    assert run(["doctor", str(model_path)]) == 0
    out = capsys.readouterr().out
    assert "scav-tiny" in out
    assert "dimension" in out
    assert "licence" in out
    assert run(["doctor", str(give("mute"))]) == 0
    assert "no sound: localise it with --audio" in capsys.readouterr().out
    assert run(["doctor", str(give("text"))]) == 2
    assert run(["doctor", "missing.safetensors"]) == 2
    assert run(["doctor", "missing.onnx"]) == 2
    assert "soundwhere export" in capsys.readouterr().err


def test_doctor_knows_built_in_models_by_name(capsys: Capture) -> None:
    assert run(["doctor", "scav-tiny"]) == 0
    out = capsys.readouterr().out
    assert "scav-tiny.safetensors: scav-tiny, " in out
    assert "licence" in out
    assert run(["doctor", "scav-r18"]) == 2
    assert "No trained weights ship for scav-r18" in capsys.readouterr().err


def test_doctor_looks_into_folders_of_the_hub(folder: Path, model_path: Path, capsys: Capture) -> None:
    read_model(model_path).save_pretrained(folder / "hub")
    assert run(["doctor", "hub"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("hub/model.safetensors: scav-tiny, ")
    assert "dimension" in out
    assert "facts" not in out
