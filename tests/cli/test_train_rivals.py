"""`soundwhere train` with another method than SCAV, and from a checkpoint that its authors released."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.cli.main import run
from soundwhere.methods.catalogue import named_config
from soundwhere.methods.files import build, read_model, read_tensors
from soundwhere.methods.published import published_name

if TYPE_CHECKING:
    from pathlib import Path

SMALLEST = [
    *("--visual", "tiny", "--audio", "tiny", "--frame-px", "64", "--spectrogram", "mel", "--scenes", "8"),
    *("--batch-size", "4", "--device", "cpu", "--steps", "1"),
]


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A checkpoint as the authors of OTS would have saved it, of a small network."""
    torch.manual_seed(0)
    network = build(replace(named_config("ots"), visual="tiny", audio="tiny", frame_px=64))
    names = {ours: theirs for theirs, ours in network.published.items()}
    tensors = {}
    for name, tensor in network.state_dict().items():
        part = f"{name.split('.')[0]}."
        tensors[names[part] + name.removeprefix(part)] = tensor
    torch.save(tensors, tmp_path / "avolnet.pth")
    return tmp_path / "avolnet.pth"


def test_training_begins_from_a_published_checkpoint(released: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    begun = ["--checkpoint-of", "ots", "--from", str(released), "--keep-every", "1", *SMALLEST]
    assert run(["train", "--out", str(out), *begun]) == 0
    assert read_model(out / "best.safetensors").config.family == "ots"
    first = read_tensors(out / "steps" / "stage-one-000000.safetensors", "model.")
    theirs = torch.load(released, weights_only=True)
    assert torch.equal(first["aud_fc1.weight"], theirs["aud_fc1.weight"])
    assert torch.equal(first["visual.layers.0.0.weight"], theirs["icn.layers.0.0.weight"])
    assert run(["train", "--out", str(out), "--resume", "--steps", "2"]) == 0


def test_a_checkpoint_of_another_method_is_refused_by_name(
    released: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    wrong = ["train", "--out", str(out), "--checkpoint-of", "lvs", "--from", str(released), *SMALLEST]
    assert run(wrong) == 2
    said = capsys.readouterr().err
    assert "not a published checkpoint of 'lvs'" in said
    assert "unknown: icn." in said
    assert not out.exists()
    assert run(["train", "--out", str(out), "--checkpoint-of", "ots", *SMALLEST]) == 2
    assert "--from FILE" in capsys.readouterr().err
    assert run(["train", "--out", str(out), "--model", "lvs", "--checkpoint-of", "ots", "--from", str(released)]) == 2
    assert "configuration is of 'lvs'" in capsys.readouterr().err


CLASSES = ("bell", "drum", "horn")  # of the clips


@pytest.fixture
def with_classes(tmp_path: Path) -> Path:
    """A checkpoint as the authors of CoarseToFine would have saved it, of a small network."""
    torch.manual_seed(0)
    small = {"visual": "tiny", "audio": "tiny", "visual_weights": "none", "frame_px": 64, "fine_grid": False}
    network = build(replace(named_config("coarse-to-fine"), classes=CLASSES, **small))
    tensors = {published_name(name, network.published): tensor for name, tensor in network.state_dict().items()}
    torch.save(tensors, tmp_path / "coarse.pth")
    return tmp_path / "coarse.pth"


def test_a_released_checkpoint_with_classes_takes_their_names_from_the_clips(
    with_classes: Path, mini_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, clips = tmp_path / "run", ["--source", "real-duet", "--root", str(mini_root)]
    begun = ["--checkpoint-of", "coarse-to-fine", "--from", str(with_classes), "--steps-two", "1", *SMALLEST]
    begun += ["--visual-weights", "none", "--no-fine-grid", "--layouts", "side-by-side"]
    assert run(["train", "--out", str(tmp_path / "none"), *begun, "--source", "synthetic"]) == 2
    assert "--source real-duet" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    assert run(["train", "--out", str(out), *begun, *clips, "--keep-every", "1"]) == 0
    assert read_model(out / "best.safetensors").config.classes == CLASSES  # type: ignore[attr-defined]
    first = read_tensors(out / "steps" / "stage-one-000000.safetensors", "model.")
    theirs = torch.load(with_classes, weights_only=True)
    assert torch.equal(first["heard_classes.classifier.weight"], theirs["class_a.weight"])


def test_classes_of_a_released_checkpoint_are_named_to_score_it(
    folder: Path, own_root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soundwhere.evaluation.constant._ENOUGH", 1)
    header, trio = (own_root / "trios_val.csv").read_text().splitlines()
    (own_root / "trios_val.csv").write_text("\n".join([header, trio, trio.replace("t0", "t1")]) + "\n")
    torch.manual_seed(0)
    network = build(replace(named_config("coarse-to-fine"), classes=CLASSES))  # type: ignore[call-arg]
    tensors = {published_name(name, network.published): tensor for name, tensor in network.state_dict().items()}
    torch.save(tensors, folder / "coarse.pth")
    score = ["evaluate", "--benchmark", "real-trio", "--data", str(own_root), "--split", "val", "--no-page"]
    score += ["--out", "out", "--model", "coarse.pth"]
    released = [*score, "--checkpoint-of", "coarse-to-fine"]
    assert run(released) == 2
    assert "needs the names of its classes" in (said := capsys.readouterr().err)
    assert "--classes NAME" in said
    assert run([*released, "--classes", "bell", "drum"]) == 2
    assert "class_a.weight (3, 512, 1, 1) instead of (2, 512, 1, 1)" in capsys.readouterr().err
    assert run([*released, "--classes", "bell", "drum", "whale"]) == 2
    assert "not trained on the class 'horn'" in capsys.readouterr().err
    assert run([*released, "--classes", *CLASSES]) == 0
    assert "coarse.pth (labels given" in capsys.readouterr().out
    assert run([*score, "--classes", *CLASSES]) == 2
    assert "Add --checkpoint-of METHOD" in capsys.readouterr().err
    assert run([*score, "--checkpoint-of", "lvs", "--classes", *CLASSES]) == 2
    assert "'lvs' knows no classes" in capsys.readouterr().err
    assert run(score) == 2
    assert "--checkpoint-of METHOD" in capsys.readouterr().err


def test_a_released_checkpoint_is_scored_beside_our_models(
    folder: Path, model_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soundwhere.evaluation.constant._ENOUGH", 4)
    torch.manual_seed(0)
    network = build(named_config("ots"))
    names = {ours: theirs for theirs, ours in network.published.items()}
    tensors = {}
    for name, tensor in network.state_dict().items():
        part = f"{name.split('.')[0]}."
        tensors[names[part] + name.removeprefix(part)] = tensor
    torch.save({"state_dict": tensors}, folder / "avolnet.pth")
    score = ["evaluate", "--benchmark", "synthetic", "--count", "2", "--out", "out", "--no-page", "--model"]
    assert run([*score, str(model_path), "avolnet.pth", "--checkpoint-of", "ots"]) == 0
    out = capsys.readouterr().out
    assert "avolnet.pth (same map twice), audio-shuffled" in out
    assert "tiny - avolnet.pth" in out

    assert run([*score, "avolnet.pth", "--checkpoint-of", "lvs"]) == 2
    said = capsys.readouterr().err
    assert "not a published checkpoint of 'lvs'" in said
    assert "unknown: icn." in said
    assert "missing: imgnet.conv1.weight" in said
    assert "Its names are those of 'ots'" in said
    assert run([*score, "avolnet.pth", "--checkpoint-of", "weather"]) == 2
    assert "no model named 'weather'" in capsys.readouterr().err
    assert run([*score, str(model_path), "--checkpoint-of", "ots"]) == 2
    assert "none of the models is a file that its authors" in capsys.readouterr().err
    assert run([*score, str(model_path), "nowhere.pth", "--checkpoint-of", "ots"]) == 2
    assert "There is no model named 'nowhere.pth' and no such file." in capsys.readouterr().err
