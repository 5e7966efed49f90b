"""How long each part will take: the first half minute of SCAV's own training tells how fast this machine is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from soundwhere.analysis.contenders import data_digest
from soundwhere.analysis.trained_rows import train_row
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.reading import views
from soundwhere.methods.catalogue import find_method
from soundwhere.methods.files import load_model
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import LATEST

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.config import Config
    from soundwhere.evaluation.task import Task
    from soundwhere.methods.scav.config import SCAVConfig

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


def measure(config: Config, folder: Path, task: Task, *, download: bool = False) -> Pace:
    """Begin to train SCAV, or find it begun, and score some scenes with what it is.

    Args:
        config: Of SCAV.
        folder: Where it is trained; training goes on there later.
        task: Whose first scenes are scored.
        download: As in `train`.
    """
    file = train_row(config, folder, download=download, data=data_digest(config.data), longest_s=_TRIED_S)
    _, progress = read_progress(folder / LATEST)
    stages = {each.name: each.phases[-1].until for each in find_method(config.method.family).stages(config.method)}
    before = list(stages)[: list(stages).index(progress.stage)]
    done = progress.step + sum(stages[name] for name in before)
    network = load_model(file)
    answerer = NetworkAnswerer("scav", network, task.benchmark.grid, negatives=True)
    few = [task.scenes[place] for place in range(min(_TRIED_SCENES, len(task.scenes)))]
    began = time.perf_counter()
    for view in views(few, ("shuffled",)):
        answerer.alone().answer(view)
    seconds = time.perf_counter() - began
    return Pace(progress.seconds / max(1, done), len(answerer.rows) * seconds / len(few))


def durations(
    pace: Pace, method: SCAVConfig, trained: int, systems: int, scenes: int, minutes: float | None
) -> dict[str, float]:
    """Seconds that each part will take, as far as that can be told.

    Args:
        pace: Of this machine.
        method: How long SCAV is trained, and so everybody.
        trained: Systems that are trained.
        systems: Systems that are scored.
        scenes: Of all benchmarks, those of masks twice.
        minutes: How long a system may be trained at most.
    """

    def training(steps: int) -> float:
        seconds = steps * pace.step_s
        return seconds if minutes is None else min(seconds, 60 * minutes)

    ablation = (_ABLATED - 1) * training(method.steps_two) + training(method.steps_one + method.steps_two)
    return {
        "compare": trained * training(method.steps_one + method.steps_two) + systems * scenes * pace.scene_s,
        "ablation": ablation + _ABLATED * scenes * pace.scene_s / 4,
        "convergence": scenes * pace.scene_s,
        "protocols": scenes * pace.scene_s / 2,
        "figures": scenes * pace.scene_s / 4,
    }
