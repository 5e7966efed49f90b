from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from soundwhere.evaluation.answerers import Answer
from soundwhere.evaluation.rows import Row
from soundwhere.reproduction.failures import FALSE, FINE, SEPARATION, SHAPE, Failures, failures_table, find_failures
from soundwhere.types import Scene

SIDE = 32


def square(top: int, left: int, side: int = 8) -> np.ndarray[Any, Any]:
    mask = np.zeros((SIDE, SIDE), dtype=np.bool_)
    mask[top : top + side, left : left + side] = True
    return mask


class Fixed:
    """A method that gives maps which were thought of before."""

    label = "fixed"

    def __init__(self, maps: list[list[np.ndarray[Any, Any]]]) -> None:
        self.maps = [torch.from_numpy(np.stack(each).astype(np.float32)) for each in maps]

    def answer(self, view: Any) -> dict[Row, Answer]:
        maps = torch.stack([self.maps[number] for number in view.numbers])
        return {Row(self.label): Answer(maps, torch.ones(maps.shape[:2]))}

    def own(self, scenes: Any) -> Any:
        return [self.maps[0] for _ in scenes]


LEFT, RIGHT = square(4, 2), square(4, 22)
BOTH, DOT, ELSEWHERE = 1.0 * square(4, 20, 12) + square(4, 2, 2), square(6, 4, 2), square(22, 12)


@pytest.mark.parametrize(
    ("first", "mode"),
    [(LEFT, FINE), (BOTH, SEPARATION), (DOT, SHAPE), (ELSEWHERE, FALSE), (np.ones((SIDE, SIDE)) * 0.1 + LEFT, FINE)],
)
def test_each_mode_by_a_map_that_shows_it(first: Any, mode: str) -> None:
    scene = Scene("s", np.zeros((SIDE, SIDE, 3), np.uint8), np.zeros((2, 8), np.float32), np.stack([LEFT, RIGHT]))
    found = find_failures(Fixed([[first, RIGHT]]), [scene], (1, 1))  # type: ignore[arg-type]
    assert found.modes[1] == FINE
    assert found.modes[0] == mode
    assert found.scenes == (0, 0)


def test_examples_are_those_around_the_median() -> None:
    failures = Failures((SHAPE,) * 7 + (FINE,), tuple(range(8)), (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.29, 0.9))
    assert failures.examples(SHAPE) == [2, 3, 4]
    assert failures.examples(FALSE) == []
    table = failures_table(failures, "duets")
    assert [row[:2] for row in table.rows] == [(FINE, "1"), (SHAPE, "7"), (SEPARATION, "0"), (FALSE, "0")]
    assert table.notes[0].startswith("8 sources of duets")
