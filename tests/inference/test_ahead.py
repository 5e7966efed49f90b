from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from soundwhere.inference.ahead import ahead

if TYPE_CHECKING:
    from collections.abc import Generator


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
