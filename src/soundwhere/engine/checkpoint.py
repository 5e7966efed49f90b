"""Checkpoints: one safetensors file with weights, optimiser, random state, configuration and place in the run.

Which scenes a step sees is a function of the seed and the step alone, so the step is all there is to store of the
sampler. A checkpoint is renamed into place when it is whole: whenever the process dies, the last one is good.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from soundwhere.config import Config, from_dict, to_dict
from soundwhere.errors import CheckpointError
from soundwhere.models.storage import load_weights, read_facts, read_tensors, write_model

if TYPE_CHECKING:
    from pathlib import Path

    from torch.optim import Optimizer

    from soundwhere.models.scav import SCAV

OPTIMISER_PREFIX = "optimiser."
RANDOM_PREFIX = "random."


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        stage: The stage in progress.
        step: Optimiser steps done in that stage.
        best_loss: The lowest smoothed loss of the stage so far.
        smooth_loss: Exponential average of the loss.
        seconds: Time spent training so far, over all sittings.
    """

    stage: str
    step: int = 0
    best_loss: float = 1e9
    smooth_loss: float = 0.0
    seconds: float = 0.0


def save_checkpoint(path: Path, model: SCAV, config: Config, progress: Progress, optimiser: Optimizer | None) -> None:
    """Write everything needed to go on as if never interrupted."""
    extra = {f"{RANDOM_PREFIX}torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        extra[f"{RANDOM_PREFIX}cuda"] = torch.cuda.get_rng_state()
    if optimiser is not None:
        extra.update(_optimiser_tensors(model, optimiser))
    write_model(path, model, extra=extra, facts={"config": to_dict(config), "progress": asdict(progress)})


def read_progress(path: Path) -> tuple[Config, Progress]:
    """The configuration of the run that wrote a checkpoint, and its place in the run."""
    model, facts = read_facts(path)
    if "progress" not in facts:
        raise CheckpointError(f"{path} holds a model but no training state.", "Start from it with --from instead.")
    try:
        config = from_dict(Config, {**facts["config"], "model": to_dict(model)}, str(path))
        return config, Progress(**facts["progress"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} holds a damaged training state ({error}).", "Train again.") from error


def restore(path: Path, model: SCAV, optimiser: Optimizer | None) -> None:
    """Put weights, optimiser and random state back."""
    load_weights(model, path)
    random = read_tensors(path, RANDOM_PREFIX)
    torch.set_rng_state(random["torch"])
    if "cuda" in random and torch.cuda.is_available():
        torch.cuda.set_rng_state(random["cuda"])
    if optimiser is not None:
        _restore_optimiser(model, optimiser, read_tensors(path, OPTIMISER_PREFIX))


def _optimiser_tensors(model: SCAV, optimiser: Optimizer) -> dict[str, torch.Tensor]:
    """Adam's state under the names of the parameters it belongs to."""
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{OPTIMISER_PREFIX}{key}.{names[parameter]}": torch.as_tensor(value)
        for parameter, state in optimiser.state.items()
        for key, value in state.items()
    }


def _restore_optimiser(model: SCAV, optimiser: Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    parameters = dict(model.named_parameters())
    states: dict[str, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        key, parameter = name.split(".", 1)
        # Adam keeps its step count on the CPU and its moments beside the parameter.
        states.setdefault(parameter, {})[key] = tensor if key == "step" else tensor.to(parameters[parameter].device)
    for parameter, state in states.items():
        optimiser.state[parameters[parameter]] = state
