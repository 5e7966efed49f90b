"""What the choice of protocol and of truth does to the score of one and the same answer.

Boxes: a box holds background in its corners, so a perfect mask, scored against the box of its object, gets an IoU of
just the share of the box that the object fills.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from scipy.stats import spearmanr

from soundwhere.data.selection import KnowsMaskKinds
from soundwhere.data.synthetic.world import boxes
from soundwhere.errors import DataError
from soundwhere.evaluation.evaluate import same_size
from soundwhere.metrics.baselines import constant_pair, random_smooth
from soundwhere.metrics.listening import mean_interval
from soundwhere.metrics.pairs import PairScores, concatenate
from soundwhere.metrics.presets import PRESETS, find_preset, score, upsample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from soundwhere.evaluation.probes import Method
    from soundwhere.metrics.bootstrap import Interval
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Masks, Scene

    Values = NDArray[np.float64]

EDGES: Final = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
"""Borders of the bins of the fill ratio."""
CONSTANT, RANDOM = "constant pair", "random smooth maps"


@dataclass(frozen=True)
class BoxedObjects:
    """N objects whose masks are known, scored against the mask and against its box.

    Attributes:
        fill: Share of its tightest box that an object fills, shape (N,).
        by_mask: IoU of each answer against the masks, shape (N,) each.
        by_box: IoU of each answer against the boxes, shape (N,) each.
    """

    fill: Values
    by_mask: dict[str, Values]
    by_box: dict[str, Values]

    def rank_correlation(self, answer: str) -> float | None:
        """Spearman's correlation of what an answer gains by boxes with the fill ratio; None if one is constant."""
        gain = self.by_box[answer] - self.by_mask[answer]
        if np.ptp(gain) == 0 or np.ptp(self.fill) == 0:
            return None
        return float(spearmanr(self.fill, gain).statistic)


@dataclass(frozen=True)
class Comparison:
    """One answer under everything.

    Attributes:
        presets: Scored pairs by preset and answer.
        boxed: The same maps against masks and boxes; None where the truth has no masks.
    """

    presets: dict[str, dict[str, PairScores]]
    boxed: BoxedObjects | None


def compare_protocols(
    method: Method,
    scenes: Sequence[Scene],
    grid: Grid,
    *,
    single_frames: Method | None = None,
    masks: bool = True,
    sigma_px: float = 70.0,
    tick: Callable[[int], None] | None = None,
) -> Comparison:
    """Score one answer as every preset does, beside a constant pair and random maps; scenes are read once.

    Args:
        method: Answers with maps of the whole picture.
        scenes: With the truth; those without a source are left out.
        grid: Rows and columns of frames in the pictures.
        single_frames: The same, called on single frames, for presets that do so; else these score the whole picture's.
        masks: Whether the truth was annotated as masks, which boxes can be compared with.
        sigma_px: Width of the constant pair's Gaussians.
        tick: Called with the number of scenes of each finished batch.

    Raises:
        DataError: No scene has a source.
    """
    label = method.label
    presets: dict[str, dict[str, list[PairScores]]] = {
        name: {answer: [] for answer in (label, CONSTANT, RANDOM)} for name in PRESETS
    }
    fills: list[Values] = []
    ious: dict[str, tuple[list[Values], list[Values]]] = {answer: ([], []) for answer in (label, CONSTANT)}
    for numbers, group in same_size(scenes):
        truth = torch.from_numpy(np.stack([scene.masks for scene in group]))
        if truth.any():
            places = torch.tensor(numbers)
            called = {"picture": method.own(group)}
            called["single-frames"] = single_frames.own(group) if single_frames else called["picture"]
            fixed = _input_free(truth, numbers, sigma_px)
            for name, preset in PRESETS.items():
                for answer, maps in {label: called[preset.call], **fixed}.items():
                    presets[name][answer].append(score(maps, truth, preset, grid, places))
            if masks:
                fill, boxed = box_truth(truth.numpy())
                human = np.concatenate([_human(scenes, *each) for each in zip(numbers, group, strict=True)])
                fills.append(fill[human])
                for answer, maps in {label: called["picture"], CONSTANT: fixed[CONSTANT]}.items():
                    for found, target in zip(ious[answer], (truth, boxed), strict=True):
                        found.append(_overlaps(maps, target)[human])
        if tick is not None:
            tick(len(group))
    if not presets["scav"][label]:
        raise DataError("No scene has a source to score.", "Choose a benchmark with sounding objects.")
    filled = np.concatenate(fills) if fills else np.empty(0)
    by_mask, by_box = ({a: np.concatenate(found[i]) for a, found in ious.items() if found[i]} for i in range(2))
    return Comparison(
        {name: {answer: concatenate(parts) for answer, parts in rows.items()} for name, rows in presets.items()},
        BoxedObjects(filled, by_mask, by_box) if len(filled) else None,
    )


