"""Joined features against those of the whole picture, with encoders whose difference is known."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from soundwhere.bench.seam import seam_difference
from soundwhere.types import Scene

if TYPE_CHECKING:
    from soundwhere.methods.scav.model import SCAV


def duet(seed: int, rows: int = 4, columns: int = 4) -> Scene:
    """Two square frames of noise side by side, in cells of 32 pixels."""
    image = np.random.default_rng(seed).integers(0, 256, (32 * rows, 64 * columns, 3), np.uint8)
    masks = np.ones((2, *image.shape[:2]), np.bool_)
    return Scene(f"duet-{seed}", image, np.zeros((2, 4000), np.float32), masks, ("a", "b"))


class Neighbours(nn.Module):
    """Means over cells of 32 pixels, plus those of the cell to the right: it sees one cell across the seam."""

    stride, channels = 32, 3

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        cells = nn.functional.avg_pool2d(image, 32)
        return cells + nn.functional.pad(cells, (0, 1))[..., 1:]


def through(model: SCAV, encoder: nn.Module) -> SCAV:
    """The model with other eyes."""
    other = deepcopy(model)
    other.visual = encoder
    return other


def test_cells_that_see_only_themselves_do_not_differ(tiny: SCAV) -> None:
    found = seam_difference(through(tiny, nn.AvgPool2d(32)), [duet(0), duet(1)])
    assert found == pytest.approx([0] * 4, abs=1e-6)


def test_a_cell_across_the_seam_is_missed_beside_it_alone(tiny: SCAV) -> None:
    scenes = [duet(seed) for seed in range(20)]  # more than a batch
    beside, *others = seam_difference(through(tiny, Neighbours()), scenes)
    assert others == pytest.approx([0] * 3, abs=1e-6)
    pixels = np.stack([scene.image for scene in scenes]) / 255
    cells = (pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    cells = cells.reshape(20, 4, 32, 8, 32, 3).mean((2, 4))
    whole = cells + np.concatenate([cells[:, :, 1:], np.zeros((20, 4, 1, 3))], axis=2)
    missed = np.linalg.norm(cells[:, :, 4], axis=-1).mean()  # what the last cell of the left frame does not see
    assert beside == pytest.approx(missed / np.linalg.norm(whole, axis=-1).mean() / 2, rel=1e-4)


def test_the_difference_of_a_network_falls_with_the_distance(tiny: SCAV) -> None:
    shares = seam_difference(tiny, [duet(seed) for seed in range(4)])
    assert len(shares) == 4 * 32 // tiny.stride_px
    assert shares[0] > 10 * shares[-1]
