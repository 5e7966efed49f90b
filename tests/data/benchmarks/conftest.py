"""Miniature media and annotation files, made when a test asks for them."""

from __future__ import annotations

import json
import pickle
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DOG, DRUM, CHOIR, SPEECH = "dogdogdogdo_000001", "drumdrumdru_000002", "choirchoirc_000003", "speechspeec_000004"


def write_still(root: Path, name: str, grey: int, hertz: float = 300, seconds: float = 5, level: float = 0.2) -> None:
    """A picture of one grey, 40 x 30, and a tone."""
    picture, sound = root / "frames" / f"{name}.jpg", root / "audio" / f"{name}.wav"
    picture.parent.mkdir(parents=True, exist_ok=True)
    sound.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 30), (grey, grey, grey)).save(picture, quality=95)
    time_s = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    write_wav(sound, (level * np.sin(2 * np.pi * hertz * time_s)).astype(np.float32))


@pytest.fixture
def still() -> Callable[..., None]:
    return write_still


@pytest.fixture
def annotations(tmp_path: Path) -> Path:
    """Every upstream file in miniature: 4 VGG-SS clips, pairs, instruments, frames of MUSIC, a negative."""
    root = tmp_path / "annotations"
    for folder in ("lvs", "avgn", "dsol", "ez-vsl", "slavc", "vggsound"):
        (root / folder).mkdir(parents=True)
    clips = [
        {"file": DOG, "class": "dog barking", "bbox": [[0.0, 0.0, 0.5, 0.5], [0.25, 0.25, 0.5, 1.5]]},
        {"file": DRUM, "class": "playing drum", "bbox": [[0.5, 0.5, 1.0, 1.0], [0.3, 0.3, -2.9e16, 0.5]]},
        {"file": CHOIR, "class": "singing choir", "bbox": [[0.3, 1.0, 0.7, 1.0]]},
        {"file": SPEECH, "class": "female speech, woman speaking", "bbox": [[0.25, 0.25, 0.75, 0.75]]},
    ]
    (root / "lvs/vggss.json").write_text(json.dumps(clips))
    (root / "avgn/vggsound_duet_test.csv").write_text(
        f"{DOG},dog_barking,{SPEECH},female_speech_woman_speaking\n"
        f"{DRUM},playing_drum,{DOG},dog_barking\n"
        f"{SPEECH},female_speech_woman_speaking,{DRUM},playing_drum\n"
        f"{CHOIR},singing_choir,{CHOIR},singing_choir\n"
    )
    (root / "avgn/vgginstruments_test.csv").write_text("sample0000,banjo\nsample0001,steel_guitar\n")
    (root / "avgn/vgginstruments_multi_test.csv").write_text("sample0000,banjo,sample0001,steel_guitar\n")
    video = "HnUOaSfTA6c"
    cello = {"box": [64, 36, 320, 180], "normbox": [0.1, 0.1, 0.5, 0.5], "category_id": 1}
    guitar = {"box": [320, 180, 320, 180], "normbox": [0.5, 0.5, 0.5, 0.5], "category_id": 3}
    size = {"wdith": 640, "height": 360}
    duets = {
        f"{video}_0_1000/frame_001/00030.jpg": {"bbox": [cello, guitar], **size},
        f"{video}_0_1000/frame_002/00060.jpg": {"bbox": [cello], **size},
        f"{video}_0_1000/frame_003/00090.jpg": {"bbox": [], **size},
    }
    (root / "dsol/duettest.json").write_text(json.dumps(duets))
    (root / "dsol/solotest.json").write_text(json.dumps(dict(list(duets.items())[1:])))
    duet = {"class_src1": "cello", "bbox_src1": cello["normbox"], "class_src2": "acoustic_guitar"}
    frames = [{"file": f"{video}_001_00030", **duet, "bbox_src2": [0.5, 0.5, 0.4, 0.5]}]
    (root / "avgn/music_duet.json").write_text(json.dumps(frames))
    solos = [{"file": f"{video}_002_00060", "class": "cello", "bbox": cello["normbox"]}]
    (root / "avgn/music_solo.json").write_text(json.dumps(solos))
    (root / "ez-vsl/vggss_heard_test.csv").write_text(f"{DOG}\n{DRUM}\n")
    (root / "ez-vsl/vggss_unheard_test.csv").write_text(f"{SPEECH}\n")
    (root / "slavc/vggss_test_plus_silent.csv").write_text(
        f"video,audio,label\n{DOG},{DRUM},non-sounding\nelsewhere_1_000009,elsewhere_1_000009,non-sounding\n"
    )
    (root / "vggsound/test.csv").write_text(f"{DOG}.mp4,dog barking\n")
    (root / "vggsound/stat.csv").write_text("dog barking,1050,animals\n")
    return root


@pytest.fixture
def media(tmp_path: Path, clip_path: Path) -> Path:
    """Dog (grey 60) and drum (grey 120, 1 s of sound) as picture and sound, speech as a video; the choir is missing."""
    root = tmp_path / "media"
    write_still(root, DOG, 60, hertz=300, level=0.4)
    write_still(root, DRUM, 120, hertz=700, seconds=1, level=0.1)
    shutil.copy(clip_path, root / f"{SPEECH}.mp4")
    return root


@pytest.fixture
def masks(tmp_path: Path) -> Path:
    """Masks as the authors publish them: pickled uint8 arrays of the frame's size (30 x 40)."""
    folder = tmp_path / "pickles"
    folder.mkdir()
    for name in (DOG, SPEECH, "sample0000", "sample0001"):
        mask = np.zeros((30, 40), np.uint8)
        mask[:15, :20] = 1
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(mask))
    return folder
