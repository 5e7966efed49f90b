"""The paper's figures about SCAV itself: its failures, Algorithm 1, both protocols, and how training went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.training_report import loss_curves
from soundwhere.reproduction.drawings import algorithm_one, both_protocols
from soundwhere.reproduction.failures import failure_pictures, failures_table, find_failures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.figure import Figure

    from soundwhere.evaluation.task import Task
    from soundwhere.methods.scav.model import SCAV
    from soundwhere.metrics.report import Table
    from soundwhere.types import Image

_SHOWN: Final = 3  # scenes of Algorithm 1


def draw_figures(
    network: SCAV, task: Task, run: Path, tick: Callable[[int, int], None] | None = None
) -> tuple[Table, dict[str, Image | Figure]]:
    """The table of failure modes, and every figure by its heading.

    Args:
        network: In eval mode.
        task: What is shown.
        run: The folder of its training, whose curves are drawn if it is one.
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
    if (run / "metrics.jsonl").is_file():
        pictures["How training went: the loss of SCAV"] = loss_curves(run / "metrics.jsonl")
    return failures_table(failures, task.benchmark.name), pictures
