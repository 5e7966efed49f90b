"""The best constant means one thing: the blobs with the highest AUC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.evaluation.constant import SIGMAS_PX, choose_constant
from soundwhere.metrics.baselines import constant_cells
from soundwhere.metrics.pairs import summarise
from soundwhere.metrics.presets import PRESETS, score

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SIDE = 64
TRIOS = WorldScenes(World(5, (SIDE, 3 * SIDE), seconds=0.2), 6, silent=1, layout="side-by-side")
SCAV = PRESETS["scav"]


def test_it_is_the_best_of_all() -> None:
    chosen = choose_constant(TRIOS, (1, 3), 2, SCAV, "val")
    truth = torch.from_numpy(np.stack([scene.masks for scene in TRIOS]))
    scores = {
        (cells, sigma): summarise(
            score(constant_cells(SIDE, 3 * SIDE, (1, 3), sigma, cells).expand(6, -1, -1, -1), truth, SCAV)
        )["auc"]
        for cells in ((0, 1), (0, 2), (1, 2))
        for sigma in SIGMAS_PX
    }
    assert scores[chosen.blobs.cells, chosen.blobs.sigma_px] == max(scores.values())
    assert str(chosen.best).endswith("(best on val)")
    assert [blobs.sigma_px for blobs in chosen.rows.values()] == list(SIGMAS_PX)
    assert chosen.rows[chosen.best] == chosen.blobs


def test_the_choice_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = choose_constant(TRIOS, (1, 3), 2, SCAV, "val", folder=tmp_path)
    monkeypatch.setattr(WorldScenes, "__getitem__", None)  # nobody may look again
    assert choose_constant(TRIOS, (1, 3), 2, SCAV, "val", folder=tmp_path) == first


def test_more_blobs_than_frames_lie_side_by_side_and_many_scenes_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soundwhere.evaluation.constant._ENOUGH", 2)
    ticks: list[tuple[int, int]] = []
    chosen = choose_constant(TRIOS, (1, 1), 2, SCAV, "these scenes", tick=lambda *done: ticks.append(done))
    assert (chosen.blobs.grid, chosen.blobs.cells) == ((1, 2), (0, 1))
    assert ticks == [(2, 2)]


def test_without_a_source_to_choose_by_it_is_the_usual_width() -> None:
    silent = WorldScenes(World(6, (SIDE, SIDE), seconds=0.2), 3, sounding=0, silent=1)
    assert choose_constant(silent, (1, 1), 1, SCAV, "val").blobs.sigma_px == 70
