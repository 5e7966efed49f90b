"""Tables of figures with their intervals, as Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class TableRow:
    """A line of a table.

    Attributes:
        label: What it is about.
        group: Lines of one group stand together.
        cells: One per column.
    """

    label: str
    group: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: What it shows.
        columns: Heads of the columns after the label and the group.
        rows: The lines.
        notes: What a reader has to know, below it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()


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
    """
    if interval is None or math.isnan(interval.value):
        return Cell("-")
    sign = "+" if signed else ""
    value, low, high = (f"{100 * number:{sign}.1f}" for number in (interval.value, interval.low, interval.high))
    return Cell(value, f"{low} to {high}", f"±{50 * (interval.high - interval.low):.1f}")


def to_markdown(table: Table) -> str:
    """The table as Markdown, with its title and notes."""
    head = ["answer", "kind", *table.columns]
    lines = [f"### {table.title}", "", _pipes(head), _pipes(["---", "---", *["---:"] * len(table.columns)])]
    for row in table.rows:
        cells = [f"{cell.text} ({cell.interval})" if cell.interval else cell.text for cell in row.cells]
        lines.append(_pipes([row.label, row.group, *cells]))
    lines += ["", *(f"{note}  " for note in table.notes)]
    return "\n".join(lines).rstrip() + "\n"


def to_latex(table: Table) -> str:
    """The table as LaTeX (booktabs)."""
    columns = len(table.columns)
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{_latex(table.title)}.{''.join(' ' + _latex(note) for note in table.notes)}}}",
        rf"\begin{{tabular}}{{ll{'r' * columns}}}",
        r"\toprule",
        " & ".join(["Answer", "Kind", *(_latex(column) for column in table.columns)]) + r" \\",
        r"\midrule",
    ]
    previous = None
    for row in table.rows:
        if previous is not None and row.group != previous:
            lines.append(r"\midrule")
        previous = row.group
        cells = [
            rf"{_latex(cell.text)} {{\scriptsize ({_latex(cell.interval).replace(' to ', '--')})}}"
            if cell.interval
            else _latex(cell.text)
            for cell in row.cells
        ]
        lines.append(" & ".join([_latex(row.label), _latex(row.group), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def to_html(table: Table) -> str:
    """The table as HTML, with its title and notes."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in ("answer", "kind", *table.columns))
    body = []
    previous = None
    for row in table.rows:
        cells = "".join(
            f"<td>{html.escape(cell.text)}<br><small>{html.escape(cell.interval)}</small></td>" for cell in row.cells
        )
        border = ' class="group"' if previous is not None and row.group != previous else ""
        previous = row.group
        label = f"<td>{html.escape(row.label)}</td><td>{html.escape(row.group)}</td>"
        body.append(f"<tr{border}>{label}{cells}</tr>")
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in table.notes)
    return f"<h2>{html.escape(table.title)}</h2><table><tr>{head}</tr>{''.join(body)}</table>{notes}"


def _pipes(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _latex(text: str) -> str:
    escapes = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(escapes.get(letter, f"\\{letter}" if letter in "&%$#_{}" else letter) for letter in text)
