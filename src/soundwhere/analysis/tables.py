"""What an analysis leaves: tables for the terminal and as Markdown, every number as JSON, figures as PNG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from soundwhere import __version__
from soundwhere.errors import MissingExtraError
from soundwhere.files import atomic_path, write_json, write_text

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from soundwhere.metrics.bootstrap import Interval


@dataclass(frozen=True)
class Table:
    """A table of words and numbers.

    Attributes:
        title: What it shows.
        head: Names of the columns.
        rows: The lines, as wide as the head.
        notes: What a reader has to know.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        r"""The table as Markdown.

        >>> print(Table("Sizes", ("thing", "px"), (("a|b", "3"),), ("Short side.",)).markdown())
        ## Sizes
        <BLANKLINE>
        | thing | px |
        |---|---:|
        | a\|b | 3 |
        <BLANKLINE>
        Short side.
        """
        lines = [_line(self.head), "|---" + "|---:" * (len(self.head) - 1) + "|", *map(_line, self.rows)]
        parts = [f"## {self.title}", "\n".join(lines), *self.notes]
        return "\n\n".join(parts)


def share(interval: Interval | None) -> str:
    """A share in percent with its interval; a dash for none.

    >>> from soundwhere.metrics.bootstrap import Interval
    >>> share(Interval(0.604, 0.59, 0.62)), share(None)
    ('60.4 (59.0 to 62.0)', '-')
    """
    if interval is None:
        return "-"
    return f"{100 * interval.value:.1f} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def plain(interval: Interval | None) -> str:
    """A number with its interval; a dash for none."""
    return "-" if interval is None else f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report") from error
    return Figure(figsize=(width, height), layout="constrained")


def write_analysis(
    out: Path,
    name: str,
    settings: dict[str, Any],
    tables: list[Table],
    values: dict[str, Any],
    figures: dict[str, Figure],
) -> list[Path]:
    """Write `NAME.json`, `NAME.md` and the figures, and return the files.

    Args:
        out: The folder.
        name: Of the analysis.
        settings: Everything the numbers depend on, as JSON values.
        tables: What is printed.
        values: The numbers behind it, as JSON values.
        figures: By name of the file, without its ending.
    """
    written = [out / f"{name}.json", out / f"{name}.md", *(out / f"{figure}.png" for figure in figures)]
    write_json(written[0], {"analysis": name, "version": __version__, "settings": settings, **values})
    pictures = "".join(f"\n![{figure}]({figure}.png)\n" for figure in figures)
    facts = "\n".join(f"- {key}: {value}" for key, value in settings.items())
    body = "\n\n".join(table.markdown() for table in tables)
    write_text(written[1], f"# soundwhere analyse {name}\n\n{facts}\n\n{body}\n{pictures}")
    for path, figure in zip(written[2:], figures.values(), strict=True):
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=110)
    return written


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
