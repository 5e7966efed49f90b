from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.inference.geometry import find_boxes, find_peaks, place_words, upsample


def bump(x: float, y: float, shape: tuple[int, int] = (7, 12), width: float = 1.5) -> np.ndarray:
    """A bump whose top is at (x, y) in shares of the picture."""
    rows, columns = np.mgrid[: shape[0], : shape[1]] + 0.5
    distance = (rows - y * shape[0]) ** 2 + (columns - x * shape[1]) ** 2
    return np.exp(-distance / (2 * width**2)).astype(np.float32)


@given(st.floats(0.1, 0.9), st.floats(0.15, 0.85))
def test_a_peak_is_found_between_cells(x: float, y: float) -> None:
    place = find_peaks(bump(x, y)[None], (720, 1280))[0]
    cell = 720 / 7
    np.testing.assert_allclose(place, (x * 1280, y * 720), atol=0.15 * cell)


def test_peaks_stay_in_the_picture_and_keep_their_shape() -> None:
    maps = np.random.default_rng(0).random((5, 2, 4, 6)).astype(np.float16)
    peaks = find_peaks(maps, (48, 96))
    assert peaks.shape == (5, 2, 2)
    assert ((peaks >= 0) & (peaks <= (96, 48))).all()
    assert find_peaks(np.zeros((1, 4, 6), np.float32), (48, 96))[0].tolist() == [8, 6]  # the first cell's centre


def test_boxes_surround_the_upper_half() -> None:
    maps = np.stack([bump(0.3, 0.6), bump(0.9, 0.1), np.full((7, 12), 0.4, np.float32)])
    boxes, areas = find_boxes(maps, (720, 1280))
    for heat, box, area in zip(maps[:2], boxes, areas, strict=False):
        full = upsample(heat[None], (720, 1280))[0]
        inside = full >= (full.min() + full.max()) / 2
        ys, xs = np.nonzero(inside)
        expected = (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)
        np.testing.assert_allclose(box, expected, atol=1280 / 12 / 8 + 1)
        assert area == pytest.approx(inside.mean(), abs=0.02)
    assert boxes[2].tolist() == [0, 0, 0, 0]
    assert areas[2] == 0


def test_many_maps_are_done_in_parts() -> None:
    maps = np.random.default_rng(1).random((300, 2, 3, 3)).astype(np.float32)
    boxes, areas = find_boxes(maps, (30, 30))
    again, _ = find_boxes(maps[290:], (30, 30))
    assert areas.shape == (300, 2)
    np.testing.assert_array_equal(boxes[290:], again)


@pytest.mark.parametrize("smooth", [False, True])
def test_enlarged_maps_stay_in_range(smooth: bool) -> None:
    maps = np.random.default_rng(2).integers(0, 2, (2, 5, 5)).astype(np.float32)
    enlarged = upsample(maps, (50, 70), smooth)
    assert enlarged.shape == (2, 50, 70)
    assert enlarged.min() >= 0
    assert enlarged.max() <= 1


@given(st.floats(0, 1), st.floats(0, 1))
def test_every_place_has_words(x: float, y: float) -> None:
    words = place_words(x, y).split(", ")
    assert set(words) <= {"left", "centre", "right", "high", "low"}
    assert ("left" in words) == (x < 1 / 3)
    assert ("low" in words) == (y >= 2 / 3)
