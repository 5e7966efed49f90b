from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from soundwhere.analysis.convergence import (
    OTHER_SOUND,
    PAPER,
    Gains,
    convergence_results,
    gap,
    kept_steps,
    observe,
)
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import ConfigError, DataError
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.metrics.presets import PRESETS, score

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from soundwhere.methods.scav.model import SCAV
    from soundwhere.types import Scene

COUNT = 8
SCENES = WorldScenes(World(7, (64, 128)), COUNT, silent=0, layout="side-by-side")
NAMES = [f"made-up-7-{number}" for number in range(COUNT)]


def test_everybody_is_asked_about_every_scene(network: SCAV) -> None:
    ticks: list[tuple[int, int]] = []
    found = observe({"m": network}, SCENES, NAMES, grid=(1, 2), sigma_px=20, tick=lambda *done: ticks.append(done))
    assert list(found.pairs) == ["m", f"m, {OTHER_SOUND}", "feature norm of m", "constant", "random"]
    assert ticks[-1] == (COUNT, COUNT)
    assert found.names == tuple(NAMES)
    assert all(len(pairs) == 2 * COUNT for pairs in found.pairs.values())
    assert found.first_is_left.all()  # so the made-up world lays them out
    assert found.left_wins("constant").all()
    np.testing.assert_allclose(found.level_db, 0, atol=1e-3)
    areas = np.array([scene.masks.sum((1, 2)) for scene in SCENES])
    np.testing.assert_allclose(found.doublings, np.log2(areas[:, 0] / areas[:, 1]))
    report = convergence_results(found)
    assert report.tables[0].title == "Dominant against second source"
    assert report.values["scenes"] == COUNT
    assert len(report.tables[0].rows) == 3 * (1 + 5)
    assert "louder wins" in report.tables[1].head


def test_stage_one_hears_its_own_scene_or_the_one_half_the_list_away(network: SCAV) -> None:
    found = observe({"m": network}, SCENES, NAMES, grid=(1, 2))
    alone = NetworkAnswerer("alone", network.without_stage_two().eval(), (1, 2))
    scenes = list(SCENES)
    swapped = [replace(scene, sounds=scenes[(n + COUNT // 2) % COUNT].sounds) for n, scene in enumerate(scenes)]
    truth = torch.from_numpy(np.stack([scene.masks for scene in scenes]))
    for name, heard in (("m", scenes), (f"m, {OTHER_SOUND}", swapped)):
        maps = torch.nn.functional.interpolate(alone.own(heard), (64, 128), mode="bilinear")
        torch.testing.assert_close(found.pairs[name].iou, score(maps, truth, PRESETS["scav"]).iou, atol=2e-3, rtol=0)
    assert not torch.equal(found.pairs["m"].ap, found.pairs[f"m, {OTHER_SOUND}"].ap)


def test_gains_change_levels_and_nothing_else() -> None:
    found = observe({}, SCENES, NAMES, grid=(1, 2), gain_db=10)
    assert np.abs(found.level_db).max() > 3
    assert np.abs(found.level_db).max() <= 20
    plain = observe({}, SCENES, NAMES, grid=(1, 2))
    assert torch.equal(found.pairs["random"].iou, plain.pairs["random"].iou)
    assert list(plain.pairs) == ["constant", "random"]
    louder = Gains(SCENES, 10.0)
    assert np.array_equal(louder[3].sounds, louder[3].sounds)
    assert louder.seen_kinds(3) == SCENES.seen_kinds(3)


class Mixed(Sequence["Scene"]):
    """Duets, with one that has a single source and one whose second source is hidden."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: Any) -> Any:
        scene = SCENES[index]
        if index == 2:
            return replace(scene, masks=scene.masks[:1], sounds=scene.sounds[:1])
        if index == 4:
            return replace(scene, masks=scene.masks * np.array([1, 0], bool)[:, None, None])
        return scene


def test_scenes_without_two_sources_are_left_out_and_counted(network: SCAV) -> None:
    found = observe({"m": network}, Mixed(), NAMES[:6], grid=(1, 2))
    assert found.left_out == 2
    assert found.names == tuple(NAMES[i] for i in (0, 1, 3, 5))
    assert len(found.pairs["m"]) == 8
    assert len(found.left_wins("m")) == 4
    solos = WorldScenes(World(7, (64, 64)), 3, sounding=1)
    with pytest.raises(DataError, match="two sources"):
        observe({}, solos, list("abc"))


def test_a_model_without_a_stage_one_is_refused(documented: Callable[[str], ModuleType]) -> None:
    toy = documented("toy.py")
    with pytest.raises(ConfigError, match="toy has no stage 1"):
        observe({"toy": toy.Toy(toy.ToyConfig()).eval()}, SCENES, NAMES)


def test_the_gap_over_the_steps_is_a_table_and_a_figure(network: SCAV) -> None:
    found = observe({"m": network}, SCENES, NAMES, controls=False)
    assert list(found.pairs) == ["m"]
    curve = [(step, gap(found.pairs["m"])) for step in (0, 10)]
    report = convergence_results(found, curve)
    assert [row[0] for row in report.tables[-1].rows] == ["0", "10"]
    assert [each["step"] for each in report.values["steps"]] == [0, 10]
    assert set(report.figures) == {"convergence", "convergence-steps"}
    assert gap(found.pairs["m"])["gap"]["cap"].value >= 0


def test_the_papers_gap_is_a_share() -> None:
    assert PAPER["dominant"] == pytest.approx({"cap": 0.6339, "ciou@0.3": 0.617, "auc": 0.3782})
    assert set(PAPER["second"]) == set(PAPER["dominant"])


def test_kept_steps(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stage-one"):
        kept_steps(tmp_path)
    (tmp_path / "stage-one.safetensors").touch()
    assert kept_steps(tmp_path) == []
    (tmp_path / "steps").mkdir()
    for name in ("stage-one-000020", "stage-one-000000", "stage-two-000020"):
        (tmp_path / "steps" / f"{name}.safetensors").touch()
    assert [step for step, _ in kept_steps(tmp_path)] == [0, 20]
