"""The smallest runs that still do everything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.config import Config, DataConfig, TrainConfig
from soundwhere.methods.catalogue import named_config

if TYPE_CHECKING:
    from collections.abc import Iterator


def smallest() -> Config:
    """Both stages on 8 made-up scenes of 32 x 32 pixels, 2 steps each."""
    return Config(
        method=replace(
            named_config("scav-tiny"), frame_px=32, dimension=16, decoupler_layers=1, decoupler_heads=2,
            stage_two="distil", steps_one=2, steps_two=2, batch_size=4, learning_rate=1e-3,
        ),
        data=DataConfig(scenes=8, silent=1),
        train=TrainConfig(device="cpu", checkpoint_every_s=0, log_every=1),
    )  # fmt: skip


@pytest.fixture
def config() -> Config:
    return smallest()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Such small tensors are not worth sharing between threads, least of all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
