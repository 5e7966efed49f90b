"""How sure a figure is: bootstrap over scenes, because the pairs of one scene are not independent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from soundwhere.errors import DataError
from soundwhere.metrics.pairs import LEVELS, Meaning, PairScores, figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DRAWS: Final = 1000
_CHUNK: Final = 100  # draws at a time, so that memory stays below 100 numbers per scene


@dataclass(frozen=True)
class Interval:
    """A figure, or a difference of figures, with its 95 % percentile interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, drawn: Sequence[float] | NDArray[np.float64]) -> Interval:
        """A figure with the interval of what it was in bootstrap samples, of which NaN do not count."""
        return cls(value, *map(float, np.nanquantile(drawn, [0.025, 0.975])))


def intervals(
    pairs: PairScores,
    levels: Sequence[float] = LEVELS,
    meaning: Meaning = "success",
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Interval]:
    """Every figure with its confidence interval.

    Args:
        pairs: Scored pairs of at least one scene.
        levels: As `figures`.
        meaning: As `figures`.
        draws: Bootstrap samples of the scenes.
        seed: Decides which scenes are drawn.

    Returns:
        By name of the figure.
    """
    _, names, sums, sizes = _scene_sums(pairs, levels, meaning)
    drawn = np.concatenate([_means(weights, sums, sizes) for weights in _draws(len(sizes), draws, seed)])
    return _intervals(names, sums.sum(0) / sizes.sum(), drawn)


def paired_differences(
    first: PairScores,
    second: PairScores,
    levels: Sequence[float] = LEVELS,
    meaning: Meaning = "success",
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Interval]:
    """Every figure of one model minus that of another on the same scenes, each draw taking the same scenes for both.

    Args:
        first: Scored pairs of one model.
        second: Scored pairs of another, on the same scenes.
        levels: As `figures`.
        meaning: As `figures`.
        draws: Bootstrap samples of the scenes.
        seed: Decides which scenes are drawn.

    Returns:
        By name of the figure. An interval without 0 means that the models differ by more than the choice of scenes.

    Raises:
        DataError: The models were scored on different scenes.
    """
    scenes, names, sums, sizes = _scene_sums(first, levels, meaning)
    other_scenes, other_names, other_sums, other_sizes = _scene_sums(second, levels, meaning)
    if not np.array_equal(scenes, other_scenes) or names != other_names:
        shared = len(np.intersect1d(scenes, other_scenes))
        raise DataError(
            f"The two results cover {len(scenes)} and {len(other_scenes)} scenes, of which {shared} are the same.",
            "A paired difference needs both models scored on the same scenes with the same preset.",
        )
    drawn = np.concatenate(
        [
            _means(weights, sums, sizes) - _means(weights, other_sums, other_sizes)
            for weights in _draws(len(sizes), draws, seed)
        ]
    )
    return _intervals(names, sums.sum(0) / sizes.sum() - other_sums.sum(0) / other_sizes.sum(), drawn)


def _scene_sums(
    pairs: PairScores, levels: Sequence[float], meaning: Meaning
) -> tuple[NDArray[np.int64], list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Scene numbers (S,), names of the C figures, their sums over each scene (S, C), and its number of units (S,)."""
    units, columns = figures(pairs, levels, meaning)
    scenes, row = torch.unique(units.cpu(), return_inverse=True)
    values = torch.stack(list(columns.values()), dim=-1).cpu()
    sums = torch.zeros(len(scenes), len(columns), dtype=torch.float64).index_add_(0, row, values)
    return scenes.numpy(), list(columns), sums.numpy(), torch.bincount(row).double().numpy()


def chunks(draws: int) -> list[int]:
    """Draws in portions that fit into memory, whatever the number of scenes."""
    return [min(_CHUNK, draws - start) for start in range(0, draws, _CHUNK)]


def _draws(scenes: int, draws: int, seed: int) -> list[NDArray[np.float64]]:
    """How often each scene is drawn, in chunks of shape (draws, S)."""
    generator = np.random.default_rng(seed)
    drawn = []
    for rows in chunks(draws):
        picked = generator.integers(scenes, size=(rows, scenes)) + np.arange(rows)[:, None] * scenes
        drawn.append(np.bincount(picked.ravel(), minlength=rows * scenes).reshape(rows, scenes).astype(np.float64))
    return drawn


def _means(weights: NDArray[np.float64], sums: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The figures (draws, C) of weighted scenes (draws, S)."""
    return (weights @ sums) / (weights @ sizes)[:, None]


def _intervals(names: list[str], values: NDArray[np.float64], drawn: NDArray[np.float64]) -> dict[str, Interval]:
    return {name: Interval.of(float(value), draws) for name, value, draws in zip(names, values, drawn.T, strict=True)}
