"""What the analyses of scored scenes share: their options, progress, and what they print and write."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from soundwhere.cli.options import FLAG, named, say
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.figure import Figure

    from soundwhere.analysis.tables import Table
    from soundwhere.evaluation.predictions import Predictions
    from soundwhere.evaluation.subject import Subject


@dataclass(frozen=True)
class Scored:
    """What to score on."""

    benchmark: Annotated[str, tyro.conf.arg(metavar="NAME")]
    """Its name; an unknown one lists them all."""
    data: Annotated[Path | None, named("DIR")] = None
    """Folder of the media or of the data set."""
    annotations: Annotated[Path | None, named("DIR")] = None
    """Folder of the annotation files; by default `annotations` in --data, or --data itself."""
    masks: Annotated[Path | None, named("DIR")] = None
    """Folder of masks, for benchmarks whose authors publish them apart."""
    split: Literal["val", "test"] = "test"
    """val to choose by, test to report, where a benchmark has both."""
    layout: Literal["free", "side-by-side", "stacked"] = "free"
    """Where made-up things are."""
    limit: Annotated[int | None, named("N")] = None
    """The first N scenes only."""
    allow_missing: Annotated[bool, *FLAG] = False
    """Go on without scenes whose media, masks or predictions are missing."""
    sigma_px: float = 70.0
    """Width of the constant answer's blobs."""
    out: Annotated[Path | None, named("DIR")] = None
    """Folder for JSON, Markdown and figures, which need matplotlib; without it, tables are only printed."""


def subject_of(options: Scored, *, truths_only: bool = False, predictions: Predictions | None = None) -> Subject:
    """The scenes to score."""
    if options.limit is not None and options.limit < 2:
        raise ConfigError(f"--limit {options.limit} leaves too few scenes.", "Give at least 2.")
    if not options.sigma_px > 0:
        raise ConfigError(f"--sigma-px is {options.sigma_px:g}.", "It must be greater than 0.")
    from soundwhere.data.benchmarks import catalogue
    from soundwhere.evaluation.subject import Places, choose_scenes

    chosen = catalogue.Options(masks=options.masks, split=options.split, layout=options.layout)
    benchmark = Places(options.benchmark, options.data, options.annotations, chosen).open()
    say(benchmark.describe())
    return choose_scenes(
        benchmark,
        limit=options.limit,
        truths_only=truths_only,
        allow_missing=options.allow_missing,
        predictions=predictions,
    )


def settings_of(options: Scored, subject: Subject) -> dict[str, Any]:
    """What every score depends on, as JSON values."""
    return {
        **subject.about,
        "scenes": len(subject.names),
        "grid": list(subject.benchmark.grid),
        "truth": subject.benchmark.truth,
        "sigma_px": options.sigma_px,
    }


@contextmanager
def progress(what: str, scenes: int) -> Iterator[Callable[[int], None]]:
    """A bar that is told how many more scenes are done."""
    from soundwhere.cli.show import Bar

    done = 0
    with Bar(what, scenes, "scenes") as bar:

        def tick(count: int) -> None:
            nonlocal done
            done += count
            bar.update(done, scenes)

        yield tick


def require_matplotlib(out: Path | None) -> None:
    """Find out before the work that the figures cannot be drawn."""
    if out is not None:
        from soundwhere.analysis.tables import new_figure

        new_figure(1, 1)


def show(
    out: Path | None,
    name: str,
    settings: dict[str, Any],
    tables: list[Table],
    values: dict[str, Any],
    figures: dict[str, Figure],
) -> None:
    """Print the tables and, with a folder, write everything."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(highlight=False)
    for table in tables:
        shown = RichTable(title=Text(table.title), title_justify="left")
        for column in table.head:
            shown.add_column(Text(column), overflow="fold")
        for row in table.rows:
            shown.add_row(*map(Text, row))
        console.print(shown)
        for note in table.notes:
            console.print(Text(note, style="dim"))
        console.print()
    if out is not None:
        from soundwhere.analysis.tables import write_analysis
        from soundwhere.cli.show import print_written

        print_written(out, write_analysis(out, name, settings, tables, values, figures))
