"""Differentiable thresholding: soft positive and negative cells of a similarity map, and their mean scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Thresholds


def positive_score(similarity: Tensor, thresholds: Thresholds) -> Tensor:
    """P: the mean similarity of the soft positive cells (Eq. positive_score), shape (...)."""
    return (positive_weights(similarity, thresholds) * similarity.flatten(-2)).sum(-1)


def negative_score(similarity: Tensor, thresholds: Thresholds) -> Tensor:
    """The mean similarity of the soft negative cells (first term of Eq. negative_score), shape (...)."""
    return (negative_weights(similarity, thresholds) * similarity.flatten(-2)).sum(-1)


def positive_weights(similarity: Tensor, thresholds: Thresholds) -> Tensor:
    """The soft positive mask of maps (..., h, w), made to sum to 1 over the cells, shape (..., h w)."""
    return _weights((similarity - thresholds.positive) / thresholds.temperature)


def negative_weights(similarity: Tensor, thresholds: Thresholds) -> Tensor:
    """The same of the soft negative mask."""
    return _weights((thresholds.negative - similarity) / thresholds.temperature)


def _weights(mask_logits: Tensor) -> Tensor:
    """Masks sigmoid(mask_logits) as the weights of a mean, which then always lies within the map's range.

    They are normalised in log space: far from its threshold a soft mask underflows, and any epsilon in the denominator
    would then decide the score instead of the cells.
    """
    return F.logsigmoid(mask_logits).flatten(-2).softmax(-1)
