from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.inference.tracking import SMOOTHING_S, Smoother, Tracker

SURE = np.array([True, True, True])


def moving(frame: int) -> tuple[np.ndarray, np.ndarray]:
    """Three blobs that move slowly, and an embedding for each."""
    maps = np.zeros((3, 12, 12), np.float32)
    for k in range(3):
        y, x = 2 + 4 * k, 1 + (frame // 3 + 3 * k) % 10
        maps[k, y - 1 : y + 2, x : x + 2] = 0.8
    return maps + 0.1, np.eye(3, 8, dtype=np.float32)


@given(st.lists(st.permutations(range(3)), min_size=2, max_size=20), st.booleans())
def test_sources_stay_the_same_thing(orders: list[list[int]], heard: bool) -> None:
    """Whatever order a model answers in, source k is what it was in the first frame."""
    tracker = Tracker()
    first = np.array(orders[0])
    for frame, order in enumerate(orders):
        maps, embeddings = moving(frame)
        shuffled = embeddings[order] if heard else np.ones((3, 8), np.float32)  # the maps alone suffice
        found = tracker.order(frame / 5, maps[order], shuffled, SURE)
        assert np.array(order)[found].tolist() == first.tolist()


def test_embeddings_decide_where_maps_cross() -> None:
    tracker = Tracker()
    maps, embeddings = moving(0)
    tracker.order(0.0, maps, embeddings, SURE)
    same = np.broadcast_to(maps.mean(0), maps.shape)
    order = [2, 0, 1]
    assert tracker.order(0.2, same, embeddings[order], SURE).tolist() == np.argsort(order).tolist()


def test_unsure_maps_are_not_remembered() -> None:
    tracker = Tracker()
    maps, embeddings = moving(0)
    nothing = np.array([False] * 3)
    assert tracker.order(0.0, maps[::-1], embeddings[::-1], nothing).tolist() == [0, 1, 2]
    tracker.order(0.2, maps, embeddings, SURE)
    for frame in range(50):
        tracker.order(0.4 + frame / 5, maps[::-1] * 0 + 0.1, embeddings * 0, nothing)
    assert tracker.order(20.0, maps[::-1], embeddings[::-1], SURE).tolist() == [2, 1, 0]


@pytest.mark.parametrize("fps", [2, 5, 25])
def test_smoothing_does_not_depend_on_the_rate(fps: int) -> None:
    smoother = Smoother()
    smoother.smooth(0.0, np.zeros(3, np.float32))
    for frame in range(1, fps + 1):
        (value,) = smoother.smooth(frame / fps, np.ones(3, np.float32))
    assert value == pytest.approx(1 - math.exp(-1 / SMOOTHING_S), abs=1e-5)
    smoother.forget()
    assert smoother.smooth(9.0, np.full(3, 5.0, np.float32))[0].tolist() == [5, 5, 5]
