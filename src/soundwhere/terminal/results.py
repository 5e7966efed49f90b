"""What was found in a clip, and in each of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from soundwhere.media.video import clock_span
from soundwhere.terminal.messages import show_path
from soundwhere.terminal.tables import fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.inference.result import Result
    from soundwhere.terminal.batch import Outcome

_MOST_SPANS = 3  # shown of a source


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
        every = "both" if result.sources == 2 else f"all {result.sources}"
        console.print(f"  {result.model.name} does not count: {every} of its sources are shown", style="dim")
    if not any(result.spans(source) for source in range(result.sources)):
        both = "--sources 2 " if result.settings.sources is None and result.model.counts else ""
        maps = f"{both}--formats png --overwrite"
        console.print(f"  nothing that is seen was heard well enough; to see its maps: {maps}", style="dim")


def print_summary(outcomes: Sequence[Outcome]) -> None:
    """Print one line per clip, and how many there are of each kind."""
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("clip", "sources", "took", "result"):
        grid.add_column(column, overflow="fold", justify="right" if column == "took" else "left")
    for outcome in outcomes:
        heard = [f"{number} {where}" for number, where in enumerate(outcome.sources, 1) if where]
        silent = "none heard" if outcome.sources else ""
        took = f"{outcome.took_s:.1f} s" if outcome.took_s else ""
        words = outcome.words if outcome.state == "localised" else outcome.state  # why was said before
        style = "red" if outcome.state == "failed" else "dim" if outcome.state == "skipped" else ""
        cells = (show_path(outcome.clip), "; ".join(heard) or silent, took, show_path(words))
        grid.add_row(*(Text(cell, style=style) for cell in cells))
    fit(Console(highlight=False), grid).print(grid)
    states = [outcome.state for outcome in outcomes]
    print(", ".join(f"{states.count(state)} {state}" for state in ("localised", "skipped", "failed")))


def _sounding(result: Result, source: int) -> str:
    spans = result.spans(source)
    if not spans:
        return "not heard"
    words = ", ".join(clock_span(start, end) for start, end in spans[:_MOST_SPANS])
    rest = len(spans) - _MOST_SPANS
    more = "" if rest < 1 else " and once more" if rest == 1 else f" and {rest} more times"
    return f"sounding {words}{more}   mostly at {result.where(source)}"
