"""Mix-and-separate supervision for stage 2: each decoupled map should show what one of the solo sounds shows.

A made mixture is the sum of sounds that are known apart. Stage 1, hearing one of them alone, points at its source; the
two decoupled maps of the mixture are asked to agree with the two solo maps, in whichever order fits better. No label is
read. The paper's own stage-2 loss has nothing that ties a map to its sound, and drifts to maps that are on everywhere.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Thresholds

# Softness of the step from background to source when a map is read as a probability.
PROBABILITY_TEMPERATURE = 0.1


def presence_logits(similarity: Tensor, thresholds: Thresholds) -> Tensor:
    """The log-odds that a cell belongs to the source: 0 half-way between the negative and the positive threshold."""
    middle = (thresholds.positive + thresholds.negative) / 2
    return (similarity - middle) / PROBABILITY_TEMPERATURE


def soft_half(maps: Tensor, softness: float = PROBABILITY_TEMPERATURE) -> Tensor:
    """Maps stretched to [0, 1] as soft masks of what lies above half of their range, which is what scoring keeps."""
    return torch.sigmoid((maps - 0.5) / softness)


def distillation_loss(similarity: Tensor, teacher: Tensor, thresholds: Thresholds) -> Tensor:
    """Permutation-invariant disagreement between decoupled maps and solo maps.

    Cross-entropy asks every cell to be right; the overlap term (1 - soft IoU) keeps small sources from being outvoted
    by their background.

    Args:
        similarity: Maps of the K decoupled sources, shape (B, K, h, w).
        teacher: Maps of the K solo sounds, in [0, 1], shape (B, K, h, w).
        thresholds: Where a similarity counts as background or source.

    Returns:
        The loss under each sample's best order of sources, averaged over the batch.
    """
    sources = similarity.shape[1]
    every = (-1, sources, sources, -1)  # each student (row) against each teacher (column)
    student = presence_logits(similarity, thresholds).flatten(2)[:, :, None].expand(every)  # (B, K, K, hw)
    target = teacher.flatten(2)[:, None].expand(every)

    entropy = F.binary_cross_entropy_with_logits(student, target, reduction="none").mean(-1)
    probability = student.sigmoid()
    shared = (probability * target).sum(-1)
    overlap = shared / (probability.sum(-1) + target.sum(-1) - shared).clamp_min(1e-6)
    cost = entropy + 1 - overlap  # (B, K, K): student row, teacher column

    rows = torch.arange(sources)
    orders = torch.stack([cost[:, rows, list(order)].mean(1) for order in permutations(range(sources))])
    return orders.amin(0).mean()
