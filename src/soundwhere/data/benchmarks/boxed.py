"""A benchmark of masks as one of boxes: every object is replaced by the tightest box around it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from soundwhere.data.selection import Selected
from soundwhere.data.synthetic.world import boxes
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from soundwhere.data.benchmarks.scenes import Benchmark
    from soundwhere.types import Masks, Scene


_TIGHTEST = "tightest boxes of the masks"


def is_boxed(benchmark: Benchmark) -> bool:
    """Whether the boxes of a benchmark were made of masks, by which the same scenes are scored as well."""
    return benchmark.choices.get("truth") == _TIGHTEST


def boxed(benchmark: Benchmark) -> Benchmark:
    """The same scenes, scored by boxes.

    Raises:
        ConfigError: The truth of the benchmark is not made of masks.
    """
    if benchmark.truth != "masks":
        raise ConfigError(f"{benchmark.name} has no masks to put boxes around.", "Score it as it is.")
    return replace(
        benchmark,
        scenes=_Boxed(benchmark.scenes, range(len(benchmark.scenes))),
        truths=_Boxed(benchmark.truths, range(len(benchmark.truths))),
        truth="boxes",
        choices={**benchmark.choices, "truth": _TIGHTEST},
    )


def box_masks(masks: Masks) -> Masks:
    """The tightest box of each mask (S, H, W) as a mask; an empty one stays empty.

    >>> box_masks(np.eye(3, dtype=np.bool_)[None]).all()
    np.True_
    """
    found = np.zeros_like(masks)
    for box, (left, top, right, bottom) in zip(found, boxes(masks), strict=True):
        box[top:bottom, left:right] = True
    return found


class _Boxed(Selected):
    """Scenes of a list with boxes for masks."""

    def make(self, record: int) -> Scene:
        """The scene of a number, with boxes for masks."""
        scene = super().make(record)
        silent = None if scene.silent_masks is None else box_masks(scene.silent_masks)
        return replace(scene, masks=box_masks(scene.masks), silent_masks=silent)
