"""The loss of LVS, which SSL-TIE and NoPrior share: own cells against other sounds and against own background.

Chen et al., Localizing Visual Sounds the Hard Way, CVPR 2021.
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

# What the diagonal of the scores with all sounds is multiplied by, so that a picture's own sound is no negative.
_OWN = -99.0


def lvs_logits(cells: Tensor, sounds: Tensor, thresholds: Thresholds, hard_negative: bool = True) -> Tensor:
    """Scores of each picture with its own sound, with every sound, and of its own background; the first is right.

    Masks are normalised in log space: on a map of ones, where the published code gives NaN, the background scores 1.

    Args:
        cells: Unit cells, shape (B, D, h, w).
        sounds: Unit sounds, shape (B, D).
        thresholds: Of the soft masks; one with equal thresholds does without the uncertain cells between them.
        hard_negative: Add the score of the picture's own background.

    Returns:
        Shape (B, 1 + N + 1) for N sounds of all processes, or one column less.
    """
    maps = torch.einsum("idhw,jd->ijhw", cells, gather(sounds))
    rows, columns = torch.arange(len(cells), device=cells.device), own_numbers(cells)
    own = maps[rows, columns]
    every = positive_score(maps, thresholds)
    factor = torch.ones_like(every)
    factor[rows, columns] = _OWN
    scores = [positive_score(own, thresholds)[:, None], every * factor]
    if hard_negative:
        scores.append(negative_score(own, thresholds)[:, None])
    return torch.cat(scores, dim=1) / INFONCE_TEMPERATURE


def lvs_loss(cells: Tensor, sounds: Tensor, thresholds: Thresholds, hard_negative: bool = True) -> Tensor:
    """Cross-entropy of `lvs_logits` with the first column."""
    logits = lvs_logits(cells, sounds, thresholds, hard_negative)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))
