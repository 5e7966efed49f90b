from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from soundwhere.data.benchmarks.boxed import box_masks, boxed, is_boxed
from soundwhere.data.benchmarks.catalogue import Options, open_benchmark
from soundwhere.errors import ConfigError

MASKS = arrays(np.bool_, st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(1, 9)))


@given(MASKS)
def test_boxes_hold_their_masks_and_are_tight(masks: np.ndarray) -> None:
    found = box_masks(masks)
    assert not (masks & ~found).any()
    assert (box_masks(found) == found).all()
    for mask, box in zip(masks, found, strict=True):
        assert (mask.any(0) <= box.any(0)).all()
        assert mask.any() == box.any()
        if mask.any():
            rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
            assert box.sum() == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)


def test_a_benchmark_of_masks_as_one_of_boxes() -> None:
    benchmark = open_benchmark("synthetic", options=Options(count=3))
    found = boxed(benchmark)
    assert (found.truth, found.choices["truth"]) == ("boxes", "tightest boxes of the masks")
    assert (is_boxed(found), is_boxed(benchmark)) == (True, False)
    assert len(found.scenes) == 3
    scene, own = found.scenes[1], benchmark.scenes[1]
    assert (scene.image == own.image).all()
    assert (scene.masks == box_masks(own.masks)).all()
    assert scene.masks.sum() > own.masks.sum()
    assert [each.name for each in found.truths[:2]] == [each.name for each in benchmark.truths[:2]]
    with pytest.raises(ConfigError, match="no masks to put boxes around"):
        boxed(found)
