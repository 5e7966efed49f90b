"""The tables of an evaluation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from soundwhere.metrics.listening import GATE
from soundwhere.metrics.report import Cell, Table, TableRow, figure_name, percent

if TYPE_CHECKING:
    from collections.abc import Collection

    from soundwhere.evaluation.evaluation import Evaluation
    from soundwhere.evaluation.summary import Summary

_INTERVALS = "Intervals: 95 %, bootstrap over scenes."


def evaluation_tables(evaluation: Evaluation, summary: Summary, title: str) -> list[Table]:
    """All tables with something to show: scores, frames found, solo sounds, negatives, kinds of masks, differences.

    Args:
        evaluation: What was scored.
        summary: Its figures.
        title: Of the main table.
    """
    tables = [
        _scores(evaluation, summary, title),
        _frames(evaluation, summary),
        _solo_peaks(evaluation, summary),
        _negatives(summary),
        *_mask_kinds(evaluation, summary),
        _differences(summary),
    ]
    return [table for table in tables if table.rows]


def drop_figure(figures: Collection[str]) -> str:
    """The figure in which the drop without the right sound is printed: one that needs no threshold, if there is one."""
    return "cap" if "cap" in figures else "auc"


def _scores(evaluation: Evaluation, summary: Summary, title: str) -> Table:
    names = list(next(iter(summary.scores.values()), {}))
    column = drop_figure(names)
    rows = [
        TableRow(
            name,
            evaluation.scores[name].row.kind,
            (
                *(percent(figures[figure]) for figure in names),
                percent(summary.drops.get(name, {}).get(column), signed=True),
            ),
        )
        for name, figures in summary.scores.items()
    ]
    preset = evaluation.preset
    how = (
        f"{len(evaluation.names)} scenes. Scored as {preset.name} ({preset.origin}): {preset.domain}, {preset.rule}, "
        f"{preset.matching} matching, {preset.upsampling} upsampling. In percent. {_INTERVALS}"
    )
    drop = (
        f"drop: {figure_name(column)} with the scene's own sound minus with another's, paired; "
        "a model whose drop is not above 0 does not listen."
    )
    made_by = Counter(kind for facts in evaluation.facts for kind in facts.mask_kinds)
    masks = "Masks: " + ", ".join(f"{count} {kind}" for kind, count in sorted(made_by.items())) + "."
    empty = sum(area == 0 for facts in evaluation.facts for area in facts.areas)
    done = "left out" if preset.empty_truth == "left-out" else "misses, whatever the answer"
    nothing = f"Sources with an empty truth: {empty}, {done}."
    notes = (how, drop, *([masks] if made_by else []), *([nothing] if empty else []))
    return Table(title, (*map(figure_name, names), f"drop {figure_name(column)}"), tuple(rows), notes)


def _frames(evaluation: Evaluation, summary: Summary) -> Table:
    rows = [
        TableRow(
            name,
            evaluation.scores[name].row.kind,
            tuple(percent(found[key]) for key in ("by_peak", "by_mass", "peak")),
        )
        for name, found in summary.frames.items()
    ]
    if rows:
        found = next(iter(summary.frames.values()))
        best, peak = (f"{100 * found[key].value:.1f}" for key in ("chance", "chance_peak"))
        rows.append(TableRow("chance", "", (Cell(best), Cell(best), Cell(peak))))
    columns = ("best frames, by peak", "best frames, by mass", "peak in a sounding frame")
    note = (
        "Share of scenes whose best frames are exactly the sounding ones, and whose highest peak lies in one of them."
    )
    return Table("Sounding frames found among silent ones", columns, tuple(rows), (note, _INTERVALS))


def _solo_peaks(evaluation: Evaluation, summary: Summary) -> Table:
    rows = tuple(
        TableRow(name, "stage 1", (percent(found["found"]), Cell(f"{100 * found['chance'].value:.1f}")))
        for name, found in summary.solo_peaks.items()
    )
    right = "the object that makes it" if evaluation.grid == (1, 1) else "the frame that it belongs to"
    note = f"Share of sources for which stage 1, hearing that source's sound alone, has its peak in {right}."
    return Table("Solo sounds, placed by stage 1", ("solo peak", "chance"), rows, (note, _INTERVALS))


def _negatives(summary: Summary) -> Table:
    keys = ("real_lit", "absent_lit", "real_confidence", "absent_confidence", "auroc")
    rows = [
        TableRow(name, "method", tuple(percent(found.get(key)) for key in keys))
        for name, found in summary.negatives.items()
        if found
    ]
    columns = ("lit, own sound", "lit, absent class", "confidence, own", "confidence, absent", "AUROC")
    note = (
        f"Share of the picture lit to at least {GATE:g}, and the highest value of the maps, with the scene's own sound "
        "and with one of classes that are not in the picture; AUROC of the confidence between the two (50 is chance)."
    )
    return Table("Sound of absent classes", columns, tuple(rows), (note, _INTERVALS))


def _mask_kinds(evaluation: Evaluation, summary: Summary) -> list[Table]:
    tables = []
    for kind, by_name in summary.mask_kinds.items():
        names = list(next(iter(by_name.values()), {}))
        rows = tuple(
            TableRow(name, evaluation.scores[name].row.kind, tuple(percent(figures[figure]) for figure in names))
            for name, figures in by_name.items()
        )
        tables.append(Table(f"Sources with {kind} masks only", tuple(map(figure_name, names)), rows, (_INTERVALS,)))
    return tables


def _differences(summary: Summary) -> Table:
    names = list(next(iter(summary.differences.values()), {}))
    rows = tuple(
        TableRow(name, "paired", tuple(percent(figures[figure], signed=True) for figure in names))
        for name, figures in summary.differences.items()
    )
    note = "First minus second on the same scenes; an interval without 0 is more than the choice of scenes."
    return Table("Paired differences", tuple(map(figure_name, names)), rows, (note, _INTERVALS))
