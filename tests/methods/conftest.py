"""Small models and batches for the tests of this room."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.methods.catalogue import named_config
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soundwhere.methods.scav.config import SCAVConfig

TINY = replace(named_config("scav-tiny"), frame_px=32, dimension=16, decoupler_layers=1, decoupler_heads=2)


@pytest.fixture
def tiny() -> SCAVConfig:
    """`scav-tiny` with a 16-channel stage 2 of one layer."""
    return TINY


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """Noise to see and hear: `make_batch(samples, solos=True)`."""

    def make(samples: int = 3, solos: bool = True, side: int = 64) -> Batch:
        generator = torch.Generator().manual_seed(0)
        sounds = 0.1 * torch.randn(samples, 2, 5512, generator=generator)
        image = torch.randn(samples, 3, side, side, generator=generator)
        return Batch(sounds.sum(1), image, solos=sounds if solos else None)

    return make


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Such small tensors are not worth sharing between threads, least of all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
