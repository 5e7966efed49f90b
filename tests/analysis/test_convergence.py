from __future__ import annotations

import pytest
import torch

from soundwhere.analysis.convergence import by_dominance, convergence
from soundwhere.config import model_config
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.methods.scav.model import SCAV
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


def test_a_model_stands_beside_maps_that_did_not_listen() -> None:
    torch.manual_seed(0)
    model = SCAV(model_config("scav-tiny")).eval()
    rows = convergence(model, list(WorldScenes(World(1, (64, 64)), 3)), sigma_px=10)
    assert list(rows) == ["stage 1", "feature norm", "constant", "random"]
    for dominant, second in rows.values():
        assert len(dominant) == len(second) == 3
        assert (dominant.iou >= second.iou).all()
        assert (dominant.source != second.source).all()
