"""FFmpeg's scaler on decoded frames against Pillow on what they show."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from PIL import Image as Pillow

from soundwhere.data.synthetic import World
from soundwhere.media.image import resize
from soundwhere.media.shrink import Undeveloped
from soundwhere.media.video import read_frames, stream_undeveloped

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("size", [(720, 1280), (64, 96), (333, 501)])
def test_pictures_are_resized_as_everywhere_else(size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    for picture, most in ((World(seed=0, size=size).scene(0).image, 2), (noise, 16)):  # at the borders of noise
        for frame in (picture, av.VideoFrame.from_ndarray(picture, format="rgb24")):
            off = np.abs(Undeveloped(frame, size[::-1]).at((128, 192)) - resize(picture, (128, 192)).astype(int))
            assert off[4:-4, 4:-4].max() <= 1
            assert off.max() <= most
            assert off.mean() < 0.2


@pytest.mark.parametrize("form", ["yuv420p", "yuvj420p", "nv12", "yuv422p10le", "yuv444p", "gray"])
@pytest.mark.parametrize("shown", [(480, 320), (640, 320)])  # of square pixels, and of wide ones
def test_colours_of_every_kind_of_frame(form: str, shown: tuple[int, int]) -> None:
    picture = World(seed=0, size=(320, 480)).scene(0).image
    frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=form)
    expected = resize(frame.reformat(*shown, "rgb24").to_ndarray(), (128, 192)).astype(int)
    assert np.abs(Undeveloped(frame, shown).at((128, 192)) - expected)[4:-4, 4:-4].max() <= 1


def test_frames_of_a_video_in_several_threads(clip_path: Path) -> None:
    frames = list(stream_undeveloped(clip_path, 5.0, 0.0, 1.0))
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(partial(Undeveloped.at, size=(64, 96)), [picture for _, picture in frames]))
    for (time_s, _), ours in zip(frames, found, strict=True):
        expected = resize(read_frames(clip_path, [time_s])[0].image, (64, 96)).astype(int)
        assert np.abs(ours - expected).max() <= 1


def test_transparent_pictures_are_black_there(tmp_path: Path) -> None:
    pixels = np.full((40, 60, 4), 255, np.uint8)
    pixels[:, 30:, 3] = 0
    Pillow.fromarray(pixels).save(tmp_path / "half.png")
    [(_, picture)] = stream_undeveloped(tmp_path / "half.png", 1.0, 0.0, 1.0)
    shrunk = picture.at((32, 64))
    assert shrunk[:, :28].min() == 255
    assert shrunk[:, 36:].max() == 0
