"""One map against two sources: the dominant source of a scene is the one that the map overlaps more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from soundwhere.metrics.pairs import PairScores


def by_dominance(pairs: PairScores) -> tuple[PairScores, PairScores]:
    """Split one map's scores against two sources into those of the dominant and of the second source of each scene.

    Args:
        pairs: Two rows per scene. Where both overlap equally, the one with the higher average precision is dominant.
    """
    first, second, wins = _rivals(pairs)
    return pairs[torch.where(wins, first, second)], pairs[torch.where(wins, second, first)]


def first_wins(pairs: PairScores) -> NDArray[np.bool_]:
    """Whether the first of each scene's two sources is the dominant one, in the order of the scenes' numbers."""
    return _rivals(pairs)[2].numpy()


def _rivals(pairs: PairScores) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the first and of the second source of each scene, and whether the first is dominant."""
    order = torch.argsort(pairs.scene, stable=True)
    first, second = order.view(-1, 2).unbind(1)
    wins = (pairs.iou[first] > pairs.iou[second]) | (
        (pairs.iou[first] == pairs.iou[second]) & (pairs.ap[first] >= pairs.ap[second])
    )
    return first, second, wins
