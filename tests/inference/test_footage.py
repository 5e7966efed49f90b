from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.constants import CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.errors import ConfigError, MediaError
from soundwhere.inference.footage import Footage, SoundWindows, level_db
from soundwhere.media.audio import read_audio, window, write_wav

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("start_s", [0.0, 1.3, 4.9, 30.0])
def test_windows_are_those_of_the_whole_sound(squares_path: Path, start_s: float) -> None:
    whole = read_audio(squares_path)
    windows = SoundWindows(squares_path, start_s)
    for centre_s in start_s + np.array([0.0, 0.0, 0.25, 0.5, 2.0, 2.001, 4.5]):
        np.testing.assert_allclose(windows.at(centre_s), window(whole, centre_s), atol=2e-4)


def test_only_a_window_is_held(tmp_path: Path) -> None:
    write_wav(tmp_path / "long.wav", np.zeros(60 * SAMPLE_RATE_HZ, np.float32))
    windows = SoundWindows(tmp_path / "long.wav", 0.0)
    held = [len(windows.at(centre_s)) and len(windows._held) for centre_s in np.arange(0, 60, 0.5)]
    assert max(held) < CLIP_SAMPLES + 2 * SAMPLE_RATE_HZ


def test_the_level_is_that_of_the_middle() -> None:
    sound = np.zeros(CLIP_SAMPLES, np.float32)
    assert level_db(sound) == -np.inf
    sound[: CLIP_SAMPLES // 4] = 0.5
    assert level_db(sound) == -np.inf
    sound[:] = np.sin(2 * np.pi * 440 * np.arange(CLIP_SAMPLES) / SAMPLE_RATE_HZ)
    assert level_db(sound) == pytest.approx(-3.01, abs=0.01)


def test_a_clip_says_what_it_is(squares_path: Path) -> None:
    footage = Footage.open(squares_path)
    assert footage.describe() == "0:05, 256x128, mono 22.05 kHz"
    assert footage.size == (128, 256)
    assert footage.own_fps == pytest.approx(10)
    assert footage.count(5) == len(list(footage.frames(5))) == 25


def test_a_photo_lasts_as_long_as_its_recording(tmp_path: Path, noise_path: Path) -> None:
    Image.new("RGB", (64, 48), "white").save(tmp_path / "photo.png")
    footage = Footage.open(tmp_path / "photo.png", noise_path)
    assert footage.end_s == pytest.approx(2.0)
    assert len({id(frame.image) for frame in footage.frames(4)}) == 1
    with pytest.raises(MediaError, match="--audio"):
        Footage.open(tmp_path / "photo.png")
    with pytest.raises(MediaError, match="no picture"):
        Footage.open(noise_path, noise_path)
    with pytest.raises(MediaError, match="no sound"):
        Footage.open(tmp_path / "photo.png", tmp_path / "photo.png")


@pytest.mark.parametrize(("start_s", "end_s"), [(9.0, None), (3.0, 2.0), (-1.0, None), (1.0, 1.0)])
def test_times_that_leave_nothing(squares_path: Path, start_s: float, end_s: float | None) -> None:
    with pytest.raises(ConfigError, match=r"lasts 5\.0 s"):
        Footage.open(squares_path, start_s=start_s, end_s=end_s)


def test_a_part_of_a_clip(squares_path: Path) -> None:
    footage = Footage.open(squares_path, start_s=1.0, end_s=99.0)
    assert [frame.time_s for frame in footage.frames(1)] == pytest.approx([1, 2, 3, 4])
