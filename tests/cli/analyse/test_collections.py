"""`soundwhere analyse collections` on a miniature of wide-duet: both folds are trained, scored and found again."""

from __future__ import annotations

import csv
import json
import wave
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.cli.main import run as main
from soundwhere.methods.wide.stages import Hearing

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("quick_intervals")

KINDS = {"dog": ("esc50", "us8k"), "violin": ("notes", "gm"), "cat": ("esc50",)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, two of which have sounds of two collections."""
    root = tmp_path_factory.mktemp("wide-duet")
    rng = np.random.default_rng(0)
    images, audios, clips = [], [], []
    for kind, collections in KINDS.items():
        for number in range(6):
            split = "train" if number < 4 else "test"
            photo, mask, audio = (f"{kind}-{number}.png", f"{kind}-{number}-mask.png", f"{kind}{number}.wav")
            Image.fromarray(rng.integers(0, 255, (40, 40, 3), np.uint8)).save(root / photo)
            shape = np.zeros((40, 40), np.uint8)
            shape[8:30, 10:30] = 255
            Image.fromarray(shape).save(root / mask)
            audio = f"{collections[number % len(collections)]}_{audio}"
            with wave.open(str(root / audio), "wb") as file:
                file.setparams((1, 2, 22_050, 0, "NONE", ""))
                file.writeframes((3000 * rng.standard_normal(5 * 22_050)).astype(np.int16).tobytes())
            images.append({"image": photo, "class": kind, "split": split, "mask": mask, "mask_kind": "human"})
            audios.append({"audio": audio, "class": kind, "split": split})
            clips.append({"id": photo, "split": split, "class": kind, "image": photo, "audio": audio})
    tables = {"images": images, "audios": audios, "clips": clips}
    for name, rows in tables.items():
        with (root / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    (root / "recipe.toml").write_text(
        '[method]\nname = "scav-wide"\nframe_px = 64\nvisual_weights = "none"\naudio_weights = "none"\n'
        "batch_size = 4\nbatch_size_two = 2\n[data]\nsource = 'real-duet'\nsilent = 1\n"
    )
    return root


def test_both_folds_are_trained_scored_and_found_again(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soundwhere.methods.scav.strength.STEPS", 10)  # of the head that knows shapes
    command = [
        *("analyse", "collections", "--data", str(root), "--config", str(root / "recipe.toml"), "--device", "cpu"),
        *("--cache", str(tmp_path / "cache"), "--steps-one", "1", "--steps-two", "1", "--limit", "4"),
        *("--out", str(tmp_path / "out")),
    ]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "without the first collection (to choose by)" in printed.out
    assert "without the second collection (to report)" in printed.out
    written = json.loads((tmp_path / "out" / "collections.json").read_text())
    assert set(written["folds"]) == {"first", "second"}
    assert set(written["folds"]["second"]["frames"]["model"]) >= {"by_peak", "by_mass"}
    assert written["settings"]["trios"] == {"first": 4, "second": 4}
    noted = json.loads((tmp_path / "out" / "rows" / "second" / "row.json").read_text())
    assert noted["config"]["data"]["left_out"] == "second"

    def forward(*_: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(Hearing, "forward", forward)
    assert main([*command, "--folds", "second"]) == 0
    assert "without the first" not in capsys.readouterr().out
    assert main([*command, "--seed", "5"]) == 2
    assert "was trained with other settings: " in capsys.readouterr().err


def test_a_set_with_one_collection_is_refused_before_training(
    mini_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["analyse", "collections", "--data", str(mini_root), "--out", str(out)]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not out.exists()
