"""The paper's main tables, by boxes and by masks: its figures beside ours, a line for each system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from soundwhere.analysis.compare import JUDGED, PAPER
from soundwhere.analysis.contenders import TOLD_MORE
from soundwhere.evaluation.published import published
from soundwhere.evaluation.tables import INTERVALS
from soundwhere.metrics.bootstrap import Interval
from soundwhere.metrics.report import Table, figure_name, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIGURES: Final = ("cap", "ciou@0.1", JUDGED, "auc")
_DUETS: Final = {"boxes": "vggsound-duet", "masks": "vggsound-duet-mask"}


def paper_figures(title: str, truth: str) -> tuple[str, dict[str, Mapping[str, float]]]:
    """The paper's figures by method for a benchmark: its own if there are any, else its duets' of the same truth.

    Args:
        title: The benchmark's name, and what is said after it.
        truth: Boxes or masks.

    Returns:
        The benchmark that they are of, and the figures in percent.
    """
    name = title.split(" ")[0].removesuffix(",")
    rows = published(name)
    name = name if rows else _DUETS[truth]
    return name, {row.method: row.figures for row in rows or published(name)}


def main_tables(values: Mapping[str, Any]) -> list[Table]:
    """A table for each benchmark and kind of truth, from what `compare` found; who was told more is grey."""
    tables = []
    for title, found in values["benchmarks"].items():
        name, theirs = paper_figures(title, found["truth"])
        lines = []
        for row, facts in values["rows"].items():
            if row not in found["scores"]:
                continue
            paper, ours = theirs.get(PAPER.get(facts["name"], ""), {}), found["scores"][row]
            pairs = (
                (_printed(paper.get(figure)), percent(Interval(**ours[figure]) if ours.get(figure) else None))
                for figure in _FIGURES
            )
            lines.append((row, facts["kind"], *(cell for pair in pairs for cell in pair)))
        columns = (f"{figure_name(figure)}, {whose}" for figure in _FIGURES for whose in ("paper", "ours"))
        note = (
            f"In percent. The paper's are of {name}; ours of {found['scenes']} scenes of {title}. A dash: no such "
            f"figure in the paper. Grey: told more than clips. {INTERVALS}"
        )
        head = ("system", "learnt from", *columns)
        words = f"{'Box' if found['truth'] == 'boxes' else 'Mask'} table: {title.removesuffix(', boxes')}"
        tables.append(Table(words, head, tuple(lines), (note,), groups=True, faint=TOLD_MORE))
    return tables


def _printed(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.1f}"
