"""The tables of an evaluation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from soundwhere.metrics.listening import GATE
from soundwhere.metrics.report import Cell, Table, figure_name, percent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from soundwhere.evaluation.rows import Row
    from soundwhere.evaluation.scoring import Evaluation
    from soundwhere.evaluation.summary import Figures, Summary

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


def _table(title: str, columns: Iterable[str], lines: Iterable[tuple[Cell | str, ...]], *notes: str) -> Table:
    return Table(title, ("answer", "kind", *columns), tuple(lines), notes, groups=True)


def _figures(by_row: dict[Row, Figures]) -> list[str]:
    return list(next(iter(by_row.values()), {}))


def _scores(evaluation: Evaluation, summary: Summary, title: str) -> Table:
    names = _figures(summary.scores)
    column = drop_figure(names)
    lines = [
        (
            str(row),
            evaluation.scores[row].kind,
            *(percent(figures[figure]) for figure in names),
            percent(summary.drops.get(row, {}).get(column), signed=True),
        )
        for row, figures in summary.scores.items()
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
    notes = (how, drop, masks) if made_by else (how, drop)
    return _table(title, (*map(figure_name, names), f"drop {figure_name(column)}"), lines, *notes)


def _frames(evaluation: Evaluation, summary: Summary) -> Table:
    lines: list[tuple[Cell | str, ...]] = [
        (str(row), evaluation.scores[row].kind, *(percent(found[key]) for key in ("by_peak", "by_mass", "peak")))
        for row, found in summary.frames.items()
    ]
    if lines:
        found = next(iter(summary.frames.values()))
        best, peak = (f"{100 * found[key].value:.1f}" for key in ("chance", "chance_peak"))
        lines.append(("chance", "", best, best, peak))
    columns = ("best frames, by peak", "best frames, by mass", "peak in a sounding frame")
    note = (
        "Share of scenes whose best frames are exactly the sounding ones, and whose highest peak lies in one of them."
    )
    return _table("Sounding frames found among silent ones", columns, lines, note, _INTERVALS)


def _solo_peaks(evaluation: Evaluation, summary: Summary) -> Table:
    lines = [
        (str(row), evaluation.scores[row].kind, percent(found["found"]), f"{100 * found['chance'].value:.1f}")
        for row, found in summary.solo_peaks.items()
    ]
    right = "the object that makes it" if evaluation.grid == (1, 1) else "the frame that it belongs to"
    note = f"Share of sources whose sound, heard alone, has the peak of its map in {right}."
    return _table("Solo sounds, each heard alone", ("solo peak", "chance"), lines, note, _INTERVALS)


def _negatives(summary: Summary) -> Table:
    keys = ("real_lit", "absent_lit", "real_confidence", "absent_confidence", "auroc")
    lines = [
        (str(row), "method", *(percent(found.get(key)) for key in keys))
        for row, found in summary.negatives.items()
        if found
    ]
    columns = ("lit, own sound", "lit, absent class", "confidence, own", "confidence, absent", "AUROC")
    note = (
        f"Share of the picture lit to at least {GATE:g}, and the highest value of the maps, with the scene's own sound "
        "and with one of classes that are not in the picture; AUROC of the confidence between the two (50 is chance)."
    )
    return _table("Sound of absent classes", columns, lines, note, _INTERVALS)


def _mask_kinds(evaluation: Evaluation, summary: Summary) -> list[Table]:
    tables = []
    for kind, by_row in summary.mask_kinds.items():
        names = _figures(by_row)
        lines = [
            (str(row), evaluation.scores[row].kind, *(percent(figures[figure]) for figure in names))
            for row, figures in by_row.items()
        ]
        tables.append(_table(f"Sources with {kind} masks only", map(figure_name, names), lines, _INTERVALS))
    return tables


def _differences(summary: Summary) -> Table:
    names = list(next(iter(summary.differences.values()), {}))
    lines = [
        (f"{first} - {second}", "paired", *(percent(figures[figure], signed=True) for figure in names))
        for (first, second), figures in summary.differences.items()
    ]
    note = "First minus second on the same scenes; an interval without 0 is more than the choice of scenes."
    return _table("Paired differences", map(figure_name, names), lines, note, _INTERVALS)
