from __future__ import annotations

import pytest
import torch

from soundwhere.metrics.dominance import by_dominance, first_wins
from soundwhere.metrics.pairs import PairScores


def pairs(seed: int = 0, scenes: int = 12) -> PairScores:
    """Two rows for each scene, shuffled; some overlaps are equal."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(2 * scenes, generator=generator)
    iou = (4 * torch.rand(2 * scenes, generator=generator, dtype=torch.float64)).round() / 4
    ap, pointing, leakage = torch.rand(3, 2 * scenes, generator=generator, dtype=torch.float64)
    return PairScores(order // 2, order % 2, torch.zeros_like(order), iou, ap, pointing, leakage)


@pytest.mark.parametrize("seed", range(5))
def test_against_a_loop(seed: int) -> None:
    scored = pairs(seed)
    dominant, second = by_dominance(scored)
    assert dominant.scene.tolist() == second.scene.tolist() == list(range(12))
    for scene in range(12):
        rows = [row for row in range(len(scored)) if scored.scene[row] == scene]
        best, rest = sorted(rows, key=lambda row: (float(scored.iou[row]), float(scored.ap[row])), reverse=True)
        for name, column in scored.columns().items():
            assert dominant.columns()[name][scene] == column[best]
            assert second.columns()[name][scene] == column[rest]


def test_first_wins_and_dominance_agree() -> None:
    rows = [(2, k, 0, iou, iou, 0, 0) for k, iou in enumerate((0.5, 0.2))]
    rows += [(7, k, 0, iou, iou, 0, 0) for k, iou in enumerate((0.1, 0.2))]
    scored = PairScores.from_rows(rows)
    assert first_wins(scored).tolist() == [True, False]
    assert by_dominance(scored)[0].source.tolist() == [0, 1]
