"""How long each part will take: the first half minute of SCAV's own training tells how fast this machine is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from soundwhere.analysis.contenders import steps_done
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.reading import views
from soundwhere.methods.files import load_model
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import LATEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.analysis.contenders import Contender
    from soundwhere.evaluation.task import Task
    from soundwhere.methods.scav.config import SCAVConfig
    from soundwhere.reproduction.reference import Reference

_TRIED_S: Final = 20.0
_TRIED_SCENES: Final = 4
_ABLATED: Final = 6  # rows of the ablation


@dataclass(frozen=True)
class Pace:
    """How fast a machine is.

    Attributes:
        step_s: Seconds of one optimiser step.
        scene_s: Seconds to score one scene of one system under every control.
    """

    step_s: float
    scene_s: float


def measure(reference: Reference, task: Task) -> Pace:
    """Begin to train SCAV, or find it begun, and score some scenes with what it is.

    Args:
        reference: SCAV, which is not taken; its training goes on later.
        task: Whose first scenes are scored.
    """
    config = reference.contender.source
    assert not isinstance(config, str)
    network = load_model(reference.train(_TRIED_S))
    _, progress = read_progress(reference.folder / LATEST)
    done = steps_done(config, progress.stage, progress.step)
    answerer = NetworkAnswerer("scav", network, task.benchmark.grid, negatives=True)
    few = [task.scenes[place] for place in range(min(_TRIED_SCENES, len(task.scenes)))]
    began = time.perf_counter()
    for view in views(few, ("shuffled",)):
        answerer.alone().answer(view)
    seconds = time.perf_counter() - began
    return Pace(progress.seconds / max(1, done), len(answerer.rows) * seconds / len(few))


def durations(
    pace: Pace, method: SCAVConfig, rows: Sequence[Contender], tasks: Sequence[Task], minutes: float | None
) -> dict[str, float]:
    """Seconds that each part will take, as far as that can be told; those that take none to speak of are left out.

    Args:
        pace: Of this machine.
        method: How long SCAV is trained, and so everybody.
        rows: Systems that are trained or taken.
        tasks: What they are scored on, by masks and by boxes where there are masks.
        minutes: How long a system may be trained at most.
    """

    def training(steps: int) -> float:
        seconds = steps * pace.step_s
        return seconds if minutes is None else min(seconds, 60 * minutes)

    trained = sum(not isinstance(row.source, str) for row in rows)
    first = len(tasks[0].names)  # of the other parts
    scenes = sum(len(task.names) * (2 if task.benchmark.truth == "masks" else 1) for task in tasks)
    ablation = (_ABLATED - 1) * training(method.steps_two) + training(method.steps_one + method.steps_two)
    return {
        "compare": trained * training(method.steps_one + method.steps_two) + len(rows) * scenes * pace.scene_s,
        "ablation": ablation + _ABLATED * first * pace.scene_s / 2,
        "convergence": first * pace.scene_s,
        "protocols": first * pace.scene_s,
        "figures": first * pace.scene_s / 2,
    }
