"""Duets of videos, with and without motion: a made-up movie whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from soundwhere.analysis.motion import ALONE, DEAF, GAIN, HELPED, MODEL, motion_results, watch
from soundwhere.constants import CLIP_SAMPLES
from soundwhere.data.video_duets import MovingDuet


def duet(seed: int) -> MovingDuet:
    """Two textured squares: one jumps in the steps in which a tone begins, the other in others."""
    rng = np.random.default_rng(seed)
    place, texture = int(rng.integers(2)), rng.integers(0, 255, (32, 32, 1), np.uint8)
    beats = 5 + 8 * np.arange(5) + rng.integers(-1, 2, 5)
    frames = np.full((46, 64, 128, 3), 90, np.uint8)
    for side in (0, 1):
        jumps = beats if side == place else beats - 4
        for step in range(46):
            left = 64 * side + 12 + 8 * int((jumps < step).sum() % 2)
            frames[step, 16:48, left : left + 32] = texture
    sound = np.zeros((45, CLIP_SAMPLES // 45), np.float32)
    sound[beats] = 0.3 * np.sin(np.arange(sound.shape[1]) / 5)
    return MovingDuet(frames, sound.ravel(), place)


def always_left(_: np.ndarray, __: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A model that lights both things, and the left one a little more."""
    maps = np.zeros((2, 16, 32), np.float32)
    maps[:, 4:12, 3:13], maps[:, 4:12, 19:29] = 0.9, 0.8
    return maps, np.ones(2, np.float32), np.zeros((2, 4), np.float32)


def test_motion_finds_the_half_that_moves_with_the_sound() -> None:
    duets = [duet(seed) for seed in range(12)]
    ticks: list[tuple[int, int]] = []
    found = watch(duets, always_left, lambda *counts: ticks.append(counts))
    left = [float(each.place == 0) for each in duets]
    assert 0 < sum(left) < 12
    assert found[MODEL] == found[DEAF] == left
    assert found[HELPED] == found[ALONE] == [1.0] * 12
    assert ticks[-1] == (12, 12)
    names = [(f"video {number}",) for number in range(12)]
    report = motion_results({"made up": found}, {"made up": names})
    values = report.values["motion"]
    assert values[HELPED]["made up"]["value"] == 1
    assert values[GAIN]["made up"]["value"] == pytest.approx(1 - np.mean(left))
    assert "made up (12)" in report.tables[0].head
