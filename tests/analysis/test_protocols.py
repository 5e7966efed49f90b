from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from soundwhere.analysis.protocols import BoxedObjects, box_truth, compare_protocols, fill_curve, protocols_results
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import DataError
from soundwhere.evaluation.answerers import Answer
from soundwhere.evaluation.rows import Row
from soundwhere.metrics.presets import PRESETS

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.evaluation.reading import View
    from soundwhere.evaluation.rows import Kind
    from soundwhere.types import Scene

SCENES = WorldScenes(World(7, (64, 128)), 20, silent=0, layout="side-by-side")


class Knowing:
    """A method that knows the truth."""

    label = "knowing"
    identity: dict[str, Any] = {}  # noqa: RUF012
    rows: dict[Row, Kind] = {Row("knowing"): "method"}  # noqa: RUF012

    def own(self, scenes: Sequence[Scene]) -> Tensor:
        return torch.from_numpy(np.stack([scene.masks for scene in scenes])).float()

    def answer(self, view: View) -> dict[Row, Answer]:
        return {Row(self.label): Answer(self.own(view.scenes))}


def hand_made() -> np.ndarray:
    """Shape (1, 4, 10, 10): a full box, the diagonal of a 5 x 5 box, an L of 7 in a 4 x 4 box, and nothing."""
    masks = np.zeros((1, 4, 10, 10), dtype=bool)
    masks[0, 0, 2:5, 1:9] = True
    masks[0, 1, range(5), range(5)] = True
    masks[0, 2, 6:10, 6] = masks[0, 2, 9, 6:10] = True
    return masks


def test_a_box_is_filled_as_far_as_its_object_goes() -> None:
    masks = hand_made()
    fill, boxed = box_truth(masks)
    np.testing.assert_allclose(fill, [1, 5 / 25, 7 / 16])
    assert boxed.sum((2, 3)).tolist() == [[24, 25, 16, 0]]
    assert (boxed.numpy() >= masks).all()


def test_objects_are_binned_by_fill_ratio() -> None:
    fill = np.array([0.2, 0.25, 0.55, 1.0])
    objects = BoxedObjects(fill, {"a": np.array([1.0, 0.5, 0.2, 0.4])}, {"a": np.array([0.5, 0.5, 0.4, 0.4])})
    low, middle, full = fill_curve(objects, (0.0, 0.3, 0.5, 0.6, 1.0))
    assert (low.count, middle.count, full.count) == (2, 1, 1)
    assert (low.low, low.high, low.perfect) == (0, 0.3, pytest.approx(0.225))
    assert low.by_mask["a"].value == 0.75
    assert low.gain["a"].value == -0.25
    assert middle.gain["a"].value == pytest.approx(0.2)
    assert full.perfect == 1
    assert objects.rank_correlation("a") is not None
    assert replace(objects, fill=np.ones(4)).rank_correlation("a") is None


def test_the_truth_itself_scores_1_by_mask_and_its_fill_ratio_by_box() -> None:
    found = compare_protocols(Knowing(), SCENES, (1, 2), sigma_px=20)
    assert found.boxed is not None
    np.testing.assert_allclose(found.boxed.by_mask["knowing"], 1)
    np.testing.assert_allclose(found.boxed.by_box["knowing"], found.boxed.fill)
    gains = {one.low: one.gain["knowing"].value for one in fill_curve(found.boxed)}
    assert list(gains.values()) == sorted(gains.values())  # the less of its box it fills, the more it loses
    assert found.boxed.rank_correlation("knowing") == pytest.approx(1)


def test_every_preset_is_in_the_table() -> None:
    found = compare_protocols(Knowing(), SCENES, (1, 2), sigma_px=20)
    assert list(found.presets) == list(PRESETS)
    assert (found.presets["scav"]["knowing"].iou == 1).all()
    assert (found.presets["scav-source-wise"]["knowing"].iou == 1).all()
    report = protocols_results(found)
    table, values = report.tables[0], report.values
    assert [row[0] for row in table.rows if row[0]] == list(PRESETS)
    assert [row[1] for row in table.rows[:3]] == ["knowing", "constant pair", "random smooth maps"]
    assert len(table.rows) == 3 * len(PRESETS)
    assert set(values["presets"]) == set(PRESETS)
    assert values["presets"]["avgn"]["choices"]["call"] == "single-frames"
    assert values["boxes"]["objects"] == 2 * len(SCENES)
    assert set(report.figures) == {"protocols", "boxes"}


def test_single_frames_are_shown_to_presets_that_call_so() -> None:
    class Frames(Knowing):
        asked = 0

        def own(self, scenes: Sequence[Scene]) -> Tensor:
            self.asked += 1
            return torch.stack(super().own(scenes).chunk(2, dim=3), dim=2)

    frames = Frames()
    found = compare_protocols(Knowing(), list(SCENES[:3]), (1, 2), single_frames=frames, masks=False)
    assert frames.asked == 1
    assert found.boxed is None
    assert len(found.presets["avgn"]["knowing"]) == 6


class Drawn(Sequence["Scene"]):
    """Scenes whose second mask no person drew."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: Any) -> Any:
        return [SCENES[i] for i in range(4)[index]] if isinstance(index, slice) else SCENES[index]

    def mask_kinds(self, index: int) -> tuple[str, ...]:
        return ("human", "derived")


def test_only_masks_drawn_by_people_are_compared_with_boxes() -> None:
    found = compare_protocols(Knowing(), Drawn(), (1, 2))
    assert found.boxed is not None
    fill, _ = box_truth(np.stack([SCENES[i].masks for i in range(4)]))
    np.testing.assert_allclose(found.boxed.fill, fill[::2])
    assert len(found.presets["scav"]["knowing"]) == 8


def test_scenes_without_a_source_are_refused() -> None:
    silent = WorldScenes(World(7, (64, 64)), 3, sounding=0)
    with pytest.raises(DataError, match="No scene has a source"):
        compare_protocols(Knowing(), silent, (1, 1))
