"""Differentiable thresholding: soft positive and negative cells of a similarity map, and their mean scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Thresholds


def positive_score(similarity: Tensor, thresholds: Thresholds) -> Tensor:
    """P: the mean similarity of the soft positive cells (Eq. positive_score), shape (...)."""
    return _masked_mean(similarity, (similarity - thresholds.positive) / thresholds.temperature)


def negative_score(similarity: Tensor, thresholds: Thresholds) -> Tensor:
    """The mean similarity of the soft negative cells (first term of Eq. negative_score), shape (...)."""
    return _masked_mean(similarity, (thresholds.negative - similarity) / thresholds.temperature)


def _masked_mean(similarity: Tensor, mask_logits: Tensor) -> Tensor:
    """Mean over the cells weighted by sigmoid(mask_logits): a convex combination, so always within the map's range.

    The weights are normalised in log space: far from its threshold a soft mask underflows, and any epsilon in the
    denominator would then decide the score instead of the cells.
    """
    weights = F.logsigmoid(mask_logits).flatten(-2).softmax(-1)
    return (weights * similarity.flatten(-2)).sum(-1)
