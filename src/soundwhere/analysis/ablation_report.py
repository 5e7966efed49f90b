"""The ablation's tables: ours beside the paper's, what boxes change, and where the ordering agrees."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from soundwhere.analysis.ablation import ALONE, CROSS, FULL, JOINT, LABELS, LITERAL, MINMAX, UNIFORM
from soundwhere.analysis.convergence import PAPER as PAPER_CONVERGENCE
from soundwhere.analysis.convergence import by_dominance
from soundwhere.analysis.tables import Table, share
from soundwhere.metrics.bootstrap import Interval, intervals, paired_differences
from soundwhere.metrics.report import figure_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from soundwhere.analysis.ablation import RowScores
    from soundwhere.metrics.pairs import PairScores

FIGURES: Final = ("cap", "ciou@0.1", "ciou@0.3", "auc")
JUDGED: Final = "ciou@0.3"
"""The figure by which the paper's text compares rows."""


@dataclass(frozen=True)
class PaperRow:
    """A line of the paper, in percent and in the order of `FIGURES`.

    Attributes:
        table: The paper's label of the table.
        box: On VGGSound-Duet, boxes.
        mask: On VGGSound-Duet-Mask.
    """

    table: str
    box: tuple[float, float, float, float]
    mask: tuple[float, float, float, float]

    def figure(self, truth: str, name: str) -> float:
        """One figure in percent; `truth` is `box` or `mask`."""
        row = self.box if truth == "box" else self.mask
        return row[FIGURES.index(name)]


_OURS = PaperRow("tab:ablation", (52.96, 83.17, 53.27, 31.96), (39.30, 69.42, 33.59, 23.52))
PAPER: Final = {
    FULL: _OURS,
    UNIFORM: PaperRow("tab:ablation", (37.23, 73.38, 28.94, 21.94), (27.39, 52.58, 16.15, 15.47)),
    ALONE: PaperRow("tab:ablation", (38.65, 75.15, 32.66, 22.97), (28.93, 53.41, 18.84, 16.27)),
    JOINT: PaperRow("tab:ablation", (45.17, 79.41, 41.84, 26.88), (32.71, 63.33, 25.62, 19.68)),
    LITERAL: _OURS,  # the paper's own loss is the paper's full model
    CROSS: PaperRow("tab:ablation", (35.68, 67.38, 26.69, 20.93), (26.00, 50.92, 17.40, 15.75)),
    MINMAX: PaperRow("tab:ablation_algorithm1", (52.32, 83.06, 52.44, 31.67), (38.93, 69.38, 33.26, 23.40)),
}

COMPARED: Final = (
    (FULL, UNIFORM),
    (FULL, ALONE),
    (FULL, JOINT),
    (LITERAL, CROSS),
    (FULL, MINMAX),
    (JOINT, ALONE),
    (ALONE, UNIFORM),
)
"""Pairs of rows that the paper orders, better one first. (d) changes the paper's loss, so it is compared with that."""

_SCENES = "In percent, frame-wise, minmax-0.5. Intervals: 95 %, bootstrap over scenes; one training per row."
_SWAPPED = "drop CAP: with the scene's own sound minus with another's, paired."
_PAPER = "The paper's lines are VGGSound-Duet, another data set at another scale: compare orderings, not numbers."


@dataclass(frozen=True)
class Ordering:
    """Two rows and who is better.

    Attributes:
        first: The row that the paper has ahead.
        second: The other.
        paper: The paper's difference on masks, in [0, 1].
        ours: Ours, paired.
    """

    first: str
    second: str
    paper: float
    ours: Interval

    @property
    def verdict(self) -> str:
        """Agrees, is undecided (the interval holds 0), or is the other way round."""
        if self.ours.low > 0:
            return "agrees"
        return "the other way round" if self.ours.high < 0 else "undecided"


def orderings(rows: Mapping[str, RowScores], paper_loss: str = LITERAL) -> list[Ordering]:
    """What the paper orders among the rows that were scored; `paper_loss` is the row with the paper's stage-2 loss."""
    found = []
    for first, second in COMPARED:
        ahead = paper_loss if first == LITERAL else first
        if ahead in rows and second in rows:
            paper = (PAPER[ahead].figure("mask", JUDGED) - PAPER[second].figure("mask", JUDGED)) / 100
            ours = paired_differences(rows[ahead].mask, rows[second].mask)[JUDGED]
            found.append(Ordering(ahead, second, paper, ours))
    return found


def ordering_sentence(found: list[Ordering]) -> str:
    """Where our ordering agrees with the paper's and where not, in words."""
    if not found:
        return "Too few rows to compare orderings."
    said = {
        "agrees": "As in the paper",
        "undecided": "Undecided (the interval holds 0)",
        "the other way round": "The other way round from the paper",
    }
    parts = []
    for verdict, words in said.items():
        pairs = [
            f"{LABELS[each.first]} against {LABELS[each.second]} ({100 * each.ours.value:+.1f}, "
            f"paper {100 * each.paper:+.1f})"
            for each in found
            if each.verdict == verdict
        ]
        if pairs:
            parts.append(f"{words}: {'; '.join(pairs)}.")
    return f"Ordering by {figure_name(JUDGED)} on masks. " + " ".join(parts)


