"""The shape of a map: sound says which thing it is, the strength of the features where exactly that thing is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor


def shaped(presence: Tensor, features: Tensor) -> Tensor:
    """Presence averaged over each cell's neighbours, times how strong the cell's features are.

    Cells of one thing are rarely all recognised, and the background between two is easily lit with them. Neighbours
    fill the gaps, and weak features take the background out.

    Args:
        presence: Of each source in each cell, shape (B, K, h, w), in [0, 1].
        features: V, shape (B, D, h, w).

    Returns:
        Shape (B, K, h, w), in [0, 1].
    """
    spread = F.avg_pool2d(F.pad(presence, (1, 1, 1, 1), mode="replicate"), kernel_size=3, stride=1)
    strength = features.norm(dim=1, keepdim=True)
    maps: Tensor = spread * strength / strength.amax((-2, -1), keepdim=True).clamp_min(1e-6)
    return maps


def heard_under(maps: Tensor, similarity: Tensor) -> Tensor:
    """How much the sound resembles what a map lights: without a source, a map lies on whatever looks likeliest.

    Args:
        maps: Shape (B, K, h, w), 0 or more.
        similarity: Of the sound as a whole to each cell, shape (B, h, w).

    Returns:
        The highest similarity among the cells that reach half of their map's maximum, in [0, 1], shape (B, K).
    """
    lit = maps >= maps.amax((-2, -1), keepdim=True) / 2
    return (similarity[:, None] * lit).flatten(2).amax(2).clamp(0, 1)
