"""Which of many pictures belong to a sound that may hold several of them, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

_EXCLUDED: Final = -1e4  # a logit that weighs nothing
_NEGATIVES: Final = 3.0  # weight of pictures that do not sound: there are many, and most are told apart easily


def multi_positive_contrast(logits: Tensor, belongs: Tensor) -> Tensor:
    """Contrast of each picture that sounds in a mixture with all that do not, and of each mixture likewise.

    Other positives of the same row or column are left out of the denominator: two things that sound at once do not
    compete.

    Args:
        logits: Of M mixtures and P pictures, shape (M, P).
        belongs: 1 where a picture sounds in a mixture, shape (M, P).

    Returns:
        A scalar; 0 if nothing sounds.
    """
    others = logits.masked_fill(belongs > 0, _EXCLUDED)
    count = belongs.sum().clamp_min(1)
    by_sound = torch.logaddexp(logits, torch.logsumexp(others, 1, keepdim=True)) - logits
    by_picture = torch.logaddexp(logits, torch.logsumexp(others, 0, keepdim=True)) - logits
    return ((by_sound + by_picture) * belongs).sum() / count


def presence_loss(logits: Tensor, belongs: Tensor) -> Tensor:
    """Cross-entropy of "this picture sounds in this mixture", which makes its odds mean something by themselves.

    Args:
        logits: Of M mixtures and P pictures, shape (M, P).
        belongs: 1 where a picture sounds in a mixture, shape (M, P).
    """
    each = F.binary_cross_entropy_with_logits(logits, belongs, reduction="none")
    positive = (each * belongs).sum() / belongs.sum().clamp_min(1)
    negative = (each * (1 - belongs)).sum() / (1 - belongs).sum().clamp_min(1)
    return positive + _NEGATIVES * negative