def ablation_results(rows: Mapping[str, RowScores], paper_loss: str = LITERAL) -> tuple[list[Table], dict[str, Any]]:
    """The tables, and the numbers behind them as JSON values.

    Args:
        rows: Scored rows by name, all on the same scenes.
        paper_loss: The row that has the paper's stage-2 loss, which may be that of the full recipe.
    """
    ordered = [name for name in LABELS if name in rows]
    scored = {name: {truth: intervals(getattr(rows[name], truth)) for truth in ("mask", "box")} for name in ordered}
    drops = {name: paired_differences(rows[name].mask, rows[name].swapped)["cap"] for name in ordered}
    found = orderings(rows, paper_loss)
    tables = [_scores(scored, drops, "mask"), _scores(scored, drops, "box"), _truths(rows, scored)]
    values: dict[str, Any] = {
        "rows": {
            name: {
                "label": LABELS[name],
                **{truth: _plain(figures) for truth, figures in scored[name].items()},
                "drop_cap": asdict(drops[name]),
                "paper": asdict(PAPER[name]) if name in PAPER else None,
            }
            for name in ordered
        },
        "orderings": [{**asdict(each), "verdict": each.verdict} for each in found],
        "sentence": ordering_sentence(found),
    }
    if ALONE in rows and len(rows[ALONE].mask) == 2 * len(set(rows[ALONE].mask.scene.tolist())):
        table, gaps = _convergence(rows[ALONE])
        tables.append(table)
        values["selective_convergence"] = {"paper": PAPER_CONVERGENCE, **gaps}
    tables.append(_orderings(found))
    return tables, values


def _scores(scored: dict[str, dict[str, dict[str, Interval]]], drops: dict[str, Interval], truth: str) -> Table:
    lines: list[tuple[str, ...]] = []
    masks = truth == "mask"
    for name, truths in scored.items():
        figures = truths[truth]
        drop = (share(drops[name]),) if masks else ()
        lines.append((LABELS[name], "ours", *(share(figures[figure]) for figure in FIGURES), *drop))
        if name in PAPER:
            paper = (f"{PAPER[name].figure(truth, figure):.1f}" for figure in FIGURES)
            lines.append(("", f"paper, {PAPER[name].table}", *paper, *(("-",) if masks else ())))
    title = "Ablation, scored by masks" if masks else "Ablation, scored by the boxes of the masks"
    head = ("row", "whose", *map(figure_name, FIGURES), *(("drop CAP",) if masks else ()))
    return Table(title, head, tuple(lines), (_SCENES, *((_SWAPPED,) if masks else ()), _PAPER))


def _truths(rows: Mapping[str, RowScores], scored: dict[str, dict[str, dict[str, Interval]]]) -> Table:
    """Box against mask: the same maps under both truths."""
    lines = []
    for name, figures in scored.items():
        gain = paired_differences(rows[name].box, rows[name].mask)[JUDGED]
        paper = PAPER.get(name)
        theirs = "-" if paper is None else f"{paper.figure('box', JUDGED) - paper.figure('mask', JUDGED):+.1f}"
        lines.append((LABELS[name], *(share(figures[t][JUDGED]) for t in ("mask", "box")), share(gain), theirs))
    name = figure_name(JUDGED)
    head = ("row", f"{name}, mask", f"{name}, box", "box - mask, ours", "box - mask, paper")
    return Table("Box against mask", head, tuple(lines), (_SCENES,))


def _convergence(alone: RowScores) -> tuple[Table, dict[str, Any]]:
    """Dominant against second source of the shared stage 1."""
    columns = ("cap", "ciou@0.3", "auc")
    lines = [
        ("paper, tab:selective_convergence", source, *(f"{100 * figures[column]:.1f}" for column in columns))
        for source, figures in PAPER_CONVERGENCE.items()
    ]
    values: dict[str, Any] = {}
    for truth, pairs in {"masks": alone.mask, "boxes": alone.box}.items():
        halves = _halves(pairs)
        values[truth] = {source: _plain(figures) for source, figures in halves.items()}
        lines += [
            (f"ours, {truth}", source, *(share(figures[column]) for column in columns))
            for source, figures in halves.items()
        ]
    note = "Which source is dominant is decided by the truth, so any single map shows a gap: see `analyse convergence`."
    head = ("whose", "source", *map(figure_name, columns))
    return Table("Selective convergence of the shared stage 1", head, tuple(lines), (_SCENES, note)), values


def _halves(pairs: PairScores) -> dict[str, dict[str, Interval]]:
    dominant, second = by_dominance(pairs)
    return {"dominant": intervals(dominant), "second": intervals(second)}


def _orderings(found: list[Ordering]) -> Table:
    lines = tuple(
        (LABELS[each.first], LABELS[each.second], f"{100 * each.paper:+.1f}", share(each.ours), each.verdict)
        for each in found
    )
    head = ("row", "against", "paper", "ours", "verdict")
    return Table(f"Differences in {figure_name(JUDGED)} on masks", head, lines, (ordering_sentence(found), _SCENES))


def _plain(figures: Mapping[str, Interval]) -> dict[str, Any]:
    return {name: asdict(value) for name, value in figures.items()}


def shown(rows: Mapping[str, RowScores]) -> dict[str, dict[str, Interval]]:
    """What the figure draws: CIoU@0.3 of every row by masks and by boxes."""
    return {
        LABELS[name]: {truth: intervals(getattr(rows[name], truth))[JUDGED] for truth in ("mask", "box")}
        for name in LABELS
        if name in rows
    }
