"""Tables of words and figures with their intervals, as Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from soundwhere.metrics.bootstrap import Interval

_NAMES: Final = {
    "cap": "CAP",
    "auc": "AUC",
    "mean_iou": "mean IoU",
    "pointing": "pointing",
    "leakage": "leakage",
}


class Cell(NamedTuple):
    """What stands in a cell: the figure, and its interval in small print (or half its width, where space is short)."""

    text: str
    interval: str = ""
    margin: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.interval})" if self.interval else self.text


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: What it shows.
        head: Names of the columns.
        rows: The lines, as wide as the head; words stand for a cell without an interval.
        notes: What a reader has to know, below it.
        groups: The second column says which lines belong together; rules separate the groups.
        faint: What the second column says of lines that are printed in grey on a page.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    notes: tuple[str, ...] = ()
    groups: bool = False
    faint: frozenset[str] = frozenset()

    @property
    def cells(self) -> list[list[Cell]]:
        """The lines, words being cells too."""
        return [[Cell(each) if isinstance(each, str) else each for each in row] for row in self.rows]

    @property
    def figures(self) -> list[bool]:
        """Of each column, whether it holds numbers (or dashes), which stand at the right."""
        columns = list(zip(*self.cells, strict=True)) or [()] * len(self.head)
        return [all(re.match(r"[-+]?\d|-?$", cell.text) for cell in column) for column in columns]

    @property
    def ends(self) -> list[bool]:
        """Of each line, whether a group ends with it."""
        groups = [row[1].text if self.groups else "" for row in self.cells]
        return [following != own for own, following in zip(groups, [*groups[1:], None], strict=False)]


def figure_name(figure: str) -> str:
    """A figure as tables name it.

    >>> figure_name("ciou@0.3"), figure_name("cap")
    ('CIoU@0.3', 'CAP')
    """
    return _NAMES.get(figure, figure.replace("ciou@", "CIoU@"))


def percent(interval: Interval | None, *, signed: bool = False) -> Cell:
    """A share with its interval in percent; a dash for none.

    >>> from soundwhere.metrics.bootstrap import Interval
    >>> percent(Interval(0.604, 0.59, 0.62))
    Cell(text='60.4', interval='59.0 to 62.0', margin='±1.5')
    >>> percent(Interval(0.012, -0.01, 0.03), signed=True).interval
    '-1.0 to +3.0'
    >>> percent(Interval(0.0, -1e-17, 0.03)).interval  # no -0.0
    '0.0 to 3.0'
    """
    if interval is None or math.isnan(interval.value):
        return Cell("-")
    sign = "+" if signed else ""
    value, low, high = (f"{100 * number:{sign}z.1f}" for number in (interval.value, interval.low, interval.high))
    return Cell(value, f"{low} to {high}", f"±{50 * (interval.high - interval.low):.1f}")


def figures_table(
    title: str,
    rows: Mapping[Any, Mapping[str, Any]],
    columns: Mapping[str, str],
    *notes: str,
    first: str = "answer",
    kinds: Mapping[Any, str] | None = None,
    faint: frozenset[str] = frozenset(),
    signed: Collection[str] = (),
) -> Table:
    """A table of shares, a line for each row.

    Args:
        title: What it shows.
        rows: Figures by row, as intervals, cells or words; a dash stands for one that is not there.
        columns: Which figures, and what they are called.
        notes: What a reader has to know.
        first: What the rows are.
        kinds: A word about each row, by which rows belong together.
        faint: Kinds that are printed in grey on a page.
        signed: Figures that are differences.
    """
    lines = []
    for row, figures in rows.items():
        words = [str(row)] if kinds is None else [str(row), kinds.get(row, "")]
        values = {key: figures.get(key) for key in columns}
        cells = [
            each if isinstance(each, str | Cell) else percent(each, signed=key in signed)
            for key, each in values.items()
        ]
        lines.append((*words, *cells))
    head = (first, *columns.values()) if kinds is None else (first, "kind", *columns.values())
    return Table(title, head, tuple(lines), notes, groups=kinds is not None, faint=faint)


def figure_names(figures: Iterable[str]) -> dict[str, str]:
    """Figures and what tables call them."""
    return {figure: figure_name(figure) for figure in figures}


def plain(interval: Interval | None) -> Cell:
    """A number with its interval; a dash for none.

    >>> from soundwhere.metrics.bootstrap import Interval
    >>> str(plain(Interval(1.5, 1, 2)))
    '1.50 (1.00 to 2.00)'
    """
    if interval is None:
        return Cell("-")
    value, low, high = (f"{number:.2f}" for number in (interval.value, interval.low, interval.high))
    return Cell(value, f"{low} to {high}", f"±{(interval.high - interval.low) / 2:.2f}")


def to_markdown(table: Table, heading: str = "###") -> str:
    r"""The table as Markdown, with its title and notes.

    >>> print(to_markdown(Table("Sizes", ("thing", "px"), (("a|b", "3"),), ("Short side.",))), end="")
    ### Sizes
    <BLANKLINE>
    | thing | px |
    | --- | ---: |
    | a\|b | 3 |
    <BLANKLINE>
    Short side.
    """
    rules = ["---:" if number else "---" for number in table.figures]
    lines = [f"{heading} {table.title}", "", _pipes(table.head), _pipes(rules)]
    lines += [_pipes([str(cell) for cell in row]) for row in table.cells]
    lines += ["", *(f"{note}  " for note in table.notes)]
    return "\n".join(lines).rstrip() + "\n"


def to_latex(table: Table) -> str:
    """The table as LaTeX (booktabs)."""
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{_latex(table.title)}.{''.join(' ' + _latex(note) for note in table.notes)}}}",
        rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in table.figures)}}}",
        r"\toprule",
        " & ".join(_latex(column) for column in table.head) + r" \\",
        r"\midrule",
    ]
    for number, (row, end) in enumerate(zip(table.cells, table.ends, strict=True), 1):
        cells = [
            rf"{_latex(cell.text)} {{\scriptsize ({_latex(cell.interval).replace(' to ', '--')})}}"
            if cell.interval
            else _latex(cell.text)
            for cell in row
        ]
        lines.append(" & ".join(cells) + r" \\")
        if end and number < len(table.rows):
            lines.append(r"\midrule")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def to_html(table: Table, level: int = 2) -> str:
    """The table as HTML, with its title as a heading of a level, and notes."""
    kinds = ["" if number else " class=words" for number in table.figures]
    head = "".join(f"<th{kind}>{html.escape(column)}</th>" for kind, column in zip(kinds, table.head, strict=True))
    body, begins = [], False
    for row, end in zip(table.cells, table.ends, strict=True):
        cells = "".join(
            f"<td{kind}>{html.escape(cell.text)}"
            + (f"<br><small>{html.escape(cell.interval)}</small></td>" if cell.interval else "</td>")
            for kind, cell in zip(kinds, row, strict=True)
        )
        faint = len(row) > 1 and row[1].text in table.faint
        classes = " ".join(["group"] * begins + ["faint"] * faint)
        body.append(f'<tr class="{classes}">{cells}</tr>' if classes else f"<tr>{cells}</tr>")
        begins = end
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in table.notes)
    return f"<h{level}>{html.escape(table.title)}</h{level}><table><tr>{head}</tr>{''.join(body)}</table>{notes}"


def _pipes(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _latex(text: str) -> str:
    escapes = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(escapes.get(letter, f"\\{letter}" if letter in "&%$#_{}" else letter) for letter in text)
