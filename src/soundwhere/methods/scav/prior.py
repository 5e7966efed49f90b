"""Algorithm 1: from the similarity map of stage 1 to the spatial prior M_dom."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from soundwhere.models.similarity import TINY, normalise_range

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Thresholds


class Steps(NamedTuple):
    """What Algorithm 1 computes on its way, each of shape (B, h, w) but the first.

    Attributes:
        peak: Number of the cell with the highest similarity, row by row, shape (B,).
        weights: How much of the background each cell is; they sum to 1.
        to_peak: Distance of each cell's features to those of the peak.
        to_background: Distance to those of the background.
        prior: M_dom, in [0, 1].
    """

    peak: Tensor
    weights: Tensor
    to_peak: Tensor
    to_background: Tensor
    prior: Tensor


def dominant_steps(similarity: Tensor, features: Tensor, thresholds: Thresholds) -> Steps:
    """The dominant source's map by Algorithm 1, step by step: is a cell nearer to the peak or to the background?

    Degenerate maps are defined: where the background weights N x S beside the peak sum to about 0 (a map at or below 0,
    far above the threshold, or with a single peak) the background is the plain mean of all cells, and a constant map
    gives 0.5 everywhere. Negative similarities weigh nothing, so that the background stays a mean of cells.

    Args:
        similarity: S, shape (B, h, w).
        features: V', shape (B, D, h, w).
        thresholds: The positive threshold and temperature make the background mask N.
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
    prior = torch.where(constant, 0.5, prior)
    maps = (each.reshape(similarity.shape) for each in (weights, to_seed, to_background, prior))
    return Steps(peak[:, 0], *maps)
