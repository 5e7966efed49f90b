"""Small models for the tests of this room."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.methods.catalogue import named_config
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from soundwhere.methods.scav.config import SCAVConfig


@pytest.fixture(scope="session")
def tiny() -> SCAV:
    """A model as it is before training."""
    torch.manual_seed(0)
    return SCAV(named_config("scav-tiny")).eval()


@pytest.fixture
def config() -> SCAVConfig:
    """`scav-tiny` with a 16-channel stage 2 of one layer, for frames of 32 x 32 pixels."""
    return replace(named_config("scav-tiny"), frame_px=32, dimension=16, decoupler_layers=1, decoupler_heads=2)
