"""How many scenes a second `soundwhere evaluate` scores, in processes of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from soundwhere.bench.command import run_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FEW = 4  # scenes of the run whose time is that of starting up


@dataclass(frozen=True)
class EvaluateTime:
    """What scoring some scenes took, without starting up.

    Attributes:
        scenes: How many.
        wall_s: Seconds that passed.
        cpu_s: Seconds of all threads, the system's included.
        start_s: CPU seconds of starting up.
    """

    scenes: int
    wall_s: float
    cpu_s: float
    start_s: float


def bench_evaluate(arguments: Sequence[str], scenes: int, environment: Mapping[str, str] | None = None) -> EvaluateTime:
    """Evaluate a few scenes, then more, and take the difference.

    Args:
        arguments: Of `soundwhere evaluate`: benchmark, models and their options.
        scenes: How many scenes more.
        environment: Changes to the environment, such as a PYTHONPATH with another version of the package.

    Raises:
        SoundwhereError: The command failed.
    """
    times = []
    with TemporaryDirectory() as folder:
        for limit in (_FEW, _FEW + scenes):
            options = ["--no-page", "--limit", str(limit), "--out", str(Path(folder) / str(limit))]
            times.append(run_process(["-m", "soundwhere", "evaluate", *arguments, *options], environment))
    (few_s, few_cpu_s), (wall_s, cpu_s) = times
    return EvaluateTime(scenes, wall_s - few_s, cpu_s - few_cpu_s, few_cpu_s)
