from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from soundwhere.analysis.stage_one import CHANGES, hearing, stage_one_results, stage_one_rows, train_and_score
from soundwhere.config import Config, changed_settings
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.methods.scav.config import NAMED
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from pathlib import Path

SIDE = 64
SCENES = WorldScenes(World(5, (SIDE, 3 * SIDE), seconds=0.2), 4, sounding=2, silent=1, layout="side-by-side")


def test_each_row_changes_what_it_says() -> None:
    recipe = Config(NAMED["scav-mobile"])
    rows = stage_one_rows(recipe)
    assert list(rows) == list(CHANGES)
    for name, changes in CHANGES.items():
        named = {f"{section}.{key}" for section, values in changes.items() for key in values}
        assert set(changed_settings(recipe, rows[name])) - {"method.stage"} <= named
    assert "14x14" not in stage_one_rows(Config(NAMED["scav-r18"]))  # ResNet-18 has one grid


def test_a_row_is_trained_scored_and_found_again(recipe: Config, tmp_path: Path) -> None:
    recipe = replace(recipe, method=replace(recipe.method, single_fraction=1.0))  # type: ignore[call-arg]
    row = train_and_score(stage_one_rows(recipe)["recipe"], tmp_path, SCENES, (1, 3))
    assert row.steps == 2
    assert row.seconds > 0
    again = train_and_score(stage_one_rows(recipe)["recipe"], tmp_path, SCENES, (1, 3))
    assert again.seconds == row.seconds
    np.testing.assert_array_equal(again.hearing["solo"], row.hearing["solo"])
    report = stage_one_results({"recipe": row})
    assert report.values["recipe"]["solo"]["value"] == pytest.approx(row.hearing["solo"].mean())
    assert report.tables[0].rows[0][0] == "recipe"
    assert report.tables[0].cells[0][-2].text == "2"


def test_a_perfect_ear_is_right_and_a_deaf_one_at_chance(network: SCAV, monkeypatch: pytest.MonkeyPatch) -> None:
    scenes = list(SCENES)
    sounds = [sound for scene in scenes for sound in (*scene.sounds, scene.mixture)]
    masks = [mask for scene in scenes for mask in (*scene.masks, scene.masks.any(0))]

    def perfect(_: SCAV, seen: torch.Tensor, heard: torch.Tensor) -> torch.Tensor:
        """What is heard is the waveform itself."""
        where = [next(place for place, each in enumerate(sounds) if np.allclose(each, row)) for row in heard.numpy()]
        return torch.from_numpy(np.stack([masks[place][::16, ::16] for place in where])).float()

    monkeypatch.setattr(SCAV, "hear", lambda _, sound: sound)
    monkeypatch.setattr(SCAV, "stage_one_map", perfect)
    found = hearing(network, scenes, (1, 3))
    assert found["solo"].tolist() == [1.0] * 4
    assert found["frames"].tolist() == [1.0] * 4
    assert found["peak"].tolist() == [1.0] * 4
    always_last = torch.arange(12.0).expand(4, 12)
    monkeypatch.setattr(SCAV, "stage_one_map", lambda _, seen, heard: always_last.expand(len(heard), 4, 12))
    assert hearing(network, scenes, (1, 3))["solo"].mean() < 0.6
