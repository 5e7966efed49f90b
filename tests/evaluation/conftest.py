"""A small network, and scenes of the made-up world in two and three frames."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.methods.catalogue import named_config
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from soundwhere.methods.scav.config import SCAVConfig

SIDE = 64


def small() -> SCAVConfig:
    """SCAV for frames of 64 pixels."""
    tiny = named_config("scav-tiny")
    return replace(tiny, frame_px=SIDE, dimension=16, decoupler_layers=1, decoupler_heads=2)  # type: ignore[call-arg, return-value]


@pytest.fixture
def network() -> SCAV:
    torch.manual_seed(0)
    return SCAV(small()).eval()
