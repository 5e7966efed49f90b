"""What an analysis leaves: its tables as Markdown, every number as JSON, figures as PNG."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere import __version__
from soundwhere.evaluation.page import Section, as_png, new_figure, write_page
from soundwhere.files import atomic_path, write_json, write_text
from soundwhere.metrics.report import to_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

    from soundwhere.metrics.bootstrap import Interval
    from soundwhere.metrics.report import Table
    from soundwhere.types import Image

FIRST, SECOND, GREY = "#d1495b", "#2e6f95", "#8a8a8a"
COLOURS: Final = (FIRST, GREY, SECOND)


@dataclass
class Report:
    """What was found.

    Attributes:
        tables: To be printed.
        values: The numbers behind them, as JSON values.
        figures: By the name of the file without its ending, how each is drawn, which needs matplotlib.
        words: What the numbers say, by question; they stand before the tables.
        page: Draws the pictures of a page, by heading; without, there is no page.
    """

    tables: list[Table]
    values: dict[str, Any]
    figures: dict[str, Callable[[], Figure]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    page: Callable[[], Mapping[str, Image | Figure]] | None = None

    @cached_property
    def drawn(self) -> dict[str, Figure]:
        """The figures, drawn once for all that shows them."""
        return {name: draw() for name, draw in self.figures.items()}

    @cached_property
    def pictures(self) -> Mapping[str, Image | Figure]:
        """The pictures of its page, drawn once likewise."""
        return {} if self.page is None else self.page()

    def write(self, out: Path, name: str, settings: dict[str, Any]) -> list[Path]:
        """Write `NAME.json`, `NAME.md`, the figures and the page `NAME.html`, if there is one, and return the files.

        Args:
            out: The folder.
            name: Of the analysis.
            settings: Everything the numbers depend on, as JSON values.
        """
        written = [out / f"{name}.json", out / f"{name}.md", *(out / f"{figure}.png" for figure in self.drawn)]
        write_json(written[0], {"analysis": name, "version": __version__, "settings": settings, **self.values})
        pictures = "".join(f"\n![{figure}]({figure}.png)\n" for figure in self.drawn)
        listed = {key: value if isinstance(value, list) else [value] for key, value in settings.items()}
        shown = {key: ", ".join(map(str, values)) for key, values in listed.items()}
        facts = "\n".join(f"- {key}: {value}" for key, value in shown.items())
        said = "".join(f"**{question}** {answer}\n\n" for question, answer in self.words.items())
        body = "\n".join(to_markdown(table, "##") for table in self.tables)
        write_text(written[1], f"# soundwhere analyse {name}\n\n{facts}\n\n{said}{body}{pictures}")
        for path, figure in zip(written[2:], self.drawn.values(), strict=True):
            with atomic_path(path) as temporary:
                temporary.write_bytes(as_png(figure))
        if self.page is not None:
            written.append(out / f"{name}.html")
            part = Section("", self.words, self.tables, self.pictures)
            write_page(written[-1], f"soundwhere analyse {name}", shown, [part])
        return written


def rows_with_intervals(rows: Mapping[str, Mapping[str, Interval]], title: str, axis: str) -> Figure:
    """Each row's answers as points with their intervals, in percent."""
    figure = new_figure(8, 0.5 + 0.42 * len(rows))
    place = figure.subplots()
    answers = list(next(iter(rows.values())))
    for number, answer in enumerate(answers):
        cells = [row[answer] for row in rows.values()]
        heights = np.arange(len(rows)) + 0.22 * (number - (len(answers) - 1) / 2)
        values = 100 * np.array([cell.value for cell in cells])
        colour = COLOURS[number % len(COLOURS)]
        place.errorbar(values, heights, xerr=100 * margins(cells), fmt="o", ms=4, color=colour, label=answer)
    place.set_yticks(range(len(rows)), list(rows))
    place.invert_yaxis()
    place.set(xlabel=axis, title=title, xlim=(0, None))
    place.legend(fontsize=8)
    return figure


def margins(cells: list[Interval]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How far intervals reach below and above their values, shape (2, N)."""
    return np.array([[cell.value - cell.low, cell.high - cell.value] for cell in cells]).T.clip(0)
