"""Scoring answers over scenes: a model's, with and without its ears, beside those that need neither eyes nor ears."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import torch

from soundwhere.data.controls import silence, swap_pictures, swap_sounds
from soundwhere.evaluation.answers import (
    feature_norm_answer,
    fixed_answer,
    model_answer,
    random_answer,
    scene_batch,
    stage_one_answer,
)
from soundwhere.metrics.baselines import constant_pair
from soundwhere.metrics.pairs import PairScores, concatenate
from soundwhere.metrics.protocols import frame_wise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from soundwhere.evaluation.answers import Answer
    from soundwhere.methods.scav.model import SCAV
    from soundwhere.types import Scene

__all__ = [
    "feature_norm_answer",
    "fixed_answer",
    "model_answer",
    "random_answer",
    "same_size",
    "scene_batch",
    "score",
    "score_with_controls",
    "stage_one_answer",
]

BATCH = 16


def score(answer: Answer, scenes: Sequence[Scene], tick: Callable[[int], None] | None = None) -> PairScores:
    """Score an answer frame-wise: masks over the full picture, Hungarian matching, `minmax-0.5`.

    Args:
        answer: Gives maps for scenes.
        scenes: With the truth.
        tick: Called with the number of scenes of each finished batch.
    """
    parts = []
    for numbers, group in same_size(scenes):
        truth = torch.from_numpy(np.stack([scene.masks for scene in group]))
        parts.append(frame_wise(answer(group), truth, scenes=torch.tensor(numbers)))
        if tick is not None:
            tick(len(group))
    return concatenate(parts)


def same_size(scenes: Sequence[Scene], batch: int = BATCH) -> Iterator[tuple[list[int], list[Scene]]]:
    """Runs of up to `batch` neighbouring scenes that can be stacked, with their numbers."""
    for start in range(0, len(scenes), batch):
        numbered = list(enumerate(scenes[start : start + batch], start))
        for _, group in groupby(numbered, key=lambda item: item[1].masks.shape):
            numbers, members = zip(*group, strict=True)
            yield list(numbers), list(members)


def score_with_controls(model: SCAV, scenes: Sequence[Scene], sigma_px: float) -> dict[str, PairScores]:
    """The model and every control, by name, over the same scenes.

    Args:
        model: In eval mode.
        scenes: Of one size.
        sigma_px: Width of the constant pair's Gaussians.
    """
    answer = model_answer(model)
    return {
        "model": score(answer, scenes),
        "audio-shuffled": score(answer, swap_sounds(scenes)),
        "silence": score(answer, silence(scenes)),
        "picture-shuffled": score(answer, swap_pictures(scenes)),
        "feature norm": score(feature_norm_answer(model), scenes),
        "constant pair": score(fixed_answer(lambda h, w: constant_pair(h, w, sigma_px)), scenes),
        "random maps": score(random_answer(model.sources), scenes),
    }
