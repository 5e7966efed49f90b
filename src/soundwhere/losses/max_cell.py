"""Multiple-instance contrast of EZ-VSL, which FNAC and AVGN share: of a picture, only the best cell counts.

Mo and Morgado, Localizing Visual Sounds the Easy Way, ECCV 2022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from soundwhere.distributed import gather

if TYPE_CHECKING:
    from torch import Tensor


def max_cell_logits(cells: Tensor, sounds: Tensor, temperature: float) -> Tensor:
    """L_ij = max over cells p of <v_i,p, a_j> / temperature, for the pictures and sounds of all processes.

    Args:
        cells: v, shape (B, D, h, w).
        sounds: a, shape (B, D).
        temperature: Of the softmax that follows.

    Returns:
        Shape (N, N).
    """
    similarity = torch.einsum("idhw,jd->ijhw", cells, gather(sounds))
    return gather(similarity.flatten(2).amax(2)) / temperature


def both_ways(logits: Tensor) -> Tensor:
    """Which sound belongs to a picture, and which picture to a sound: cross-entropy of rows plus that of columns."""
    pairs = torch.arange(len(logits), device=logits.device)
    return F.cross_entropy(logits, pairs) + F.cross_entropy(logits.T, pairs)
