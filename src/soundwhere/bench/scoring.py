"""How much faster than the field's own loops, measured in one run on the same maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from soundwhere.bench.clock import Clock
from soundwhere.constants import FRAME_PX
from soundwhere.errors import needing
from soundwhere.metrics.baselines import random_smooth
from soundwhere.metrics.pairs import PairScores, concatenate, summarise
from soundwhere.metrics.presets import PRESETS, score

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


@dataclass(frozen=True)
class MetricsBench:
    """Times and results of both ways to score the same pairs.

    Attributes:
        pairs: How many pairs were scored.
        ours_s: Seconds of this package.
        loop_s: Seconds of the per-sample numpy and scikit-learn loop.
        ratio: How many times faster this package is.
        largest_difference: Between the figures (CAP, CIoU@x, AUC) of the two.
    """

    pairs: int
    ours_s: float
    loop_s: float
    ratio: float
    largest_difference: float


def bench_metrics(pairs: int = 4000, batch: int = 32, size: tuple[int, int] = (FRAME_PX, 2 * FRAME_PX)) -> MetricsBench:
    """Score smooth random duet maps against random boxes with this package and with a loop as the peers write it.

    Maps are made batch by batch, outside the clock, and both ways take turns, so that a busy machine slows both.

    Args:
        pairs: How many (map, source) pairs, two per scene.
        batch: Scenes scored at once by this package.
        size: Height and width of the maps.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    with needing("scikit-learn", "dev"):
        from sklearn.metrics import average_precision_score
    scored: list[PairScores] = []
    looped: list[tuple[float, float]] = []
    clock = Clock()
    for start in range(0, pairs // 2, batch):
        maps, truth = _scenes(range(start, min(start + batch, pairs // 2)), size)
        with clock.time("ours"):
            scored.append(score(maps, truth, PRESETS["scav"]))
        with clock.time("loop"):
            for heat, masks in zip(maps.numpy(), truth.numpy(), strict=True):
                looped += _loop(heat, masks, average_precision_score)
    with clock.time("ours"):
        ours = summarise(concatenate(scored))
    with clock.time("loop"):
        theirs = _loop_summary(looped)
    ours_s, loop_s = clock.total_s("ours"), clock.total_s("loop")
    difference = max(abs(ours[name] - value) for name, value in theirs.items())
    return MetricsBench(len(looped), ours_s, loop_s, loop_s / ours_s, difference)


def _scenes(seeds: range, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Two maps and two boxes per scene, one box in each half."""
    height, half = size[0], size[1] // 2
    truth = np.zeros((len(seeds), 2, *size), dtype=bool)
    for scene, seed in enumerate(seeds):
        generator = np.random.default_rng(seed)
        for source in range(2):
            tall, wide = (generator.uniform(0.3, 0.8, 2) * (height, half)).astype(int)
            top, left = generator.integers(height - tall), generator.integers(half - wide) + source * half
            truth[scene, source, top : top + tall, left : left + wide] = True
    return torch.stack([random_smooth(*size, seed=seed) for seed in seeds]), torch.from_numpy(truth)


def _loop(heat: NDArray[np.float32], truth: NDArray[np.bool_], precision: object) -> list[tuple[float, float]]:
    """IoU and average precision of one scene's two pairs, sample by sample."""
    assert callable(precision)
    masks = []
    for heatmap in heat:
        normalised = (heatmap - heatmap.min()) / (heatmap.max() - heatmap.min())
        mask = np.zeros(heatmap.shape)
        mask[normalised >= 0.5] = 1
        masks.append(mask)
    table = [
        [np.sum(mask * box) / (np.sum(box) + np.sum(mask * (box == 0))) for box in truth.astype(float)]
        for mask in masks
    ]
    order = (0, 1) if table[0][0] + table[1][1] >= table[0][1] + table[1][0] else (1, 0)
    return [(table[k][m], precision(truth[m].ravel(), heat[k].ravel())) for m, k in enumerate(order)]


def _loop_summary(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """CAP, CIoU@x and AUC from lists."""
    ious = np.array([iou for iou, _ in pairs])
    thresholds = np.arange(21) / 20
    rates = [float(np.mean(ious >= threshold)) for threshold in thresholds]
    return {
        "cap": float(np.mean([ap for _, ap in pairs])),
        **{f"ciou@{x:g}": float(np.mean(ious >= x)) for x in (0.1, 0.3, 0.5)},
        "auc": float(np.trapezoid(rates, thresholds)),
    }
