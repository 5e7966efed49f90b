"""Duets of videos, with and without motion: made-up movies whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from soundwhere.analysis.motion import (
    ALONE,
    DEAF,
    GAIN,
    HELPED,
    MODEL,
    STEPS,
    agreement,
    motion_energy,
    motion_results,
    onsets,
    prefer,
    watch,
)
from soundwhere.constants import CLIP_SAMPLES
from soundwhere.data.video_duets import MovingDuet

grids = arrays.arrays(np.float32, (2, 6, 9), elements=st.floats(0, 1, width=32))
agreements = arrays.arrays(np.float32, (3, 4), elements=st.floats(-1, 1, width=32))


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


def movie(beats: np.ndarray, others: np.ndarray, left: bool) -> np.ndarray:
    """Two equal squares on grey; one shakes at `beats`, the other at `others`."""
    frames = np.full((STEPS + 1, 56, 112), 90, np.uint8)
    for place, shakes in ((16, beats if left else others), (72, others if left else beats)):
        for step in range(STEPS + 1):
            moved = 3 * int(shakes[: step + 1].sum() % 2)
            frames[step, 20:36, place + moved : place + moved + 20] = 200
    return frames


def pulses(steps: np.ndarray) -> np.ndarray:
    """A sound with a short tone in each of some steps."""
    sound = np.zeros((STEPS, CLIP_SAMPLES // STEPS), np.float32)
    sound[steps] = 0.3 * np.sin(np.arange(sound.shape[1]) / 5)
    return sound.ravel()


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_of_two_equal_things_the_one_that_shakes_in_time_is_chosen(left: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    beats, others = np.zeros(STEPS + 1, int), np.zeros(STEPS + 1, int)
    heard = 4 + 8 * np.arange(5) + rng.integers(-2, 2, 5)
    beats[heard + 1] = 1  # frame n + 1 ends step n
    others[heard - 3] = 1
    agreed = agreement(motion_energy(movie(beats, others, left)), onsets(pulses(heard)))
    both = np.zeros((1, 56, 112), np.float32)
    both[0, 20:36, 16:36], both[0, 20:36, 72:92] = 0.8, 0.9
    found = prefer(both, agreed)[0]
    assert (found[:, :56].max() > 2 * found[:, 56:].max()) == left
    assert (found[:, 56:].max() > 2 * found[:, :56].max()) != left


@given(grids, agreements)
@settings(deadline=None, max_examples=30)
def test_nothing_is_brighter_and_nothing_dark_is_lit(maps: np.ndarray, agreed: np.ndarray) -> None:
    found = prefer(maps, agreed)
    assert found.shape == maps.shape
    assert (found <= maps + 1e-7).all()
    assert (found >= 0).all()
    assert not found[maps == 0].any()


@given(grids, st.floats(-1, 1))
@settings(deadline=None, max_examples=30)
def test_where_all_places_agree_alike_nothing_changes(maps: np.ndarray, value: float) -> None:
    np.testing.assert_allclose(prefer(maps, np.full((3, 4), value, np.float32)), maps, atol=1e-6)


@given(arrays.arrays(np.float32, (STEPS, 3, 4), elements=st.floats(0, 5, width=32)), st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_agreement_is_a_correlation(energy: np.ndarray, seed: int) -> None:
    onset = np.random.default_rng(seed).random(STEPS).astype(np.float32)
    agreed = agreement(energy, onset)
    assert agreed.shape == (3, 4)
    assert (np.abs(agreed) <= 1).all()
    np.testing.assert_allclose(agreement(energy, 3 * onset + 2), agreed, atol=1e-3)  # loudness has no unit
    np.testing.assert_allclose(agreement(energy[..., ::-1], onset), agreed[:, ::-1], atol=1e-3)


def test_what_stands_still_silence_and_short_windows_say_nothing() -> None:
    still, moving = np.zeros((STEPS, 3, 4), np.float32), np.random.default_rng(0).random((STEPS, 3, 4), np.float32)
    heard, silence = onsets(pulses(np.arange(3, 40, 7))), onsets(np.zeros(CLIP_SAMPLES, np.float32))
    assert not agreement(still, heard).any()
    assert not agreement(moving, silence).any()
    assert not agreement(moving[:10], heard[:10]).any()


@given(st.integers(0, 99), st.integers(-40, 40))
@settings(deadline=None, max_examples=20)
def test_a_change_of_exposure_is_no_motion(seed: int, change: int) -> None:
    picture = np.random.default_rng(seed).integers(60, 180, (12, 16))
    frames = np.stack([picture, picture + change, picture]).astype(np.uint8)
    assert motion_energy(frames).shape == (2, 3, 4)
    assert not motion_energy(frames).any()


@given(st.floats(0.01, 1))
@settings(deadline=None, max_examples=20)
def test_onsets_do_not_depend_on_the_level(gain: float) -> None:
    sound = 0.9 * pulses(np.arange(3, 40, 7))
    found = onsets((gain * sound).astype(np.float32))
    assert found.argmax() == onsets(sound).argmax()
    assert found.shape == (STEPS,)
    assert (found >= 0).all()
