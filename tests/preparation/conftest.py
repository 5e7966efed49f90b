"""Small videos that differ, made once."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RATE_HZ = 22_050


def write_video(path: Path, seed: int, seconds: float = 4.0, sound: bool = True, picture: bool = True) -> Path:
    """A video of 64 x 48 at 5 fps whose pictures have the shade `seed`, with a tone of 200 + 30 `seed` Hz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tone = 0.3 * np.sin(2 * np.pi * (200 + 30 * seed) * np.arange(round(seconds * RATE_HZ)) / RATE_HZ)
    with av.open(path, "w") as container:
        video = container.add_stream("mpeg4", rate=5, width=64, height=48, pix_fmt="yuv420p") if picture else None
        audio = container.add_stream("aac", rate=RATE_HZ, layout="mono") if sound else None
        if video is not None:
            for index in range(round(seconds * 5)):
                image = np.full((48, 64, 3), 10 + 12 * seed % 240, np.uint8)
                image[8:24, 2 * index : 2 * index + 8] = 255
                frame = av.VideoFrame.from_ndarray(image, format="rgb24")
                frame.pts, frame.time_base = index, Fraction(1, 5)
                container.mux(video.encode(frame))
            container.mux(video.encode(None))
        if audio is not None:
            block = av.AudioFrame.from_ndarray(tone[None].astype(np.float32), format="fltp", layout="mono")
            block.sample_rate, block.pts, block.time_base = RATE_HZ, 0, Fraction(1, RATE_HZ)
            container.mux(audio.encode(block))
            container.mux(audio.encode(None))
    return path


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven videos of 4 s, one of 21 s, and a file that is none; nobody changes them."""
    folder = tmp_path_factory.mktemp("videos")
    for seed in range(11):
        write_video(folder / f"{seed % 3}" / f"clip{seed:02d}.mp4", seed)
    write_video(folder / "long.mp4", 11, 21.0)
    (folder / "bad.mp4").write_text("not a video\n" * 50)
    return folder


@pytest.fixture(scope="session")
def make_video() -> Callable[..., Path]:
    return write_video


@pytest.fixture(scope="session")
def hashes() -> Callable[[Path], dict[str, str]]:
    """The hash of every tar and of the index of a set."""

    def take(folder: Path) -> dict[str, str]:
        paths = [*sorted(folder.glob("*.tar")), folder / "index.bin"]
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}

    return take
