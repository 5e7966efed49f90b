"""Clips of a miniature data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soundwhere.data.real_duet import RealDuet

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def mini_clips(mini_root: Path):
    return RealDuet(mini_root).clips("train+val")
