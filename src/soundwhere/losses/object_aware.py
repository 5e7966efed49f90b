"""OCA and ORI: what a picture shows should be what its captions say (OA-SSL, Um et al., CVPR 2025, arXiv 2506.18557).

Nothing was published to compare with; these are the losses as the paper describes them. What it leaves open is an
argument here, and what is our reading is said to be.

Shapes: B pictures, D channels, K captions of sounding things and one of the background, (h, w) cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from soundwhere.losses.thresholding import negative_weights, positive_weights
from soundwhere.losses.transport import cell_distances, sinkhorn_distance

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Thresholds


def masked_means(features: Tensor, similarity: Tensor, thresholds: Thresholds) -> tuple[Tensor, Tensor]:
    """What is seen where it sounds and where it does not: means of features under soft masks, both (B, D), unit.

    Args:
        features: Unit cells, shape (B, D, h, w).
        similarity: Of every cell to the sound, shape (B, h, w).
        thresholds: Of the masks.
    """
    foreground, background = (
        F.normalize(torch.einsum("bn,bdn->bd", weights(similarity, thresholds), features.flatten(2)), dim=1)
        for weights in (positive_weights, negative_weights)
    )
    return foreground, background


def caption_contrast(
    foreground: Tensor, background: Tensor, references: Tensor, temperature: float, alike: float
) -> Tensor:
    """OCA: foreground like its own captions, not like the background's, nor like those of other pictures; and mirrored.

    Other pictures whose captions are alike are left out: they are no negatives. Of several captions of sounding things
    the direction of their mean counts (our reading; the paper has one for each object).

    Args:
        foreground: Unit vectors of what sounds, shape (B, D).
        background: The same of what does not, shape (B, D).
        references: Unit captions, those of sounding things first, shape (B, K + 1, D).
        temperature: Of the cosines.
        alike: Cosine of two captions above which they say the same.
    """
    sounding = F.normalize(references[:, :-1].mean(1), dim=1)
    silent = references[:, -1]
    first = _contrast(foreground, sounding, silent, temperature, alike)
    second = _contrast(background, silent, sounding, temperature, alike)
    return (first + second) / 2


def _contrast(seen: Tensor, own: Tensor, opposite: Tensor, temperature: float, alike: float) -> Tensor:
    """Cross-entropy of the own caption among itself, the picture's opposite one, and those of other pictures."""
    count = len(seen)
    itself = torch.eye(count, dtype=torch.bool, device=seen.device)
    left_out = (own @ own.T > alike) & ~itself
    captions = (seen @ own.T / temperature).masked_fill(left_out, -torch.inf)
    hard = (seen * opposite).sum(1, keepdim=True) / temperature
    return F.cross_entropy(torch.cat([captions, hard], dim=1), torch.arange(count, device=seen.device))


def region_isolation(features: Tensor, references: Tensor, entropy: float = 0.05, iterations: int = 50) -> Tensor:
    """ORI: each caption's region should be where the other captions' are not.

    For every ordered pair of captions, the Wasserstein-1 distance between the map of one and one minus that of the
    other, both stretched to [0, 1] and then made to sum to 1; the sum over pairs, the mean over pictures.

    Args:
        features: Unit cells, shape (B, D, h, w).
        references: Unit captions, shape (B, K + 1, D).
        entropy: Of the transport, whose costs are shares of the grid's diagonal.
        iterations: Of Sinkhorn.
    """
    height, width = features.shape[-2:]
    maps = torch.einsum("bdhw,bkd->bkhw", features, references).flatten(2)
    low, high = maps.amin(-1, keepdim=True), maps.amax(-1, keepdim=True)
    maps = (maps - low) / (high - low).clamp_min(1e-6)
    count = maps.shape[1]
    one, other = torch.tensor(
        [(n, m) for n in range(count) for m in range(count) if n != m], device=maps.device
    ).unbind(1)
    region, outside = _distribution(maps[:, one]), _distribution(1 - maps[:, other])
    cost = cell_distances(height, width, maps.device)
    return sinkhorn_distance(region, outside, cost, entropy, iterations).sum(1).mean()


def _distribution(maps: Tensor) -> Tensor:
    """Maps (..., N), at least 0, that sum to 1; an empty one becomes even."""
    maps = maps + 1e-6
    return maps / maps.sum(-1, keepdim=True)
