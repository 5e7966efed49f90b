from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.data.layout import PASTED, Arrangement, Place, arrange, compose, join, place_map
from soundwhere.errors import ConfigError


def frames(count: int, shape: tuple[int, ...]) -> list[np.ndarray]:
    return [np.full(shape, number) for number in range(count)]


@pytest.mark.parametrize(
    ("layout", "order"),
    [("side-by-side", [[0, 1, 2, 3]]), ("stacked", [[0], [1], [2], [3]]), ("grid", [[0, 1], [2, 3]])],
)
def test_places(layout, order):
    expected = np.kron(order, np.ones((2, 3), int))
    assert np.array_equal(join(frames(4, (2, 3)), layout), expected)
    assert np.array_equal(join(frames(4, (2, 3, 3)), layout)[..., 2], expected)
    assert np.array_equal(join(frames(4, (5, 2, 3)), layout, axes=(1, 2))[4], expected)


@given(st.integers(1, 5), st.sampled_from(["side-by-side", "stacked"]))
def test_one_row_or_one_column_takes_any_number(count, layout):
    joined = join(frames(count, (4, 6, 3)), layout)
    assert joined.shape == ((4, 6 * count, 3) if layout == "side-by-side" else (4 * count, 6, 3))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_grid_that_is_not_filled_is_refused(count):
    with pytest.raises(ConfigError, match=f"a scene has {count}"):
        join(frames(count, (2, 2)), "grid")


@pytest.mark.parametrize(("layout", "count"), [("side-by-side", 3), ("stacked", 2), ("grid", 4)])
def test_composed_pictures_are_joined_ones_and_maps_follow_their_frames(layout, count):
    frames_ = [np.full((64, 64, 3), 10 + 20 * number, np.uint8) for number in range(count)]
    arrangement = arrange(layout, count, 64, np.random.default_rng(0))
    picture = compose(frames_, arrangement)
    assert np.array_equal(picture, join(frames_, layout))
    for number in range(count):
        for cell_px in (16, 32):
            cells = place_map(np.ones((4, 4), np.float32), arrangement, number, cell_px)
            inside = picture[cell_px // 2 :: cell_px, cell_px // 2 :: cell_px, 0]
            assert np.array_equal(cells == 1, inside == 10 + 20 * number)
            assert set(np.unique(cells)) <= {0.0, 1.0}


@given(st.integers(2, 4), st.integers(0, 200))
def test_pasted_frames_lie_apart_within_the_first(count, seed):
    arrangement = arrange("pasted", count, 64, np.random.default_rng(seed))
    first, *others = arrangement.places
    assert first == Place(0, 0, 128, 128)
    covered = np.zeros((128, 128), int)
    for place in others:
        assert all(PASTED[0] * 64 - 1 <= side <= PASTED[1] * 64 + 1 for side in (place.height, place.width))
        assert covered[place.area].shape == (place.height, place.width)  # nothing sticks out
        covered[place.area] += 1
    assert covered.max() == 1


def test_a_covered_frame_has_no_map_under_its_cover():
    arrangement = Arrangement(64, 64, (Place(0, 0, 64, 64), Place(0, 32, 32, 32)))
    assert place_map(np.ones((2, 2), np.float32), arrangement, 0, 32).tolist() == [[1, 0], [1, 1]]
    assert place_map(np.ones((2, 2), np.float32), arrangement, 1, 32).tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize("count", [1, 5])
def test_too_few_or_too_many_frames_to_paste_are_refused(count):
    with pytest.raises(ConfigError, match=f"a scene has {count}"):
        arrange("pasted", count, 64, np.random.default_rng(0))
