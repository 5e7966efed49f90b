"""Scenes on a page: as many columns as asked for, and pictures too wide for it can be moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.evaluation.page import Section, write_page
from soundwhere.evaluation.qualitative import scene_pictures, scene_sheet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from soundwhere.types import Scene

SCENES = WorldScenes(World(5, (32, 64), seconds=0.1), 2, silent=0)


class Corners:
    """Two maps, whatever is asked."""

    rows: dict[Any, Any] = {}  # noqa: RUF012 - nobody writes to it
    identity: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, label: str) -> None:
        self.label = label

    def answer(self, view: Any) -> Any:
        raise NotImplementedError

    def own(self, scenes: Sequence[Scene]) -> torch.Tensor:
        return torch.eye(2).expand(len(scenes), 2, 2, 2)


def test_methods_have_a_column_each_and_the_last_one_for_every_map() -> None:
    methods = [Corners("a"), Corners("b")]
    captions = [text for _, text in scene_pictures(SCENES[0], methods)]
    assert captions[1:] == ["a", "b, source 1", "b, source 2"]
    captions = [text for _, text in scene_pictures(SCENES[0], methods, apart=False)]
    assert captions[1:] == ["b", "a"]  # of many columns one sees the first few


def test_pictures_of_a_sheet_can_be_smaller() -> None:
    whole = scene_sheet(list(SCENES[:2]), [Corners("a")], apart=False)
    half = scene_sheet(list(SCENES[:2]), [Corners("a")], apart=False, height_px=16)
    assert whole.shape[0] - half.shape[0] == 2 * 16
    assert whole.shape[1] - half.shape[1] == 2 * 32


def test_words_stand_first_and_wide_pictures_can_be_moved(tmp_path: Path) -> None:
    pictures = {"small": np.zeros((4, 100, 3), np.uint8), "wide": np.zeros((4, 5000, 3), np.uint8)}
    write_page(tmp_path / "page.html", "T", {"a": "<1>"}, [Section("", {"Who & what?": "Nobody."}, [], pictures)])
    page = (tmp_path / "page.html").read_text()
    assert "<p><b>Who &amp; what?</b> Nobody.</p>" in page
    assert page.count("<div class=wide") == 1
    assert page.index("Nobody.") < page.index("<h2>small") < page.index("<div class=wide")
    assert page.count("it moves sideways") == 1
