from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from soundwhere.constants import IMAGENET_MEAN, IMAGENET_STD
from soundwhere.media.audio import write_wav
from soundwhere.methods.scav.config import NAMED
from soundwhere.methods.scav.model import SCAV
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from pathlib import Path


RED, BLUE = (255, 0, 0), (0, 0, 255)


class Colours(nn.Module):
    """Pictures to the share of pure red and of pure blue in each cell of 32 x 32 pixels, shape (B, 2, h, w)."""

    channels = 2
    stride = 32

    def forward(self, image: Tensor) -> Tensor:
        pixels = image * torch.tensor(IMAGENET_STD).view(3, 1, 1) + torch.tensor(IMAGENET_MEAN).view(3, 1, 1)
        red, green, blue = nn.functional.avg_pool2d(pixels, 32).unbind(1)
        return torch.stack([red - green, blue - green], dim=1).clamp(0, 1)


class RedAndBlue(SCAV):
    """A model whose answer is known: its sources are what is red and what is blue, in an order that keeps changing.

    The sound decides nothing but is encoded all the same; `encoded` counts the windows.
    """

    def __init__(self) -> None:
        super().__init__(NAMED["scav-tiny"])
        self.visual = Colours()
        self.encoded = 0
        self.located = 0

    def embed(self, spectrogram: Tensor) -> Tensor:
        self.encoded += len(spectrogram)
        return spectrogram.mean((1, 2, 3))[:, None, None].expand(-1, 2, 2)

    def answer(self, features: Tensor, heard: Tensor) -> Localisation:
        embeddings = torch.eye(2).expand(len(features), 2, 2)
        swapped = (torch.arange(len(features)) + self.located) % 3 == 1
        self.located += len(features)
        similarity = torch.where(swapped[:, None, None, None], features.flip(1), features)
        return Localisation.peaked(similarity, torch.where(swapped[:, None, None], embeddings.flip(1), embeddings))


@pytest.fixture
def red_and_blue() -> RedAndBlue:
    return RedAndBlue()


@pytest.fixture(scope="session")
def tiny() -> SCAV:
    """A model as it is before training."""
    torch.manual_seed(0)
    return SCAV(NAMED["scav-tiny"]).eval()


def picture(time_s: float) -> np.ndarray:
    """A red square that moves down at the left and a blue one at rest at the right, on white, 256 x 128."""
    image = np.full((128, 256, 3), 255, np.uint8)
    top = min(64, int(16 * time_s))
    image[top : top + 64, 0:64] = RED
    image[64:128, 192:256] = BLUE
    return image


@pytest.fixture(scope="session")
def squares_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5 s at 10 fps of a red and a blue square; noise for 2 s, then digital silence."""
    path = tmp_path_factory.mktemp("squares") / "squares.mp4"
    sound = np.zeros(5 * 22_050, np.float32)
    sound[: 2 * 22_050] = 0.2 * np.random.default_rng(0).standard_normal(2 * 22_050)
    with av.open(path, "w") as container:
        video = container.add_stream("libx264", rate=10, width=256, height=128, pix_fmt="yuv444p", options={"crf": "5"})
        audio = container.add_stream("aac", rate=22_050, layout="mono")
        for index in range(50):
            frame = av.VideoFrame.from_ndarray(picture(index / 10), format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 10)
            container.mux(video.encode(frame))
        samples = av.AudioFrame.from_ndarray(sound[None], format="fltp", layout="mono")
        samples.sample_rate, samples.pts, samples.time_base = 22_050, 0, Fraction(1, 22_050)
        container.mux(audio.encode(samples))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))
    return path


@pytest.fixture(scope="session")
def noise_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 s of noise."""
    path = tmp_path_factory.mktemp("noise") / "noise.wav"
    write_wav(path, 0.1 * np.random.default_rng(1).standard_normal(2 * 22_050).astype(np.float32))
    return path
