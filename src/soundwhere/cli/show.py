"""How the command line shows progress and results."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from soundwhere.media.video import clock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from soundwhere.inference.result import Result
    from soundwhere.metrics.report import Table

_MOST_SPANS = 3  # shown of a source
_WIDE = 200  # characters of a table that nobody watches being printed


class Bar:
    """A progress bar on the terminal; nothing where there is no terminal.

    Args:
        what: What is being done.
        total: How many there are to do.
        unit: What is counted.
    """

    def __init__(self, what: str, total: int, unit: str = "frames") -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
            _Speed(unit),
            console=console,
            disable=not console.is_terminal,
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


class _Speed(ProgressColumn):
    """Frames per second since the start."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = "fps" if unit == "frames" else f"{unit}/s"

    def render(self, task: Task) -> Text:
        """The column's text."""
        elapsed = task.finished_time if task.finished else task.elapsed
        return Text(f"{task.completed / elapsed:.1f} {self._unit}" if elapsed else "")


def print_sources(result: Result) -> None:
    """Say when and where each source sounds."""
    console = Console(highlight=False, soft_wrap=True)
    for source in range(result.sources):
        name, colour = result.colour(source)
        line = Text(f"  source {source + 1}  ")
        line.append("■", style="rgb({},{},{})".format(*colour))
        line.append(f" {name:<8} {_sounding(result, source)}")
        console.print(line)


def print_written(folder: Path, files: list[Path]) -> None:
    """Say which files were written to a folder."""
    Console(highlight=False, soft_wrap=True).print(
        Text(f"wrote {show_path(folder)}{os.sep}{', '.join(_names(folder, files))}")
    )


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables, each figure over its interval."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDE)
    for table in tables:
        grid = Grid(title=table.title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        grid.add_column("answer")
        grid.add_column("kind")
        for column in table.columns:
            grid.add_column(column, justify="right" if column != "source" else "left")
        for place, row in enumerate(table.rows):
            cells = [Text(cell.text) for cell in row.cells]
            for text, cell in zip(cells, row.cells, strict=True):
                if cell.interval:
                    text.append(f"\n{cell.interval}", style="dim")
            last = place + 1 == len(table.rows) or table.rows[place + 1].group != row.group
            grid.add_row(Text(row.label), Text(row.group), *cells, end_section=last)
        console.print(grid)
        for note in table.notes:
            console.print(Text(note, style="dim"))
        console.print()


def _sounding(result: Result, source: int) -> str:
    spans = result.spans(source)
    if not spans:
        return "not heard"
    words = ", ".join(f"{clock(start)}-{clock(round(end))}" for start, end in spans[:_MOST_SPANS])
    more = f" and {len(spans) - _MOST_SPANS} more times" if len(spans) > _MOST_SPANS else ""
    return f"sounding {words}{more}   mostly at {result.where(source)}"


def _names(folder: Path, files: list[Path]) -> list[str]:
    """The written files as a user thinks of them: the video first, a folder as one."""
    names = dict.fromkeys(
        f"{inside.parts[0]}{os.sep * (len(inside.parts) > 1)}" for inside in (f.relative_to(folder) for f in files)
    )
    ordered = sorted(names, key=lambda name: name != "overlay.mp4")
    return [f"{name} (with sound)" if name == "overlay.mp4" else name for name in ordered]


def show_path(path: Path) -> str:
    """A path without line breaks and other characters that upset a terminal."""
    return "".join(character if character.isprintable() else "?" for character in str(path))
