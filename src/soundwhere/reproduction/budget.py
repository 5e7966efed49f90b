"""For how long everybody is trained, what that leaves out, and how long each part will take.

The first half minute of SCAV's own training tells how fast this machine is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from soundwhere.analysis.contenders import steps_done, total_steps
from soundwhere.errors import ConfigError
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.reading import views
from soundwhere.methods.catalogue import read_config
from soundwhere.methods.files import load_model
from soundwhere.methods.scav.config import SCAVConfig
from soundwhere.reproduction.scales import PARTS
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import LATEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from soundwhere.analysis.contenders import Contender
    from soundwhere.evaluation.task import Task
    from soundwhere.reproduction.reference import Reference

_TRIED_S: Final = 20.0
_TRIED_SCENES: Final = 4
_ABLATED: Final = 6  # rows of the ablation


@dataclass(frozen=True)
class Budget:
    """For how long everybody is trained.

    Attributes:
        steps: Of every system, all stages together.
        full: As many as the recipe has.
        method: SCAV's settings with so many steps.
    """

    steps: int
    full: int
    method: SCAVConfig


def budget_of(recipe: Path, steps: int | None) -> Budget:
    """What a recipe trains in so many steps, or in its own.

    Raises:
        ConfigError: It is no recipe of SCAV, or SCAV cannot be trained in so few steps.
    """
    config = read_config(recipe)
    if not isinstance(config.method, SCAVConfig):
        raise ConfigError(
            f"{recipe} is a recipe of the method {config.method.family}, not of scav.",
            "Give one of SCAV, such as configs/real-duet.toml.",
        )
    full = total_steps(config)
    return Budget(steps or full, full, config.method.lasting(steps or full))


def left_out(
    budget: Budget, *, scenes: int | None, parts: Sequence[str], systems: Mapping[str, str], asked: Sequence[str]
) -> str:
    """What a run leaves out, in words; a dash for nothing.

    Args:
        budget: For how long it trains.
        scenes: How many it scores of each benchmark at most.
        parts: Which it runs.
        systems: Those that cannot be trained, with the reason.
        asked: The only systems that were asked for, if not all were.
    """
    skipped = [part for part in PARTS if part not in parts]
    said = [
        *([f"all but {budget.steps} of {budget.full} steps"] if budget.steps < budget.full else []),
        *([f"all but {scenes} scenes of each benchmark"] if scenes is not None else []),
        *([f"the parts {', '.join(skipped)}"] if skipped else []),
        *([f"all systems but {', '.join(asked)}"] if asked else []),
        *(f"{system}: {reason.rstrip('.')}" for system, reason in systems.items()),
    ]
    short = budget.steps < budget.full or scenes is not None
    return (
        "; ".join(said) + (". So many claims stay undecided, and others may change with more." if short else "")
        if said
        else "-"
    )


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
