"""For how long everybody is trained, and what that leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from soundwhere.analysis.contenders import total_steps
from soundwhere.errors import ConfigError
from soundwhere.methods.catalogue import read_config
from soundwhere.methods.scav.config import SCAVConfig
from soundwhere.reproduction.scales import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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
    return "; ".join(said) + (". So many claims stay undecided." if short else "") if said else "-"
