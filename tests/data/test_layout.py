from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.data.layout import join
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
