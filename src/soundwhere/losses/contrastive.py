"""The contrastive losses of both stages.

einsum legend: i, j = samples; d = channels; h, w = cells. Cross-sample terms see the samples of every process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from soundwhere.constants import INFONCE_TEMPERATURE
from soundwhere.distributed import gather, own_numbers
from soundwhere.losses.thresholding import negative_score, positive_score

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Thresholds


def contrast(positive: Tensor, negative: Tensor) -> Tensor:
    """-log(exp P / (exp P + exp N)), averaged over the batch (Eq. stage1_loss)."""
    return F.softplus(negative - positive).mean()


def paper_loss(features: Tensor, embedding: Tensor, thresholds: Thresholds) -> Tensor:
    """The stage-1 loss as the paper writes it (Eqs. positive_score, negative_score, stage1_loss).

    The cross-sample term is the *sum* over all other pictures of the mean similarity to this sound: with a batch of 256
    it reaches tens, and it grows with the number of processes. It is literal, not recommended.

    Args:
        features: V, prepared by `models.similarity.prepare`, shape (B, D, h, w).
        embedding: a, prepared likewise, shape (B, D).
        thresholds: Of the soft masks.

    Returns:
        The loss, a scalar.
    """
    return source_loss(features, embedding, thresholds, cross_sample=True)


def cross_sample_score(features: Tensor, embedding: Tensor) -> Tensor:
    """Sum over the other pictures j of the mean of S_{i->j} (second term of Eq. negative_score), shape (B,).

    The mean of a map is linear in the features, so each picture's mean feature is all that has to be gathered.
    """
    mean_feature = features.mean((-2, -1))
    every = embedding @ gather(mean_feature).T  # (B, all pictures)
    own = (embedding * mean_feature).sum(-1)
    return every.sum(-1) - own


def infonce_loss(features: Tensor, embedding: Tensor, thresholds: Thresholds) -> Tensor:
    """The stage-1 loss as the peers' code computes it: cross-entropy over own picture with every sound, and hard cells.

    For picture i the classes are its positive scores with the sounds of all samples (the right answer is its own) and
    its own soft negative cells, all divided by 0.07.

    Args:
        features: V, prepared by `models.similarity.prepare`, shape (B, D, h, w).
        embedding: a, prepared likewise, shape (B, D).
        thresholds: Of the soft masks.

    Returns:
        The loss, a scalar.
    """
    maps = torch.einsum("idhw,jd->ijhw", features, gather(embedding))
    target = own_numbers(features)
    own = maps[torch.arange(len(features), device=features.device), target]
    logits = torch.cat([positive_score(maps, thresholds), negative_score(own, thresholds)[:, None]], dim=1)
    return F.cross_entropy(logits / INFONCE_TEMPERATURE, target)


def source_loss(features: Tensor, embedding: Tensor, thresholds: Thresholds, cross_sample: bool = False) -> Tensor:
    """The stage-2 loss of one source (Sec. source-specific contrastive learning).

    Args:
        features: f_v of one source, prepared, shape (B, D, h, w).
        embedding: f_a of the same source, prepared, shape (B, D).
        thresholds: Of the soft masks.
        cross_sample: Add cross-sample negatives, which the paper leaves out (its ablation d).

    Returns:
        The loss, a scalar.
    """
    own = torch.einsum("idhw,id->ihw", features, embedding)
    negative = negative_score(own, thresholds)
    if cross_sample:
        negative = negative + cross_sample_score(features, embedding)
    return contrast(positive_score(own, thresholds), negative)