def box_truth(masks: Masks) -> tuple[Values, Tensor]:
    """The tightest box of each mask (B, M, H, W) as a mask (B, M, H, W), and how much of it each object fills.

    Returns:
        The fill ratio of the masks that are not empty, shape (N,), in (0, 1], and the boxes. An empty mask has none.
    """
    boxed = np.zeros_like(masks)
    for index in np.ndindex(masks.shape[:2]):
        left, top, right, bottom = boxes(masks[index][None])[0]
        boxed[index][top:bottom, left:right] = True
    present = masks.any((-2, -1))
    fill: Values = masks.sum((-2, -1))[present] / boxed.sum((-2, -1))[present]
    return fill, torch.from_numpy(boxed)


@dataclass(frozen=True)
class Bin:
    """Objects of about one fill ratio.

    Attributes:
        low: Least fill ratio.
        high: Greatest fill ratio.
        count: How many objects.
        perfect: Mean IoU of their true masks against their boxes, which is the mean fill ratio.
        by_mask: Mean IoU of each answer against the masks.
        by_box: Mean IoU of each answer against the boxes.
        gain: What each answer gains by boxes, paired.
    """

    low: float
    high: float
    count: int
    perfect: float
    by_mask: dict[str, Interval]
    by_box: dict[str, Interval]
    gain: dict[str, Interval]


def fill_curve(objects: BoxedObjects, edges: Sequence[float] = EDGES) -> list[Bin]:
    """The objects binned by fill ratio, empty bins left out; intervals by bootstrap over objects."""
    bins = []
    for low, high in pairwise(edges):
        inside = (objects.fill > low) & (objects.fill <= high)
        if inside.any():
            by_mask = {answer: values[inside] for answer, values in objects.by_mask.items()}
            by_box = {answer: values[inside] for answer, values in objects.by_box.items()}
            bins.append(
                Bin(
                    low,
                    high,
                    int(inside.sum()),
                    float(objects.fill[inside].mean()),
                    {answer: mean_interval(values) for answer, values in by_mask.items()},
                    {answer: mean_interval(values) for answer, values in by_box.items()},
                    {answer: mean_interval(by_box[answer] - by_mask[answer]) for answer in by_mask},
                )
            )
    return bins


def _input_free(truth: Tensor, numbers: Sequence[int], sigma_px: float) -> dict[str, Tensor]:
    height, width = truth.shape[-2:]
    random = torch.stack([random_smooth(height, width, seed=number) for number in numbers])
    return {CONSTANT: constant_pair(height, width, sigma_px).expand(len(truth), -1, -1, -1), RANDOM: random}


def _human(scenes: Sequence[Scene], number: int, scene: Scene) -> NDArray[np.bool_]:
    """Which of a scene's masks that are not empty were drawn by people, or all where nobody says."""
    kinds = scenes.mask_kinds(number) if isinstance(scenes, KnowsMaskKinds) else ()
    drawn = np.array([kind == "human" for kind in kinds] if kinds else [True] * len(scene.masks), dtype=np.bool_)
    return drawn[scene.masks.any((1, 2))]


def _overlaps(maps: Tensor, truth: Tensor) -> Values:
    """IoU of every object (N,) as the paper scores it."""
    preset = find_preset("scav")
    pairs = score(upsample(maps, (truth.shape[-2], truth.shape[-1]), preset), truth, preset)
    values: Values = pairs.iou.numpy()
    return values
