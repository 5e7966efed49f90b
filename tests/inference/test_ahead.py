from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.inference.ahead import ahead, spread

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


def test_the_same_items_in_the_same_order_made_elsewhere() -> None:
    def threads() -> Generator[tuple[int, int], None, None]:
        for number in range(20):
            yield number, threading.get_ident()

    made = list(ahead(threads()))
    assert [number for number, _ in made] == list(range(20))
    assert threading.get_ident() not in {thread for _, thread in made}


def test_no_more_than_asked_for_is_made_ahead_and_closing_ends_the_thread() -> None:
    made: list[int] = []
    closed = threading.Event()

    def numbers() -> Generator[int, None, None]:
        try:
            while True:
                made.append(len(made))
                yield made[-1]
        finally:
            closed.set()

    before = threading.active_count()
    with closing(ahead(numbers(), depth=2)) as items:
        assert [next(items) for _ in range(5)] == [0, 1, 2, 3, 4]
        time.sleep(0.3)
        assert len(made) <= 5 + 2 + 1  # two wait in the queue, one in the hand of the thread
    assert closed.is_set()
    assert threading.active_count() == before


def test_an_error_comes_where_its_item_would_have_been() -> None:
    def broken() -> Generator[int, None, None]:
        yield 1
        raise KeyError("two")

    items = ahead(broken())
    assert next(items) == 1
    with pytest.raises(KeyError, match="two"):
        next(items)
    assert list(ahead(number for number in ())) == []


def test_items_are_worked_on_at_once_and_come_in_order() -> None:
    together = threading.Barrier(3, timeout=60)  # passes only while three are worked on at the same time

    def work(number: int) -> tuple[int, int]:
        together.wait()
        time.sleep(0.02 * (number % 3))
        return number, torch.get_num_threads()

    threads = torch.get_num_threads()
    torch.set_num_threads(6)
    try:
        assert list(spread(work, range(9), workers=3)) == [(number, 2) for number in range(9)]
        assert torch.get_num_threads() == 6
        assert list(ahead(torch.get_num_threads() for _ in range(1))) == [6]  # threads that begin later, too
    finally:
        torch.set_num_threads(threads)
    assert list(spread(work, [], workers=3)) == []


def test_few_items_are_taken_before_they_are_asked_for_and_closing_ends_the_workers() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        while True:
            taken.append(len(taken))
            yield taken[-1]

    before = threading.active_count()
    with closing(spread(lambda number: -number, numbers(), workers=2)) as found:
        assert [next(found) for _ in range(5)] == [0, -1, -2, -3, -4]
        assert len(taken) == 5 + 2
    assert threading.active_count() == before


def test_an_error_of_the_work_is_raised() -> None:
    def work(number: int) -> float:
        return 1 / number

    found = spread(work, [1, 2, 0, 4], workers=2)
    assert [next(found), next(found)] == [1, 0.5]
    with pytest.raises(ZeroDivisionError):
        next(found)
