"""The smallest SCAV, and a recipe that trains it in seconds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from soundwhere.config import Config, DataConfig, TrainConfig
from soundwhere.methods.scav.config import NAMED
from soundwhere.methods.scav.model import SCAV

SIDE = 64


@pytest.fixture
def recipe() -> Config:
    method = replace(
        NAMED["scav-tiny"],
        frame_px=SIDE,
        dimension=16,
        decoupler_layers=1,
        decoupler_heads=2,
        steps_one=2,
        steps_two=2,
        batch_size=4,
        learning_rate=1e-3,
        stage_two="distil",
    )
    return Config(method, DataConfig(scenes=8), TrainConfig(device="cpu", log_every=1))


@pytest.fixture
def network(recipe: Config) -> SCAV:
    torch.manual_seed(0)
    return SCAV(recipe.method).eval()  # type: ignore[arg-type]
