"""Tables, made for the width of a terminal; in a file that the output goes to, as wide as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.metrics.report import Table

_WIDEST = 400  # characters of a table
_SHORT = {"mean IoU": "mIoU", "pointing": "point", "leakage": "leak", "drop CAP": "drop", "drop AUC": "drop"}


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
    fit(Console(highlight=False), grid).print(grid)


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables, each figure over its interval; where the terminal is narrow, over half the interval's width."""
    console = Console(highlight=False)
    for table in tables:
        grid = _grid(table)
        console = fit(console, grid)
        if _needed(console, grid) > console.width:
            grid = _grid(table, narrow=True)
        console.print(Text(table.title, style="bold"))
        console.print(grid)
        for note in table.notes:
            console.print(Text(note, style="dim"))
        console.print()


def fit(console: Console, grid: Grid) -> Console:
    """A terminal as it is; where nobody watches, one that is as wide as a table takes."""
    if console.is_terminal:
        return console
    return Console(highlight=False, width=max(_needed(console, grid), console.width))


def _needed(console: Console, grid: Grid) -> int:
    return console.measure(grid, options=console.options.update(width=_WIDEST)).maximum


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
