"""Optimal transport between maps, with an entropy that makes it quick and differentiable (Cuturi, 2013)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def cell_distances(height: int, width: int, device: torch.device | None = None) -> Tensor:
    """Distances between the cells of a grid, row by row, as a share of its diagonal, shape (N, N)."""
    rows, columns = torch.meshgrid(
        torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij"
    )
    cells = torch.stack([rows, columns], dim=-1).flatten(0, 1).double()
    diagonal = max(1.0, float((height - 1) ** 2 + (width - 1) ** 2) ** 0.5)
    distances: Tensor = torch.cdist(cells, cells) / diagonal
    return distances


def sinkhorn_distance(source: Tensor, target: Tensor, cost: Tensor, entropy: float, iterations: int) -> Tensor:
    """What it costs to carry one distribution into another: Wasserstein-1 if `cost` is a distance, up to the entropy.

    Computed on logarithms, so that cells without mass and a small entropy do no harm.

    Args:
        source: Masses, each row of which sums to 1, shape (..., N).
        target: The same, shape (..., N).
        cost: Of carrying one unit from cell to cell, shape (N, N).
        entropy: Weight of the plan's entropy; the smaller, the nearer to the exact distance and the slower to settle.
        iterations: Times that both sums of the plan are put right.

    Returns:
        The cost of the plan, shape (...).
    """
    tiny = torch.finfo(source.dtype).tiny
    log_source, log_target = source.clamp_min(tiny).log(), target.clamp_min(tiny).log()
    cost = cost.to(source)
    kernel = -cost / entropy
    column = torch.zeros_like(log_target)
    row = torch.zeros_like(log_source)
    for _ in range(iterations):
        row = log_source - torch.logsumexp(kernel + column[..., None, :], dim=-1)
        column = log_target - torch.logsumexp(kernel + row[..., None], dim=-2)
    plan = (kernel + row[..., None] + column[..., None, :]).exp()
    return (plan * cost).sum((-2, -1))
