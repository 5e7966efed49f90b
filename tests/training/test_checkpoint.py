"""A checkpoint holds all that the next step depends on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from soundwhere.errors import CheckpointError
from soundwhere.methods.files import write_model
from soundwhere.methods.scav.method import METHOD
from soundwhere.methods.scav.model import SCAV
from soundwhere.training.checkpoint import Progress, read_progress, restore, save_checkpoint
from soundwhere.training.loop import make_optimiser
from soundwhere.types import Batch

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.config import Config
    from soundwhere.methods.scav.stages import Objective

PLACE = Progress("two", step=7, best_loss=1.25, smooth_loss=1.5, seconds=60.5)


def prepare(config: Config) -> tuple[SCAV, Objective, torch.optim.Adam]:
    _, two = METHOD.stages(config.method)
    model = METHOD.build(config.method)
    objective = two.objective(model)
    return model, objective, make_optimiser(objective, two.schedule)


def step(objective: Objective, optimiser: torch.optim.Adam, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sounds, image = (torch.randn(size, generator=generator) for size in ((2, 2, 4000), (2, 3, 32, 32)))
    optimiser.zero_grad()
    objective(Batch(sounds.sum(1), image, solos=sounds))["loss"].backward()
    optimiser.step()


def test_round_trip_to_the_last_bit(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "latest.safetensors"
    torch.manual_seed(0)
    model, objective, optimiser = prepare(config)
    for seed in range(2):
        step(objective, optimiser, seed)
    save_checkpoint(path, model, config, PLACE, optimiser)
    step(objective, optimiser, 2)

    torch.manual_seed(99)
    again, objective, other = prepare(config)
    stored, progress = read_progress(path)
    state = torch.get_rng_state()
    restore(path, again, other)
    assert torch.equal(torch.get_rng_state(), state)  # what is drawn is a matter of seed and step, and never stored
    assert (stored, progress) == (config, PLACE)
    step(objective, other, 2)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    assert len(optimiser.state) == len(other.state) > 0
    for mine, theirs in zip(model.parameters(), again.parameters(), strict=True):
        if mine.requires_grad:
            before, after = optimiser.state[mine], other.state[theirs]
            assert before.keys() == after.keys()
            assert all(torch.equal(before[key], after[key]) for key in before)
            assert before["step"] == 3


def test_a_model_without_training_state_is_not_resumed(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_model(path, SCAV(config.method))
    with pytest.raises(CheckpointError, match="no training state") as caught:
        read_progress(path)
    assert "--from" in caught.value.remedy


def test_a_run_that_diverged_can_still_be_read(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "latest.safetensors"
    save_checkpoint(path, SCAV(config.method), config, Progress("one", best_loss=math.inf, smooth_loss=math.nan), None)
    _, progress = read_progress(path)
    assert (progress.best_loss, math.isnan(progress.smooth_loss)) == (math.inf, True)


@pytest.mark.parametrize(
    "facts",
    [
        {"progress": 3, "config": {}},
        {"progress": {"x": 1}, "config": {}},
        {"progress": {}},
        {"progress": {"stage": "one"}, "config": 3},
    ],
)
def test_a_damaged_training_state_is_named(config: Config, tmp_path: Path, facts: dict[str, Any]) -> None:
    path = tmp_path / "latest.safetensors"
    write_model(path, SCAV(config.method), facts=facts)
    with pytest.raises(CheckpointError, match=r"latest\.safetensors holds a damaged training state"):
        read_progress(path)


def test_another_architecture_is_refused(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "latest.safetensors"
    model, _, optimiser = prepare(config)
    save_checkpoint(path, model, config, PLACE, optimiser)
    with pytest.raises(CheckpointError, match="does not fit"):
        restore(path, SCAV(replace(config.method, dimension=32)), None)
