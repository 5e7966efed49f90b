from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.data.annotation.boxes import repair_boxes
from soundwhere.errors import DataError

wild = st.one_of(st.floats(-2, 3), st.sampled_from([-2.9e16, 0.0, 1.0, math.inf, -math.inf, math.nan]))


def reference(boxes: list[tuple[float, ...]], size: int) -> np.ndarray:
    """The peers' drawing, pixel by pixel: int(size * clip(v)), end-exclusive, union."""
    mask = np.zeros((size, size), bool)
    for box in boxes:
        x1, y1, x2, y2 = (int(size * min(max(v, 0.0), 1.0)) for v in box)
        for row in range(y1, y2):
            for column in range(x1, x2):
                mask[row, column] = True
    return mask


@given(st.lists(st.tuples(*[st.floats(-2, 3)] * 4), max_size=4))
def test_masks_equal_the_peers_drawing(boxes: list[tuple[float, ...]]) -> None:
    np.testing.assert_array_equal(repair_boxes(boxes).mask((28, 28)), reference(boxes, 28))


@given(st.lists(st.tuples(wild, wild, wild, wild), max_size=6), st.sampled_from(["xyxy", "xywh"]))
def test_what_is_kept_lies_in_the_picture_and_nothing_is_lost_uncounted(boxes, form) -> None:
    repaired = repair_boxes(boxes, form)
    assert len(repaired.boxes_norm) + repaired.dropped == len(boxes)
    for x1, y1, x2, y2 in repaired.boxes_norm:
        assert 0 <= x1 < x2 <= 1
        assert 0 <= y1 < y2 <= 1


def test_width_and_height_are_not_corners() -> None:
    assert repair_boxes([[0.5, 0.25, 0.25, 0.5]], "xywh").boxes_norm == ((0.5, 0.25, 0.75, 0.75),)
    assert repair_boxes([[0.5, 0.25, 0.25, 0.5]], "xyxy").dropped == 1


def test_clipped_and_dropped_are_counted_apart() -> None:
    repaired = repair_boxes([[0.5, 0.5, 1.5, 1.0], [0.4, 0.4, -2.9e16, 0.9], [0.2, 0.2, 0.2, 0.4], [0, 0, 1, 1 + 1e-9]])
    assert (repaired.clipped, repaired.dropped) == (2, 2)
    assert repaired.boxes_norm == ((0.5, 0.5, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0))


def test_pixels_are_shares_of_the_picture() -> None:
    assert repair_boxes([[10, 5, 20, 10]], size=(20, 40)).boxes_norm == ((0.25, 0.25, 0.5, 0.5),)


@pytest.mark.parametrize("box", [[0.1, 0.2, 0.3], "abcd", None, [0, 0, 1, "x"], 3])
def test_what_is_no_box_is_an_error_with_its_place(box: object) -> None:
    with pytest.raises(DataError, match="here, entry 7"):
        repair_boxes([box], place="here, entry 7")
