from __future__ import annotations

import numpy as np
import pytest

from soundwhere.data.memory import Memory


def test_makes_once_and_forgets_the_one_unused_longest():
    memory, made = Memory(limit_bytes=16), []

    def get(key: str) -> np.ndarray:
        return memory.get(key, lambda: made.append(key) or np.full(1, ord(key), np.int64))

    for key in "abaca":  # c pushes b out, because a was asked for after b
        assert get(key)[0] == ord(key)
    get("b")
    assert made == ["a", "b", "c", "b"]


def test_what_it_gives_cannot_be_changed():
    array = Memory(100).get("a", lambda: np.zeros(2))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_an_array_beyond_the_limit_is_given_and_not_kept():
    memory = Memory(limit_bytes=8)
    assert len(memory.get("big", lambda: np.zeros(100))) == 100
    assert len(memory.get("big", lambda: np.zeros(3))) == 3


def test_set_aside_it_knows_nothing_and_learns_nothing():
    memory = Memory(1 << 20)
    made = []

    def make():
        made.append(1)
        return np.zeros(3)

    memory.get("a", make)
    with memory.set_aside():
        memory.get("a", make)
        memory.get("b", make)
    assert len(made) == 3
    memory.get("a", make)
    assert len(made) == 3
    memory.get("b", make)
    assert len(made) == 4
