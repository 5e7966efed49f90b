"""Sources one after another: growing a peak into an object, `peel` (no second stage at all), and sharing cells out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from soundwhere.models.recollection import once
from soundwhere.models.similarity import normalise_range, similarity_map

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

# Softness of the peak: cells within a few hundredths of the maximum count as the peak.
PEAK_TEMPERATURE = 0.03


def grow(similarity: Tensor, features: Tensor) -> Tensor:
    """Grow the similarity's peak into the object it lies on.

    Every cell is compared (cosine) with the peak's visual embedding, and the result weighted by the norm of its
    features, which is high on objects and low on background.

    Args:
        similarity: S, shape (B, h, w).
        features: V, shape (B, D, h, w).

    Returns:
        Maps in [0, 1], shape (B, h, w).
    """
    peak = (similarity.flatten(1) / PEAK_TEMPERATURE).softmax(1)
    embedding = torch.einsum("bdn,bn->bd", features.flatten(2), peak)
    likeness = similarity_map(features, embedding)
    return normalise_range(likeness.clamp_min(0) * once("norm", features, lambda each: each.norm(dim=1)))


def peel(similarity: Tensor, features: Tensor, sources: int, grid: tuple[int, int] = (1, 1)) -> Tensor:
    """Training-free localisation of several sources: grow the peak, take it out of the similarity, repeat.

    Args:
        similarity: S of the mixture, shape (B, h, w).
        features: V, shape (B, D, h, w).
        sources: K.
        grid: Rows and columns of frames in the picture, if it is known to be made of several: what grows is cut at the
            seams, and a frame is taken out as a whole.

    Returns:
        Maps in [0, 1], shape (B, K, h, w), most similar source first.
    """
    maps = []
    remaining = similarity
    for _ in range(sources):
        grown = taken = grow(remaining, features)
        if grid != (1, 1):
            taken = _peak_frame(remaining, grid)
            lowest = grown.masked_fill(taken == 0, 1).amin((-2, -1), keepdim=True)
            grown = normalise_range((grown - lowest) * taken)
        maps.append(grown * remaining.flatten(1).amax(1).clamp(0, 1)[:, None, None])
        remaining = remaining * (1 - taken)
    return torch.stack(maps, dim=1)


def share_out(similarity: Tensor, dominant: Callable[[Tensor], Tensor], sources: int) -> Tensor:
    """Share the cells of a picture out among sources, the most similar first.

    A source takes its dominant map's part of what remains, out of the picture and of the similarity; the last one takes
    the rest. Two sources get M_dom and 1 - M_dom, as in the paper.

    Args:
        similarity: S of stage 1, shape (B, h, w).
        dominant: From a similarity of that shape to M_dom in [0, 1], such as Algorithm 1.
        sources: K, 2 or more.

    Returns:
        Shares in [0, 1] whose sum over the sources is 1 in every cell, shape (B, K, h, w).

    >>> halves = share_out(torch.rand(1, 2, 2), lambda remaining: torch.full_like(remaining, 0.5), sources=3)
    >>> halves[0, :, 0, 0].tolist()
    [0.5, 0.25, 0.25]
    """
    shares, rest = [], torch.ones_like(similarity)
    for _ in range(sources - 1):
        share = rest * dominant(similarity * rest)
        shares.append(share)
        rest = rest - share
    return torch.stack([*shares, rest], dim=1)


def _peak_frame(similarity: Tensor, grid: tuple[int, int]) -> Tensor:
    """1 in the frame that holds the maximum of a map (B, h, w), 0 in the others, same shape."""
    height, width = similarity.shape[-2:]
    rows, columns = grid
    row, column = (
        torch.arange(length, device=similarity.device) * parts // length
        for length, parts in ((height, rows), (width, columns))
    )
    frames = row[:, None] * columns + column
    peak = frames.flatten()[similarity.flatten(1).argmax(1)]
    return (frames == peak[:, None, None]).to(similarity.dtype)
