"""Similarity between an audio embedding and every cell of the visual features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch.nn import functional as F

from soundwhere.models.recollection import once

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["cosine", "dot"]

# Below this a sum of weights, or the range of a map, is taken for zero.
TINY = 1e-6


def prepare(tensor: Tensor, kind: Kind) -> Tensor:
    """Make inner products of dimension 1 the chosen similarity: unit length for cosine, unchanged for dot.

    Args:
        tensor: Features (B, D, h, w) or an embedding (B, D).
        kind: `cosine` or `dot`.
    """
    return once("unit length", tensor, lambda each: F.normalize(each, dim=1)) if kind == "cosine" else tensor


def similarity_map(features: Tensor, embedding: Tensor, kind: Kind = "cosine") -> Tensor:
    """S_{i->i}: the similarity of each sample's sound to each cell of its own picture.

    Args:
        features: V, shape (B, D, h, w).
        embedding: a, shape (B, D).
        kind: `cosine` (in [-1, 1]; in [0, 1] for non-negative features) or `dot`.

    Returns:
        Shape (B, h, w).
    """
    return torch.einsum("bdhw,bd->bhw", prepare(features, kind), prepare(embedding, kind))


def normalise_range(maps: Tensor) -> Tensor:
    """Stretch each map (B, ...) to [0, 1] (Algorithm 1, step 4); a constant map becomes 0.5 everywhere."""
    cells = maps.flatten(1)
    low, high = cells.amin(1, keepdim=True), cells.amax(1, keepdim=True)
    spread = high - low
    stretched = (cells - low) / spread.clamp_min(TINY)
    return torch.where(spread < TINY, 0.5, stretched).reshape(maps.shape)
