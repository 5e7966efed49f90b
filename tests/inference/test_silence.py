"""Silence as the built-in model hears it: in a clip such as the demo makes, cut off in the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from soundwhere.constants import CLIP_S, SAMPLE_RATE_HZ
from soundwhere.data.synthetic.movie import write_movie
from soundwhere.data.synthetic.world import World
from soundwhere.inference.localiser import Localiser
from soundwhere.media.audio import read_audio
from soundwhere.media.video import read_frames, stream_frames
from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from pathlib import Path

SECONDS, SIDE, FPS = 8.0, 192, 5


@pytest.fixture
def half_silent(tmp_path: Path) -> Path:
    """8 s of the made-up world with two sounding things, the second half digitally silent."""
    write_movie(tmp_path / "whole.mp4", World(7, (SIDE, SIDE)), 0, SECONDS, FPS, sounding=2, silent=1)
    sound = read_audio(tmp_path / "whole.mp4")
    sound[round(SECONDS / 2 * SAMPLE_RATE_HZ) :] = 0
    with VideoWriter(tmp_path / "clip.mp4", SIDE, SIDE, FPS, waveform=sound) as video:
        for frame in stream_frames(tmp_path / "whole.mp4"):
            video.write(frame.image)
    return tmp_path / "clip.mp4"


def test_a_built_in_model_finds_nothing_in_silence(half_silent: Path, tmp_path: Path) -> None:
    result = Localiser("scav-mobile", device="cpu", fps=FPS).localise(half_silent)
    heard = result.times < SECONDS / 2
    silent = result.times >= SECONDS / 2 + CLIP_S / 2  # no window around these reaches back into sound
    assert heard.sum() == 20
    assert silent.sum() >= 12
    assert result.sounding[heard].any(0).all()  # each source at some time
    assert not result.sounding[silent].any()
    assert all(end_s < SECONDS / 2 + CLIP_S / 2 for source in range(2) for _, end_s in result.spans(source))

    result.save(tmp_path / "out", ["mp4"])
    plain, overlay = (
        np.stack([frame.image for frame in read_frames(path, result.times.tolist())]).astype(int)
        for path in (half_silent, tmp_path / "out" / "overlay.mp4")
    )
    changed = np.abs(plain - overlay).max((1, 2, 3))
    assert changed[heard].max() > 60
    assert changed[silent].max() < 60  # no heat, only what encoding once more changes
