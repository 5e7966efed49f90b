"""The paper's figures about SCAV itself: its failures, Algorithm 1, both protocols, and how training went."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.page import new_figure
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.training_report import loss_curves, read_losses
from soundwhere.reproduction.drawings import algorithm_one, both_protocols
from soundwhere.reproduction.failures import failure_pictures, failures_table, find_failures
from soundwhere.training.journal import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from soundwhere.evaluation.task import Task
    from soundwhere.methods.scav.model import SCAV
    from soundwhere.metrics.report import Table
    from soundwhere.reproduction.reference import Reference
    from soundwhere.types import Image

_SHOWN: Final = 3  # scenes of Algorithm 1
_ACROSS: Final = 6  # curves


def draw_figures(
    network: SCAV, task: Task, reference: Reference, tick: Callable[[int, int], None] | None = None
) -> tuple[Table, dict[str, Image | Figure]]:
    """The table of failure modes, and every figure by its heading.

    Args:
        network: In eval mode.
        task: What is shown.
        reference: Where it comes from; curves are drawn of what was trained there and beside it.
        tick: Called with the number of scenes done and that of all.
    """
    grid = task.benchmark.grid
    method = NetworkAnswerer("scav", network, grid, rows=[Row("scav")])
    failures = find_failures(method, task.scenes, grid, tick)
    first = [task.scenes[place] for place in range(min(_SHOWN, len(task.scenes)))]
    pictures: dict[str, Image | Figure] = {
        "Algorithm 1, step by step": algorithm_one(network, first, grid),
        "What both protocols compare": both_protocols(first[0], method.own(first[:1])[0], grid),
        **failure_pictures(failures, task.scenes, method),
    }
    own = reference.folder / METRICS
    if own.is_file():
        pictures["How training went: the loss of SCAV"] = loss_curves(own)
    others = [path for path in sorted(reference.rows.glob(f"*/{METRICS}")) if path != own]
    if others:
        pictures["The losses of the others, over all their stages"] = small_curves(others)
    return failures_table(failures, task.benchmark.name), pictures


def small_curves(runs: Sequence[Path]) -> Figure:
    """The losses of several runs, from their metrics; each has its own scale, as losses of methods do not compare."""
    down = math.ceil(len(runs) / _ACROSS)
    figure = new_figure(13, 1.5 * down + 0.3)
    for place, path in enumerate(runs, 1):
        losses = [loss for stage in read_losses(path).values() for _, loss in stage]
        axes = figure.add_subplot(down, _ACROSS, place)
        axes.plot(losses, linewidth=1)
        axes.set_title(path.parent.name, fontsize=8)
        axes.tick_params(labelsize=6, labelbottom=False)
    return figure
