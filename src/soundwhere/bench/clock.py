"""Seconds that parts of a run take."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WARM_UP = "warm-up"
"""What does not count."""


class Clock:
    """Notes how long things take.

    Attributes:
        seconds: Of every time that something was done, by its name.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        began = time.perf_counter()
        yield
        self.seconds.setdefault(name, []).append(time.perf_counter() - began)

    def total_s(self, name: str) -> float:
        """Seconds of all times together; 0 for what was never done."""
        return sum(self.seconds.get(name, ()))

    def take_turns(self, loops: Mapping[str, Iterator[object]], steps: int) -> None:
        """Time loops by name, a step of each in turn, so that a busy machine slows all; a first step does not count."""
        for step in range(steps + 1):
            for name, loop in loops.items():
                with self.time(name if step else WARM_UP):
                    next(loop)

    def speeds(self, items: int = 1) -> dict[str, float]:
        """Items per second by name, where so many are done every time."""
        return {name: items * len(taken) / sum(taken) for name, taken in self.seconds.items() if name != WARM_UP}
