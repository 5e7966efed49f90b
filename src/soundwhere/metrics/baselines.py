"""Answers that see neither picture nor sound, and one that only sees: what any method has to beat.

Each gives heatmaps over the picture, to be scored like a model's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def constant_cells(
    height: int, width: int, grid: tuple[int, int], sigma_px: float = 70.0, cells: Sequence[int] | None = None
) -> Tensor:
    """A fixed Gaussian in the middle of each frame of a joined picture, the same for every scene.

    Args:
        height: Of the picture, pixels.
        width: Of the picture, pixels.
        grid: Rows and columns of frames in the picture.
        sigma_px: Standard deviation of the Gaussians, pixels.
        cells: Only these frames, counted row by row; all by default.

    Returns:
        One map per frame, shape (K, H, W), in (0, 1].
    """
    rows, columns = grid
    y = torch.arange(height) + 0.5 - (torch.arange(rows)[:, None] + 0.5) * height / rows
    x = torch.arange(width) + 0.5 - (torch.arange(columns)[:, None] + 0.5) * width / columns
    squared = y[:, None, :, None] ** 2 + x[None, :, None, :] ** 2
    maps = torch.exp(-squared / (2 * sigma_px**2)).flatten(0, 1)
    return maps if cells is None else maps[list(cells)]


def everything_on(height: int, width: int, maps: int = 2) -> Tensor:
    """Masks that are on everywhere, shape (K, H, W), bool: a constant heatmap would binarise to nothing."""
    return torch.ones(maps, height, width, dtype=torch.bool)


def random_smooth(height: int, width: int, maps: int = 2, *, seed: int = 0, cell_px: int = 32) -> Tensor:
    """Uniform noise on a coarse grid, upsampled bilinearly, shape (K, H, W), in [0, 1].

    Args:
        height: Of the picture, pixels.
        width: Of the picture, pixels.
        maps: How many maps K.
        seed: One per scene gives every scene its own maps.
        cell_px: Side of a grid cell, pixels; 32 is the grid of the encoders.
    """
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, maps, max(1, height // cell_px), max(1, width // cell_px), generator=generator)
    return F.interpolate(coarse, size=(height, width), mode="bilinear", align_corners=False)[0]


def feature_norm(
    features: Tensor, height: int, width: int, grid: tuple[int, int] | None = None, maps: int | None = None
) -> Tensor:
    """The norm of visual features: what stands out to the eye, whatever sounds.

    Args:
        features: Of a frozen encoder, shape (B, C, h, w).
        height: Of the picture, pixels.
        width: Of the picture, pixels.
        grid: Rows and columns of frames in the picture: the map is cut at their seams into one map per frame, which is
            0 elsewhere. None gives one map of the whole picture.
        maps: Keep the frames with the greatest mean norm only, greatest first, so that there are no more maps than
            sources; all frames by default.

    Returns:
        Shape (B, K, H, W).
    """
    norm = F.interpolate(features.norm(dim=1, keepdim=True), size=(height, width), mode="bilinear", align_corners=False)
    if grid is None:
        return norm
    rows, columns = grid
    row = torch.arange(height, device=norm.device) * rows // height
    column = torch.arange(width, device=norm.device) * columns // width
    frame = row[:, None] * columns + column
    pieces = torch.where(frame == torch.arange(rows * columns, device=norm.device)[:, None, None], norm, 0.0)
    if maps is None:
        return pieces
    strongest = pieces.mean((-2, -1)).argsort(dim=-1, descending=True, stable=True)[:, :maps]
    return pieces.gather(1, strongest[..., None, None].expand(-1, -1, height, width))
