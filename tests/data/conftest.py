"""Miniature data sets, made when a test asks for them."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.real_duet import RealDuet
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = ("bell", "drum", "horn")
PER_CLASS = 3


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def tone(hertz: float, seconds: float, level: float = 0.2) -> np.ndarray:
    time_s = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    # rises over time, so that two parts of it are never equal
    return (level * (0.5 + time_s / seconds / 2) * np.sin(2 * np.pi * hertz * time_s)).astype(np.float32)


def make_real_duet(root: Path) -> Path:
    """9 train clips (photo i is filled with grey 20 + 20 i and sounds at 200 + 50 i Hz), a duet and a trio."""
    images, clips = [], []
    for folder in ("images", "audio", "masks"):
        (root / folder).mkdir(parents=True)
    for number in range(len(CLASSES) * PER_CLASS):
        kind, split = CLASSES[number // PER_CLASS], "val" if number % PER_CLASS == 2 else "train"
        photo, audio, mask = f"images/{number}.png", f"audio/{number}.wav", f"masks/{number}.png"
        Image.new("RGB", (40 + number, 32), (20 + 20 * number, 0, 255 - number)).save(root / photo)
        object_mask = np.zeros((32, 40 + number), np.uint8)
        object_mask[8:24, 10 : 20 + number] = 255
        Image.fromarray(object_mask).convert("1").save(root / mask)
        write_wav(root / audio, tone(200 + 50 * number, 5, 0.05 * (number + 1)))
        images.append({"image": photo, "class": kind, "split": split, "mask": mask, "mask_kind": "human"})
        clips.append({"id": f"c{number}", "split": split, "class": kind, "image": photo, "audio": audio})
    images[4]["mask_kind"] = "derived"
    images[0] |= {"mask": "", "mask_kind": ""}
    write_csv(root / "images.csv", images)
    write_csv(root / "clips.csv", clips)
    duet = {
        "id": "d0",
        "images": "images/2.png|images/4.png",
        "classes": "bell|drum",
        "audios": "audio/2.wav|audio/4.wav",
    }
    write_csv(root / "duets_val.csv", [duet])
    trio = {
        "id": "t0",
        "images": "images/2.png|images/5.png|images/8.png",
        "classes": "bell|drum|horn",
        "audios": "audio/2.wav||audio/8.wav",
    }
    write_csv(root / "trios_val.csv", [trio])
    return root


@pytest.fixture(scope="session")
def mini_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A miniature real-duet that no test changes."""
    return make_real_duet(tmp_path_factory.mktemp("real-duet"))


@pytest.fixture
def own_root(tmp_path: Path) -> Path:
    """A miniature real-duet to spoil."""
    return make_real_duet(tmp_path / "real-duet")


@pytest.fixture
def mini_clips(mini_root: Path):
    return RealDuet(mini_root).clips("train+val")
