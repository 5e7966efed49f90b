from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from soundwhere.analysis.stage_one import CHANGES, hearing, stage_one_results, stage_one_rows, train_and_score
from soundwhere.config import Config, DataConfig, TrainConfig, changed_settings, model_config
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from pathlib import Path

SIDE = 64
SCENES = WorldScenes(World(5, (SIDE, 3 * SIDE), seconds=0.2), 4, sounding=2, silent=1, layout="side-by-side")


@pytest.fixture
def recipe() -> Config:
    model = replace(model_config("scav-tiny"), frame_px=SIDE, dimension=16, decoupler_layers=1, decoupler_heads=2)
    times = TrainConfig(steps_one=2, batch_size=4, learning_rate=1e-3, device="cpu", log_every=1)
    return Config(model=model, data=DataConfig(scenes=8, single_fraction=1.0), train=times)


def test_each_row_changes_what_it_says() -> None:
    recipe = Config(model=model_config("scav-mobile"))
    rows = stage_one_rows(recipe)
    assert list(rows) == list(CHANGES)
    for name, changes in CHANGES.items():
        named = {f"{section}.{key}" for section, values in changes.items() for key in values}
        assert set(changed_settings(recipe, rows[name])) - {"train.stage"} <= named
    assert "14x14" not in stage_one_rows(Config())  # ResNet-18 has one grid


def test_a_row_is_trained_scored_and_found_again(recipe: Config, tmp_path: Path) -> None:
    row = train_and_score(stage_one_rows(recipe)["recipe"], tmp_path, SCENES, (1, 3))
    assert row.steps == 2
    assert row.seconds > 0
    again = train_and_score(stage_one_rows(recipe)["recipe"], tmp_path, SCENES, (1, 3))
    assert again.seconds == row.seconds
    np.testing.assert_array_equal(again.hearing.solo, row.hearing.solo)
    tables, values = stage_one_results({"recipe": row})
    assert values["recipe"]["solo"]["value"] == pytest.approx(row.hearing.solo.mean())
    assert tables[0].rows[0][0] == "recipe"


def test_a_perfect_ear_is_right_and_a_deaf_one_at_chance(recipe: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SCAV(replace(recipe.model, decouple=False)).eval()
    scenes = list(SCENES)
    kinds = {scene.sounds[k].tobytes(): (scene.masks[k],) for scene in scenes for k in range(2)}
    kinds |= {scene.mixture.tobytes(): tuple(scene.masks) for scene in scenes}

    def perfect(_: SCAV, features: torch.Tensor, sound: torch.Tensor) -> torch.Tensor:
        maps = [np.any(kinds[row.numpy().tobytes()], axis=0)[::16, ::16] for row in sound]
        return torch.from_numpy(np.stack(maps)).float()

    monkeypatch.setattr("soundwhere.analysis.stage_one.stage_one_similarity", perfect)
    found = hearing(model, scenes, (1, 3))
    assert found.solo.tolist() == [1.0] * 4
    assert found.peak.tolist() == [1.0] * 4
    monkeypatch.setattr(
        "soundwhere.analysis.stage_one.stage_one_similarity",
        lambda _, features, sound: torch.arange(12.0).expand(len(sound), 4, 12),  # always the last frame
    )
    assert hearing(model, scenes, (1, 3)).solo.mean() < 0.6
