"""The loss of SLAVC: each cell chooses among sounds, each sound attends to cells, and both must meet.

Mo and Morgado, A Closer Look at Weakly-Supervised Audio-Visual Source Localization, NeurIPS 2022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional as F

from soundwhere.distributed import gather, own_numbers

if TYPE_CHECKING:
    from torch import Tensor


class TwoHeads(NamedTuple):
    """Unit cells (B, D, h, w) and unit sounds (B, D), of the head that localises (1) and of that which attends (2)."""

    cells1: Tensor
    cells2: Tensor
    sounds1: Tensor
    sounds2: Tensor


def meeting_logits(cells: tuple[Tensor, Tensor], sounds: tuple[Tensor, Tensor], temperature: float) -> Tensor:
    """The logarithm of sum_p r_ij(p) q_ij(p): r is a softmax over sounds j, q one over cells p, each of its own head.

    Args:
        cells: Of both heads, shape (B, D, h, w).
        sounds: Of both heads, shape (B, D).
        temperature: Of both softmaxes.

    Returns:
        Shape (B, N) for N sounds of all processes.
    """
    chosen, attended = (
        torch.einsum("idhw,jd->ijhw", part, gather(heard)).flatten(2) / temperature
        for part, heard in zip(cells, sounds, strict=True)
    )
    return (chosen.log_softmax(1) + attended.log_softmax(2)).logsumexp(2)


def slavc_loss(online: TwoHeads, target: TwoHeads, temperature: float = 0.03) -> Tensor:
    """Online cells against target sounds, and target cells against online sounds.

    Args:
        online: What is trained.
        target: Its slow copy, through which no gradient flows.
        temperature: Of every softmax.
    """
    pairs = own_numbers(online.cells1)
    seen = meeting_logits((online.cells1, online.cells2), (target.sounds1, target.sounds2), temperature)
    heard = meeting_logits((target.cells1, target.cells2), (online.sounds1, online.sounds2), temperature)
    return F.cross_entropy(seen, pairs) + F.cross_entropy(heard, pairs)
