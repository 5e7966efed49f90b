"""The tables of an evaluation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from soundwhere.metrics.counting import MISSES
from soundwhere.metrics.listening import GATE
from soundwhere.metrics.report import Table, figure_name, figure_names, figures_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from soundwhere.evaluation.scoring import Evaluation
    from soundwhere.evaluation.summary import Figures, Summary

INTERVALS: Final = "Intervals: 95 %, bootstrap over scenes."
PAIRED: Final = "First minus second on the same scenes; an interval without 0 is more than the choice of scenes."


def evaluation_tables(evaluation: Evaluation, summary: Summary, title: str) -> list[Table]:
    """All tables with something to show, from scores and frames found to counts and differences.

    Args:
        evaluation: What was scored.
        summary: Its figures.
        title: Of the main table.
    """
    kinds = {row: scores.kind for row, scores in evaluation.scores.items()}
    pairs = {f"{first} - {second}": figures for (first, second), figures in summary.differences.items()}
    tables = [
        _scores(evaluation, summary, title, kinds),
        _frames(summary, kinds),
        _solo_peaks(evaluation, summary, kinds),
        _negatives(summary, kinds),
        *_counting(summary, kinds),
        *(
            figures_table(f"Sources with {maker} masks only", rows, _names(rows), INTERVALS, kinds=kinds)
            for maker, rows in summary.mask_kinds.items()
        ),
        figures_table(
            "Paired differences",
            pairs,
            _names(pairs),
            PAIRED,
            INTERVALS,
            kinds=dict.fromkeys(pairs, "paired"),
            signed=_names(pairs),
        ),
    ]
    return [table for table in tables if table.rows]


def drop_figure(figures: Collection[str]) -> str:
    """The figure in which the drop without the right sound is printed: one that needs no threshold, if there is one."""
    return "cap" if "cap" in figures else "auc"


def _names(rows: Mapping[Any, Figures]) -> dict[str, str]:
    return figure_names(next(iter(rows.values()), {}))


def _scores(evaluation: Evaluation, summary: Summary, title: str, kinds: Mapping[Any, str]) -> Table:
    names = _names(summary.scores)
    dropped = drop_figure(names)
    rows = {
        row: {**figures, "drop": summary.drops.get(row, {}).get(dropped)} for row, figures in summary.scores.items()
    }
    preset = evaluation.preset
    how = (
        f"{len(evaluation.names)} scenes. Scored as {preset.name} ({preset.origin}): {preset.domain}, {preset.rule}, "
        f"{preset.matching} matching, {preset.upsampling} upsampling. In percent. {INTERVALS}"
    )
    drop = (
        f"drop: {figure_name(dropped)} with the scene's own sound minus with another's, paired; "
        "a model whose drop is not above 0 does not listen."
    )
    made_by = Counter(kind for facts in evaluation.facts for kind in facts.mask_kinds)
    masks = "Masks: " + ", ".join(f"{count} {kind}" for kind, count in sorted(made_by.items())) + "."
    empty = sum(area == 0 for facts in evaluation.facts for area in facts.areas)
    done = "left out" if preset.empty_truth == "left-out" else "misses, whatever the answer"
    nothing = f"Sources with an empty truth: {empty}, {done}."
    columns = {**names, "drop": f"drop {figure_name(dropped)}"}
    notes = (how, drop, *([masks] if made_by else []), *([nothing] if empty else []))
    return figures_table(title, rows, columns, *notes, kinds=kinds, signed={"drop"})


def _frames(summary: Summary, kinds: Mapping[Any, str]) -> Table:
    rows: dict[Any, Mapping[str, Any]] = {**summary.frames}
    if rows:
        found = next(iter(summary.frames.values()))
        best, peak = (f"{100 * found[key].value:.1f}" for key in ("chance", "chance_peak"))
        rows["chance"] = {"by_peak": best, "by_mass": best, "peak": peak}
    columns = {
        "by_peak": "best frames, by peak",
        "by_mass": "best frames, by mass",
        "peak": "peak in a sounding frame",
    }
    note = (
        "Share of scenes whose best frames are exactly the sounding ones, and whose highest peak lies in one of them."
    )
    return figures_table("Sounding frames found among silent ones", rows, columns, note, INTERVALS, kinds=kinds)


def _solo_peaks(evaluation: Evaluation, summary: Summary, kinds: Mapping[Any, str]) -> Table:
    rows = {row: {**found, "chance": f"{100 * found['chance'].value:.1f}"} for row, found in summary.solo_peaks.items()}
    right = "the object that makes it" if evaluation.grid == (1, 1) else "the frame that it belongs to"
    note = f"Share of sources whose sound, heard alone, has the peak of its map in {right}."
    columns = {"found": "solo peak", "chance": "chance"}
    return figures_table("Solo sounds, each heard alone", rows, columns, note, INTERVALS, kinds=kinds)


def _negatives(summary: Summary, kinds: Mapping[Any, str]) -> Table:
    rows = {row: found for row, found in summary.negatives.items() if found}
    columns = {
        "real_lit": "lit, own sound",
        "absent_lit": "lit, absent class",
        "real_confidence": "confidence, own",
        "absent_confidence": "confidence, absent",
        "auroc": "AUROC",
    }
    note = (
        f"Share of the picture lit to at least {GATE:g}, and the highest value of the maps, with the scene's own sound "
        "and with one of classes that are not in the picture; AUROC of the confidence between the two (50 is chance)."
    )
    return figures_table("Sound of absent classes", rows, columns, note, INTERVALS, kinds=kinds)


def _counting(summary: Summary, kinds: Mapping[Any, str]) -> list[Table]:
    right = {"balanced": "balanced", "nothing": "nothing sounds", "one": "one sounds", "two": "two sound"}
    lit = {
        "second": "one alone gets a second",
        "lone": "... its frame alone in sight",
        "absent": "absent sound",
        "absent_at_misses": f"absent sound at {100 * MISSES:.0f} % misses",
        "white": "white noise",
        "pink": "pink noise",
        "silent": "silence",
    }
    lists = (
        "Two sound: the scene as it is. One: either of its sounds alone. Nothing: the sound of a class that is not in "
        "the picture, every third time white or pink noise. One threshold for all, the model's own."
    )
    misses = (
        f"At {100 * MISSES:.0f} % misses: at the threshold that {100 * MISSES:.0f} % of the maps with the scene's own "
        "sound do not reach. Silence is digital."
    )
    return [
        figures_table("How many sound: scenes counted right", summary.counting, right, lists, INTERVALS, kinds=kinds),
        figures_table("Scenes that light without a reason", summary.counting, lit, misses, INTERVALS, kinds=kinds),
    ]
