"""Recordings never heard: a recipe trained without one collection of each class that has two, and scored on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from soundwhere.analysis.report import Report
from soundwhere.evaluation.answerers import InputFreeAnswerer
from soundwhere.evaluation.constant import choose_constant
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.scoring import evaluate
from soundwhere.evaluation.summary import summarise_evaluation
from soundwhere.evaluation.tables import INTERVALS
from soundwhere.metrics.presets import find_preset
from soundwhere.metrics.report import figures_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from soundwhere.config import Config
    from soundwhere.data.collections import Fold
    from soundwhere.evaluation.answerers import Answerer
    from soundwhere.evaluation.summary import Summary
    from soundwhere.evaluation.task import Task
    from soundwhere.methods.method import Network

FOLDS: Final[dict[Fold, str]] = {"first": "to choose by", "second": "to report"}
"""Both folds, and what each is for."""


def fold_recipes(recipe: Config) -> dict[Fold, Config]:
    """The recipe without the first collection of each class, and without the second."""
    return {fold: replace(recipe, data=replace(recipe.data, left_out=fold)) for fold in FOLDS}


def score_fold(network: Network, task: Task, *, tick: Callable[[int, int], None] | None = None) -> Summary:
    """What a network scores on trios that sound like the collection it was trained without, with all controls."""
    grid, preset = task.benchmark.grid, find_preset("scav")
    constant = choose_constant(task.truths, grid, network.sources, preset, "these scenes")
    asked: list[Answerer] = [NetworkAnswerer("model", network.eval(), grid)]
    asked.append(InputFreeAnswerer(constant.rows, network.sources))
    return summarise_evaluation(evaluate(task.scenes, task.names, asked, preset, grid, tick=tick), constant)


def collections_results(found: Mapping[Fold, Summary]) -> Report:
    """A table of both folds, each with and without the right sound."""
    rows: dict[str, dict[str, Any]] = {}
    for fold, summary in found.items():
        for row, frames in summary.frames.items():
            name = str(row).removeprefix("model").removeprefix(", ") or "its maps"
            drop = summary.drops.get(row, {})
            rows[f"without the {fold} collection ({FOLDS[fold]}): {name}"] = {
                "by_peak": frames["by_peak"],
                "by_mass": frames["by_mass"],
                "ciou@0.3": summary.scores[row].get("ciou@0.3"),
                "drop": drop.get("ciou@0.3"),
            }
        for row, solo in summary.solo_peaks.items():
            rows[f"without the {fold} collection ({FOLDS[fold]}): {row.answer}"] = {"by_peak": solo["found"]}
    columns = {
        "by_peak": "best frames, by peak",
        "by_mass": "best frames, by mass",
        "ciou@0.3": "CIoU@0.3",
        "drop": "lost with another scene's sound",
    }
    note = (
        "Trios whose two sounds come from the collection that training left out; all other classes stayed whole. "
        "Solo sounds: each heard alone, share whose peak lies in the right frame."
    )
    table = figures_table("Recordings never heard", rows, columns, note, INTERVALS, first="trained", signed={"drop"})
    return Report([table], {"folds": {fold: summary.as_json() for fold, summary in found.items()}})
