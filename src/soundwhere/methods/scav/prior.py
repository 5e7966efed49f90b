"""Algorithm 1: from the similarity map of stage 1 to the spatial prior M_dom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from soundwhere.models.similarity import TINY, normalise_range

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Thresholds


def dominant_map(similarity: Tensor, features: Tensor, thresholds: Thresholds) -> Tensor:
    """The dominant source's map by Algorithm 1: is a cell nearer to the peak or to the background?

    Degenerate maps are defined: where the background weights N x S beside the peak sum to about 0 (a map at or below 0,
    far above the threshold, or with a single peak) the background is the plain mean of all cells, and a constant map
    gives 0.5 everywhere. Negative similarities weigh nothing, so that the background stays a mean of cells.

    Args:
        similarity: S, shape (B, h, w).
        features: V', shape (B, D, h, w).
        thresholds: The positive threshold and temperature make the background mask N.

    Returns:
        M_dom, shape (B, h, w), in [0, 1].
    """
    cells = features.flatten(2)  # (B, D, hw)
    scores = similarity.flatten(1)  # (B, hw)

    # N = 1 - m_p, written so that it keeps its digits where m_p is nearly 1
    background_mask = torch.sigmoid((thresholds.positive - scores) / thresholds.temperature)
    weights = background_mask * scores.clamp_min(0)
    total = weights.sum(1, keepdim=True)
    peak = scores.argmax(1, keepdim=True)
    beside_peak = total - weights.gather(1, peak)
    weights = torch.where(beside_peak > TINY, weights / total.clamp_min(TINY), 1 / scores.shape[1])
    background = torch.einsum("bdn,bn->bd", cells, weights)

    seed = cells.gather(2, peak[:, None].expand(-1, cells.shape[1], -1))[..., 0]  # (B, D)
    to_seed = (cells - seed[..., None]).norm(dim=1)
    to_background = (cells - background[..., None]).norm(dim=1)

    prior = normalise_range(to_background - to_seed)
    constant = scores.amax(1, keepdim=True) - scores.amin(1, keepdim=True) < TINY
    return torch.where(constant, 0.5, prior).reshape(similarity.shape)
