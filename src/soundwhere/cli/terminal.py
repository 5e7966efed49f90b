"""What people see on the terminal, or read in a file that the output goes to: progress and results."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from soundwhere.media.video import clock, clock_span

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from soundwhere.inference.result import Result
    from soundwhere.metrics.report import Table

PLAIN_EVERY_S: Final = 30.0
"""Without a terminal to redraw, a line this often."""
_MOST_SPANS = 3  # shown of a source
_WIDEST = 400  # characters of a table
_SHORT = {"mean IoU": "mIoU", "pointing": "point", "leakage": "leak", "drop CAP": "drop", "drop AUC": "drop"}


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


def print_links(links: Sequence[str], note: str, host: str) -> None:
    """Print where a page is: for this machine with a note, then for others.

    Args:
        links: This machine's first.
        note: What else there is to say about the page.
        host: What it is served on.
    """
    lines = [f"{links[0]}  {note}", *(f"{link}  from other machines" for link in links[1:])]
    if host in ("0.0.0.0", "::") and len(links) == 1:
        lines.append("This machine seems to have no address that others could open.")
    print("\n".join(lines), flush=True)


def print_sources(result: Result) -> None:
    """Say when and where each source sounds."""
    console = Console(highlight=False, soft_wrap=True)
    for source in range(result.sources):
        name, colour = result.colour(source)
        line = Text(f"  source {source + 1}  ")
        line.append("■", style="rgb({},{},{})".format(*colour))
        line.append(f" {name:<8} {_sounding(result, source)}")
        console.print(line)
    if result.settings.sources is None and not result.model.counts and result.sources > 1:
        console.print(
            f"  {result.model.name} does not count: all {result.sources} of its sources are shown", style="dim"
        )


def print_written(folder: Path, files: list[Path]) -> None:
    """Say which files were written to a folder."""
    Console(highlight=False, soft_wrap=True).print(
        Text(f"wrote {show_path(folder)}{os.sep}{', '.join(_names(folder, files))}")
    )


def print_grid(head: Sequence[str], rows: Sequence[Sequence[str]], ends: Sequence[int] = ()) -> None:
    """Print rows of words and figures; the first column is words.

    Args:
        head: Names of the columns.
        rows: Cells.
        ends: Rows after which a line is drawn.
    """
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(head):
        grid.add_column(Text(column), justify="right" if place else "left")
    for number, row in enumerate(rows):
        grid.add_row(*map(Text, row), end_section=number in ends)
    console = Console(highlight=False)
    if not console.is_terminal:  # nobody watches: as wide as it takes
        needed = console.measure(grid, options=console.options.update(width=_WIDEST)).maximum
        console = Console(highlight=False, width=max(needed, console.width))
    console.print(grid)


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables, each figure over its interval; where the terminal is narrow, over half the interval's width."""
    console = Console(highlight=False)
    for table in tables:
        grid = _grid(table)
        needed = console.measure(grid, options=console.options.update(width=_WIDEST)).maximum
        if not console.is_terminal:  # nobody watches: as wide as it takes
            console = Console(highlight=False, width=max(needed, console.width))
        elif needed > console.width:
            grid = _grid(table, narrow=True)
        console.print(Text(table.title, style="bold"))
        console.print(grid)
        for note in table.notes:
            console.print(Text(note, style="dim"))
        console.print()


def _grid(table: Table, narrow: bool = False) -> Grid:
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0) if narrow else (0, 1))
    hidden = 1 if narrow and table.groups else None  # what belongs together is seen by the rules
    shown = [place for place in range(len(table.head)) if place != hidden]
    for place in shown:
        column = table.head[place]
        short = _SHORT.get(column, column.replace("CIoU@", "@")) if narrow else column
        grid.add_column(Text(short), justify="right" if table.figures[place] else "left", overflow="fold")
    for row, end in zip(table.cells, table.ends, strict=True):
        cells = [Text(row[place].text) for place in shown]
        for text, place in zip(cells, shown, strict=True):
            if row[place].interval:
                text.append(f"\n{row[place].margin if narrow else row[place].interval}", style="dim")
        grid.add_row(*cells, end_section=end)
    return grid


def _sounding(result: Result, source: int) -> str:
    spans = result.spans(source)
    if not spans:
        return "not heard"
    words = ", ".join(clock_span(start, end) for start, end in spans[:_MOST_SPANS])
    more = f" and {len(spans) - _MOST_SPANS} more times" if len(spans) > _MOST_SPANS else ""
    return f"sounding {words}{more}   mostly at {result.where(source)}"


def _names(folder: Path, files: list[Path]) -> list[str]:
    """The written files as a user thinks of them: the video first, a folder as one."""
    names = dict.fromkeys(
        f"{inside.parts[0]}{os.sep * (len(inside.parts) > 1)}" for inside in (f.relative_to(folder) for f in files)
    )
    ordered = sorted(names, key=lambda name: name != "overlay.mp4")
    return [f"{name} (with sound)" if name == "overlay.mp4" else name for name in ordered]


def show_path(path: Path | str) -> str:
    """A path, or words with a path in them, without line breaks and other characters that upset a terminal."""
    return "".join(character if character.isprintable() else "?" for character in str(path))
