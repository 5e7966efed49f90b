"""Members are made when they are asked for, and not before."""

from __future__ import annotations

import pytest

from soundwhere.data.lazy import Lazy


class Squares(Lazy[int, int]):
    """Squares of numbers, and which were made."""

    def __init__(self, numbers: list[int]) -> None:
        super().__init__(numbers)
        self.made: list[int] = []

    def make(self, record: int) -> int:
        self.made.append(record)
        return record**2


def test_a_slice_makes_nothing_and_is_of_the_same_kind() -> None:
    squares = Squares([1, 2, 3, 4])
    some = squares[1:][::2]
    assert isinstance(some, Squares)
    assert (len(some), len(squares), squares.made) == (2, 4, [])
    assert list(some) == [4, 16]
    assert (squares[-1], some[0]) == (16, 4)
    assert squares.made == [2, 4, 4, 2]
    with pytest.raises(IndexError):
        some[2]
