"""How far work is: a bar on the terminal, or a line now and then in a file that the output goes to."""

from __future__ import annotations

import sys
import time
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from soundwhere.media.video import clock

PLAIN_EVERY_S: Final = 30.0
"""Without a terminal to redraw, a line this often."""


class Bar:
    """A progress bar on the terminal; where there is none, a line every half minute.

    Args:
        what: What is being done.
        total: How many there are to do.
        unit: What is counted.
        show: Whether there is anything to see at all.
    """

    def __init__(self, what: str, total: int, unit: str = "frames", show: bool = True) -> None:
        console = Console(stderr=True)
        self._words = what, unit
        self._plain = show and not console.is_terminal
        self._began = self._spoke = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
            _Left(),
            _Speed(unit),
            console=console,
            disable=not (show and console.is_terminal),
        )
        self._task = self._progress.add_task(f"{what:<10}", total=total or None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, done: int, total: int) -> None:
        """Say how many frames are done."""
        self._progress.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if self._plain and now - self._spoke >= PLAIN_EVERY_S:
            self._spoke = now
            what, unit = self._words
            left = f", {clock((now - self._began) * (total - done) / done)} left" if done else ""
            print(f"{what} {done}/{total} {unit}, {clock(now - self._began)}{left}", file=sys.stderr, flush=True)


class _Left(ProgressColumn):
    """Time left at the pace of the last half minute; nothing at the end, or without an end that is known."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """The column's text."""
        known = task.time_remaining is not None and not task.finished
        return Text(f"{clock(task.time_remaining or 0)} left" if known else "")


class _Speed(ProgressColumn):
    """Frames per second since the start."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = "fps" if unit == "frames" else f"{unit}/s"

    def render(self, task: Task) -> Text:
        """The column's text."""
        elapsed = task.finished_time if task.finished else task.elapsed
        return Text(f"{task.completed / elapsed:.1f} {self._unit}" if elapsed else "")
