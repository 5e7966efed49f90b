"""Pictures joined from frames of one size: which frame holds a source, and cutting maps down to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from soundwhere.errors import DataError
from soundwhere.metrics.functional import to_numpy

if TYPE_CHECKING:
    from torch import Tensor

Grid = tuple[int, int]
"""Rows and columns of equal frames that a joined picture consists of."""


def frame_of_source(truth: Tensor, grid: Grid) -> Tensor:
    """The frame, counted row by row, that holds most of each mask (B, M, H, W); shape (B, M), int64."""
    frames = to_numpy(cut(truth, grid))
    areas = [np.count_nonzero(frames[place]) for place in np.ndindex(frames.shape[:-2])]
    return torch.tensor(areas, device=truth.device).reshape(frames.shape[:-2]).argmax(-1)


def crop(maps: Tensor, frames: Tensor, grid: Grid) -> Tensor:
    """Each map (B, K, H, W) in the frame of each source (B, M), shape (B, K, M, h, w)."""
    return pick(cut(maps, grid), frames)


def pick(maps: Tensor, frames: Tensor) -> Tensor:
    """Of maps given for every frame (B, K, F, h, w), those for the frame of each source (B, M): (B, K, M, h, w)."""
    rows = torch.arange(len(maps), device=maps.device)[:, None]
    return maps[rows, :, frames].movedim(2, 1)


def crop_own(truth: Tensor, frames: Tensor, grid: Grid) -> Tensor:
    """Each mask (B, M, H, W) in its own frame (B, M), shape (B, M, h, w)."""
    rows = torch.arange(len(truth), device=truth.device)[:, None]
    columns = torch.arange(truth.shape[1], device=truth.device)
    return cut(truth, grid)[rows, columns, frames]


def cut(maps: Tensor, grid: Grid) -> Tensor:
    """Maps (..., H, W) cut into their frames, row by row, shape (..., F, h, w).

    Raises:
        DataError: The picture is not a grid of equal frames.
    """
    height, width = maps.shape[-2:]
    rows, columns = grid
    if height % rows or width % columns:
        raise DataError(
            f"A map of {height} x {width} pixels is not a grid of {rows} x {columns} equal frames.",
            "Source-wise scoring needs a picture joined from frames of one size; score other pictures whole.",
        )
    cells = maps.reshape(*maps.shape[:-2], rows, height // rows, columns, width // columns)
    return cells.movedim(-2, -3).flatten(-4, -3)
