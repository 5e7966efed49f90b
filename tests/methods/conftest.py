"""Small models and batches for the tests of this room."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from PIL import Image

from soundwhere.media.audio import write_wav
from soundwhere.methods.catalogue import named_config
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from soundwhere.methods.scav.config import SCAVConfig

TINY = replace(named_config("scav-tiny"), frame_px=32, dimension=16, decoupler_layers=1, decoupler_heads=2)


CLASSES = ("bell", "drum", "horn")
CLIPS = 12


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dozen clips of three classes in the layout of real-duet, and captions of their pictures."""
    root = tmp_path_factory.mktemp("clips")
    generator = np.random.default_rng(0)
    rows = []
    for number in range(CLIPS):
        photo, audio = f"{number}.png", f"{number}.wav"
        pixels = generator.integers(0, 255, (64, 64, 3), np.uint8)
        pixels[16:48, 16:48] = 80 * (number % 3)
        Image.fromarray(pixels).save(root / photo)
        seconds = np.arange(5 * 22_050) / 22_050
        tone = np.sin(2 * np.pi * (200 + 300 * (number % 3)) * seconds) + generator.normal(size=len(seconds)) / 4
        write_wav(root / audio, (0.1 * tone * (0.5 + seconds / 10)).astype(np.float32))
        rows.append(
            {"id": f"c{number}", "split": "train", "class": CLASSES[number % 3], "image": photo, "audio": audio}
        )
    with (root / "clips.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    np.savez(
        root / "captions.npz",
        names=np.array([row["image"] for row in rows]),
        foreground=generator.normal(size=(CLIPS, 2, 10)),
        background=generator.normal(size=(CLIPS, 10)),
    )
    return root


@pytest.fixture
def tiny() -> SCAVConfig:
    """`scav-tiny` with a 16-channel stage 2 of one layer."""
    return TINY


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """Noise to see and hear: `make_batch(samples, solos=True)`."""

    def make(samples: int = 3, solos: bool = True, side: int = 64) -> Batch:
        generator = torch.Generator().manual_seed(0)
        sounds = 0.1 * torch.randn(samples, 2, 5512, generator=generator)
        image = torch.randn(samples, 3, side, side, generator=generator)
        return Batch(sounds.sum(1), image, solos=sounds if solos else None)

    return make


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Such small tensors are not worth sharing between threads, least of all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
