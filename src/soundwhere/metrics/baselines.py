"""Answers that see neither picture nor sound, and one that only sees: what any method has to beat.

Each gives heatmaps over the picture, to be scored like a model's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def constant_pair(height: int, width: int, sigma_px: float = 70.0) -> Tensor:
    """A fixed Gaussian in the middle of the left half and one in the middle of the right half, shape (2, H, W)."""
    return constant_cells(height, width, (1, 2), sigma_px)


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
