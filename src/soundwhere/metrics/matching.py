"""Which prediction answers for which source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from scipy.optimize import linear_sum_assignment

if TYPE_CHECKING:
    from torch import Tensor

Policy = Literal["repeat", "zero"]
"""With fewer maps than sources: let the best map answer again (`repeat`), or score 0 for a missing map (`zero`)."""


def hungarian(quality: Tensor, policy: Policy = "repeat") -> Tensor:
    """The assignment of K predictions to M sources with the greatest total quality (Eq. hungarian).

    With K > M the best M predictions are taken: a method that offers more maps than sources is helped by the truth, so
    compare only methods with equally many. With K < M the sources left over are treated as `policy` says.

    Args:
        quality: Quality (IoU) of each prediction for each source, shape (B, K, M).
        policy: What to do when predictions are fewer than sources.

    Returns:
        For each source the index of its prediction, shape (B, M), int64; -1 where it has none.
    """
    predictions, sources = quality.shape[-2:]
    if predictions == sources == 2:
        straight = quality[:, 0, 0] + quality[:, 1, 1]
        crossed = quality[:, 0, 1] + quality[:, 1, 0]
        swap = (crossed > straight).long()
        return torch.stack([swap, 1 - swap], dim=-1)
    chosen = torch.full((len(quality), sources), -1, dtype=torch.long)
    for scene, table in enumerate(quality.cpu().numpy()):
        rows, columns = linear_sum_assignment(table, maximize=True)
        chosen[scene, columns] = torch.from_numpy(rows)
    chosen = chosen.to(quality.device)
    return torch.where(chosen < 0, quality.argmax(-2), chosen) if policy == "repeat" else chosen
