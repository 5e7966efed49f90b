"""Checkpoints: one safetensors file with weights, optimiser, configuration and place in the run.

What a step sees and draws is a function of the seed, the step and the process alone, so the step is all there is to
store of anything random. A checkpoint is renamed into place when it is whole: whenever the process dies, the last one
is good.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from soundwhere.config import Config, from_dict, to_dict
from soundwhere.errors import CheckpointError
from soundwhere.methods.catalogue import upgraded
from soundwhere.methods.files import load_weights, read_facts, read_tensors, stored_config, write_model

if TYPE_CHECKING:
    from pathlib import Path

    from torch.optim import Optimizer

    from soundwhere.methods.method import Network

OPTIMISER_PREFIX = "optimiser."


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        stage: The stage in progress.
        step: Optimiser steps done in that stage.
        best_loss: The lowest smoothed loss of the stage so far.
        smooth_loss: Exponential average of the loss.
        seconds: Time spent on steps so far, over all stages and sittings.
    """

    stage: str
    step: int = 0
    best_loss: float = 1e9
    smooth_loss: float = 0.0
    seconds: float = 0.0


def save_checkpoint(
    path: Path, model: Network, config: Config, progress: Progress, optimiser: Optimizer | None
) -> None:
    """Write everything needed to go on as if never interrupted."""
    extra = {} if optimiser is None else _optimiser_tensors(model, optimiser)
    write_model(path, model, extra=extra, facts={"config": to_dict(config), "progress": asdict(progress)})


def read_progress(path: Path) -> tuple[Config, Progress]:
    """The configuration of the run that wrote a checkpoint, and its place in the run."""
    _, facts = read_facts(path)
    if "progress" not in facts:
        raise CheckpointError(f"{path} holds a model but no training state.", "Start from it with --from instead.")
    try:
        sections = upgraded(facts["config"])
        method = stored_config(sections.pop("method", {}), str(path))
        config = from_dict(Config, sections, str(path), Config(method=method))
        return config, Progress(**facts["progress"])
    except (AttributeError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} holds a damaged training state ({error}).", "Train again.") from error


def restore(path: Path, model: Network, optimiser: Optimizer | None) -> None:
    """Put weights and optimiser back."""
    load_weights(model, path)
    if optimiser is not None:
        _restore_optimiser(model, optimiser, read_tensors(path, OPTIMISER_PREFIX))


def _optimiser_tensors(model: Network, optimiser: Optimizer) -> dict[str, torch.Tensor]:
    """The optimiser's state under the names of the parameters it belongs to."""
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{OPTIMISER_PREFIX}{key}.{names[parameter]}": torch.as_tensor(value)
        for parameter, state in optimiser.state.items()
        for key, value in state.items()
        if value is not None  # SGD without momentum keeps nothing
    }


def _restore_optimiser(model: Network, optimiser: Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    parameters = dict(model.named_parameters())
    states: dict[str, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        key, parameter = name.split(".", 1)
        # Adam keeps its step count on the CPU and its moments beside the parameter.
        states.setdefault(parameter, {})[key] = tensor if key == "step" else tensor.to(parameters[parameter].device)
    for parameter, state in states.items():
        optimiser.state[parameters[parameter]] = state
