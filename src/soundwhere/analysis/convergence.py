"""Selective convergence (tab:selective_convergence): does stage 1's one map settle on one of two sources?

The dominant source of a scene is the one the map overlaps more, so *any* single map shows a gap between dominant and
second source; the same two rows for a random, a constant and a feature-norm map say how much of it means something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from soundwhere.engine.evaluate import feature_norm_answer, fixed_answer, random_answer, score, stage_one_answer
from soundwhere.metrics.baselines import constant_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.metrics.pairs import PairScores
    from soundwhere.models.scav import SCAV
    from soundwhere.types import Scene


def by_dominance(pairs: PairScores) -> tuple[PairScores, PairScores]:
    """Split one map's scores against two sources into those of the dominant and of the second source of each scene.

    Args:
        pairs: Two rows per scene. Where both overlap equally, the one with the higher average precision is dominant.
    """
    order = torch.argsort(pairs.scene, stable=True)
    first, second = order.view(-1, 2).unbind(1)
    wins = (pairs.iou[first] > pairs.iou[second]) | (
        (pairs.iou[first] == pairs.iou[second]) & (pairs.ap[first] >= pairs.ap[second])
    )
    return pairs[torch.where(wins, first, second)], pairs[torch.where(wins, second, first)]


def convergence(model: SCAV, scenes: Sequence[Scene], sigma_px: float) -> dict[str, tuple[PairScores, PairScores]]:
    """Dominant and second source for stage 1's map, and for maps that did not listen.

    Args:
        model: In eval mode; its stage 1 answers.
        scenes: With two sources each.
        sigma_px: Width of the constant map's Gaussian, in the middle of the picture.
    """
    answers = {
        "stage 1": stage_one_answer(model),
        "feature norm": feature_norm_answer(model),
        "constant": fixed_answer(lambda height, width: constant_cells(height, width, (1, 1), sigma_px)),
        "random": random_answer(1),
    }
    return {name: by_dominance(score(answer, scenes)) for name, answer in answers.items()}
