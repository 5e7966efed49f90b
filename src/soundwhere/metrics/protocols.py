"""Maps and masks to scored pairs: which map answers for which source, and how well."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import torch

from soundwhere.errors import DataError
from soundwhere.metrics import kernels
from soundwhere.metrics.functional import to_numpy
from soundwhere.metrics.matching import Matching, Policy, match
from soundwhere.metrics.pairs import PairScores

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

Precision = Literal["continuous", "binary", "swapped"]
"""Average precision of the map, of the binarised map, or of the truth as a score for the binarised map."""
_MANY: Final = 8  # ranking the pixels of a map takes as long as comparing it with a few truths
_RANKED: Final = 32  # maps whose ranks are kept
EmptyTruth = Literal["left-out", "miss"]
"""A source with an empty mask (a broken annotation) is left out, or nothing answers it: every map scores 0 on it."""


def score_views(
    views: Tensor,
    binary: Tensor,
    truth: Tensor,
    *,
    matching: Matching = "hungarian",
    policy: Policy = "repeat",
    precision: Precision | None = "continuous",
    empty_truth: EmptyTruth = "left-out",
) -> PairScores:
    """Match predictions to sources and score the matched pairs.

    Assignments of equal total IoU are told apart by their average precision, so that the order of the maps never
    matters to `hungarian`. A map that is flat but for rounding errors ranks no pixel above another.

    Args:
        views: Map k as it is compared with source m, shape (B, K, M, h, w), or (B, K, 1, h, w) if the same for all.
        binary: The same, binarised.
        truth: Shape (B, M, h, w), bool.
        matching: How predictions are given to sources.
        policy: What to do when K < M.
        precision: Which average precision; none leaves `ap` NaN.
        empty_truth: What a source with an empty mask counts as.

    Returns:
        One row per source that counts; scenes are numbered by their place in the batch.
    """
    heat, masks, own = to_numpy(views), to_numpy(binary), to_numpy(truth)
    # maps that answer for all scenes are ranked once
    same = len(heat) >= _MANY and heat.strides[0] == 0 and heat.dtype != np.bool_
    heat = np.broadcast_to(kernels.settle(heat[:1]), heat.shape) if same else kernels.settle(heat)
    quality = torch.from_numpy(np.stack([kernels.iou_table(*each) for each in zip(masks, own, strict=True)]))
    present, union = own.any((-2, -1)), np.logical_or.reduce(own, axis=1)
    counted = present if empty_truth == "left-out" else np.ones_like(present)

    @cache
    def reached(prediction: int, view: int) -> NDArray[np.int64]:
        answer = heat[0, prediction, view].astype(np.float32, copy=False)
        return _reached(answer.tobytes(), answer.shape)

    @cache  # what tells assignments apart is often asked for again as the score
    def ranked(scene: int, prediction: int, source: int) -> float:
        view = source % heat.shape[2]
        if same:
            return kernels.average_precision_at(reached(prediction, view), own[scene, source])
        return kernels.average_precision(heat[scene, prediction, view], own[scene, source])

    def precisions(tied: Tensor) -> Tensor:
        predictions, sources = range(heat.shape[1]), range(own.shape[1])
        found = [[[ranked(scene, k, m) for m in sources] for k in predictions] for scene in tied.tolist()]
        return torch.tensor(found, dtype=torch.float64)

    # a source that is left out must not take a prediction from another
    usable = quality.masked_fill(torch.from_numpy(~counted)[:, None], -1.0)
    if matching == "greedy":
        usable = usable.masked_fill(torch.from_numpy(~masks.any((-2, -1))), torch.nan)
    chosen = match(usable, matching, policy, precisions).tolist()

    def row(scene: int, source: int) -> tuple[float, ...]:
        prediction = chosen[scene][source]
        if prediction < 0:
            return (scene, source, prediction, 0.0, 0.0, 0.0, 0.0)
        place, view = (scene, prediction, source), (scene, prediction, source % heat.shape[2])
        mine = own[scene, source]
        return (
            scene,
            source,
            prediction,
            float(quality[scene, prediction, source]),
            ranked(*place) if precision == "continuous" else _precision(masks[view], mine, precision),
            kernels.pointing_game(heat[view], mine),
            kernels.leakage(masks[view], union[scene] > mine),  # where only others are
        )

    return PairScores.from_rows([row(scene, source) for scene, source in np.argwhere(counted).tolist()])


@lru_cache(_RANKED)
def _reached(heat: bytes, shape: tuple[int, ...]) -> NDArray[np.int64]:
    return kernels.reached(np.frombuffer(heat, np.float32).reshape(shape))


def _precision(mask: NDArray[np.bool_], own: NDArray[np.bool_], precision: Precision | None) -> float:
    """The average precision of a binarised map and a truth, of the kind asked for; NaN for none."""
    if precision is None:
        return math.nan
    return kernels.average_precision(*((own, mask) if precision == "swapped" else (mask, own)))


def check_shapes(maps: Tensor, truth: Tensor) -> None:
    """Refuse maps (B, K, H, W) and masks (B, M, H, W) that do not belong together.

    Raises:
        DataError: They differ in more than the second dimension, or there is no map.
    """
    if maps.ndim != 4 or truth.ndim != 4 or len(maps) != len(truth) or maps.shape[-2:] != truth.shape[-2:]:
        raise DataError(
            f"Maps of shape {tuple(maps.shape)} cannot be scored against masks of shape {tuple(truth.shape)}.",
            "Both have four dimensions (scenes, maps or sources, height, width) and agree in all but the second.",
        )
    if truth.dtype != torch.bool:
        raise DataError(f"The masks are {truth.dtype}, not boolean.", "Compare them with 0 or 0.5 first.")
    if not maps.shape[1]:
        raise DataError("There is no heatmap to score.", "A method answers with at least one map per scene.")
