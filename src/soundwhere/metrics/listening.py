"""Does an answer listen? Which frames it lights, how much it lights without a reason, and how sure it is of that."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

from soundwhere.constants import NEGATIVE_THRESHOLD
from soundwhere.metrics import kernels
from soundwhere.metrics.bootstrap import DRAWS, Interval, chunks
from soundwhere.metrics.frames import Grid, cut, frame_of_source
from soundwhere.metrics.functional import to_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    Values = NDArray[np.float64]

GATE: Final = NEGATIVE_THRESHOLD
"""A map counts as lit where it reaches this: training calls less background."""


class FramesFound(NamedTuple):
    """Whether one scene's sounding frames were found, and what chance would find, each in [0, 1].

    Attributes:
        by_peak: The frames with the highest peaks are exactly the sounding ones.
        by_mass: The frames with the most heat are exactly the sounding ones.
        peak: Share of the highest pixels that lie in a sounding frame.
        chance: `by_peak` and `by_mass` of frames drawn at random.
        chance_peak: `peak` of a frame drawn at random.
    """

    by_peak: float
    by_mass: float
    peak: float
    chance: float
    chance_peak: float


def frames_found(maps: Tensor, truth: Tensor, grid: Grid) -> list[FramesFound | None]:
    """Whether the frames that an answer lights are those that sound.

    Peaks are those of the maps as they are, whichever is higher; for the heat, each map is stretched to [0, 1] first,
    so that a faint second map counts as much as the first.

    Args:
        maps: Heatmaps of the picture, shape (B, K, H, W).
        truth: Sounding objects, shape (B, M, H, W), bool.
        grid: Rows and columns of frames in the picture.

    Returns:
        None for scenes in which every frame sounds, so that there is nothing to find, and for those with an empty mask,
        whose frame is not known.
    """
    frames = to_numpy(cut(maps.float(), grid))  # (B, K, F, h, w)
    sounding = np.zeros((len(frames), frames.shape[2]), dtype=bool)
    np.put_along_axis(sounding, to_numpy(frame_of_source(truth, grid)), True, axis=1)
    seen = [all(mask.any() for mask in masks) for masks in to_numpy(truth)]  # numpy stops at the first pixel
    known = np.array(seen) & ~np.all(sounding, 1)
    return [_found(*each) if to_find else None for *each, to_find in zip(frames, sounding, known, strict=True)]


def _found(frames: NDArray[np.float32], sounding: NDArray[np.bool_]) -> FramesFound:
    """Of one scene: maps in frames (K, F, h, w), and which frames sound, shape (F,)."""
    low, high = frames.min((-2, -1)), frames.max((-2, -1))  # (K, F)
    least = low.min(1)[:, None, None, None]
    spread = high.max(1)[:, None, None, None] - least
    heat = frames - least
    heat /= spread.clip(1e-12)
    mass = heat.sum((0, 2, 3))
    pixels, count = frames.max(0), int(sounding.sum())
    peak = kernels.pointing_game(pixels, np.broadcast_to(sounding[:, None, None], pixels.shape))
    by_peak, by_mass = (_same(score, sounding) for score in (high.max(0), mass))
    return FramesFound(by_peak, by_mass, peak, 1 / comb(len(sounding), count), count / len(sounding))


def solo_peaks(maps: Tensor, truth: Tensor, grid: Grid) -> list[tuple[float, float]]:
    """Whether the map of each source's sound alone peaks in that source's frame, or in one frame on the source itself.

    Args:
        maps: One map per source, shape (B, M, H, W), in the order of the truth.
        truth: Sounding objects, shape (B, M, H, W), bool.
        grid: Rows and columns of frames in the picture.

    Returns:
        For each scene the share of its sources that were found, and what a random place would find.
    """
    right = truth
    if grid != (1, 1):
        count = grid[0] * grid[1]
        own = torch.nn.functional.one_hot(frame_of_source(truth, grid), count).bool()  # (B, M, F)
        right = own.reshape(*own.shape[:2], *grid)
        for axis in (0, 1):
            right = right.repeat_interleave(truth.shape[axis - 2] // grid[axis], axis + 2)
    heat, places = to_numpy(maps.float()), to_numpy(right)
    return [
        (
            float(np.mean([kernels.pointing_game(*pair) for pair in zip(scene, place, strict=True)])),
            float(place.mean()),
        )
        for scene, place in zip(heat, places, strict=True)
    ]


def lit_share(maps: Tensor, gate: float = GATE) -> Tensor:
    """Share of the picture that any map (B, K, h, w) lights to at least `gate`, shape (B,)."""
    lit = to_numpy(maps.amax(1) >= gate)
    return torch.tensor([np.count_nonzero(each) / each.size for each in lit], dtype=torch.float64, device=maps.device)


def confidence(maps: Tensor) -> Tensor:
    """How surely something sounds: the highest value of any map (B, K, h, w), clamped to [0, 1], shape (B,)."""
    return maps.flatten(1).amax(1).clamp(0, 1).double()


def auroc(positive: Values, negative: Values) -> float:
    """Chance that a positive has a higher value than a negative, ties counting half.

    >>> auroc(np.array([0.9, 0.5]), np.array([0.5, 0.1]))
    0.875
    """
    return float(_aurocs(positive[None], negative[None])[0])


def _aurocs(positive: Values, negative: Values) -> Values:
    """The AUROC of each row, shape (draws,), of positives (draws, N) and negatives (draws, M)."""
    from scipy.stats import rankdata  # only here: it takes longer to import than an evaluation to sum up

    ranks = rankdata(np.concatenate([positive, negative], axis=1), axis=1)
    n = positive.shape[1]
    found: Values = (ranks[:, :n].sum(1) - n * (n + 1) / 2) / (n * negative.shape[1])
    return found


def mean_interval(
    values: Values, draws: int = DRAWS, seed: int = 0, made_of: Sequence[Sequence[str]] | None = None
) -> Interval:
    """The mean of one value per scene with its 95 % bootstrap interval.

    Args:
        values: One per scene.
        draws: Bootstrap samples.
        seed: Decides what is drawn.
        made_of: The parts of each scene, where scenes share them: parts are drawn instead of scenes, and a scene counts
            as often as all of its parts were drawn together.
    """
    rng = np.random.default_rng(seed)
    if made_of:
        parts = sorted({part for scene in made_of for part in scene})
        places = np.array([[parts.index(part) for part in scene] for scene in made_of])
        drawn = rng.multinomial(len(parts), np.full(len(parts), 1 / len(parts)), size=draws)
        weights = drawn[:, places].prod(2)  # (draws, scenes)
        weights = weights[weights.sum(1) > 0]
        return Interval.of(float(values.mean()), weights @ values / weights.sum(1))
    count = len(values)
    means = np.concatenate([values[rng.integers(count, size=(rows, count))].mean(1) for rows in chunks(draws)])
    return Interval.of(float(values.mean()), means)


def auroc_interval(
    positive: Values, negative: Values, draws: int = DRAWS, seed: int = 0, *, paired: bool = True
) -> Interval:
    """The AUROC with its 95 % bootstrap interval.

    Args:
        positive: One value per scene.
        negative: One value per scene.
        draws: Bootstrap samples of the scenes.
        seed: Decides which scenes are drawn.
        paired: Both are of the same scenes, and each draw takes the same scenes for both.
    """
    rng = np.random.default_rng(seed)
    n, m = len(positive), 0 if paired else len(negative)
    drawn = []
    for rows in chunks(draws):
        # both sides of a draw follow each other in the stream of numbers, so each side's range is asked for by column
        picked = rng.integers([n] * n + [len(negative)] * m, size=(rows, n + m))
        drawn.append(_aurocs(positive[picked[:, :n]], negative[picked[:, n:] if m else picked]))
    return Interval.of(auroc(positive, negative), np.concatenate(drawn))


def _same(score: NDArray[np.float32], sounding: NDArray[np.bool_]) -> float:
    """1 if the frames with the best scores (F,) are the sounding ones (F,), else 0; of equals, the first are best."""
    best = (-score).argsort(kind="stable")[: int(sounding.sum())]
    return float(sounding[best].all())
