"""For how long everybody is trained, and what that leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from soundwhere.analysis.contenders import total_steps
from soundwhere.errors import ConfigError
from soundwhere.methods.catalogue import read_config
from soundwhere.methods.scav.config import SCAVConfig

if TYPE_CHECKING:
    from pathlib import Path


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


def left_out(*, quick: bool, steps: int, full: int, scenes: int | None) -> str:
    """What a quick run leaves out, in words; a dash for nothing."""
    if not quick:
        return "-"
    few = "" if scenes is None else f" and scores {scenes} scenes of each benchmark"
    return (
        f"--quick trains for {steps} of {full} steps{few}, so many claims stay undecided. Nothing else is left out: "
        "every table, figure and system is here."
    )
