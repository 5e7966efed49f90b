"""The constant answer: the same blobs for every scene, as wide and in such frames as score best on other scenes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from soundwhere.evaluation.evaluate import same_size
from soundwhere.metrics.baselines import constant_cells
from soundwhere.metrics.pairs import concatenate, summarise
from soundwhere.metrics.presets import Preset, score

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Scene

SIGMAS_PX: Final = (25.0, 40.0, 55.0, 70.0, 90.0)
_ENOUGH: Final = 300  # scenes to choose by


@dataclass(frozen=True)
class Constant:
    """Which blobs are scored.

    Attributes:
        grid: Rows and columns of places.
        cells: Which places have a blob, counted row by row.
        sigma_px: The width that scored best where it was chosen.
        chosen_on: Where that was, in words.
    """

    grid: Grid
    cells: tuple[int, ...]
    sigma_px: float
    chosen_on: str

    @property
    def name(self) -> str:
        """What it is called in tables, without its width."""
        places = self.grid[0] * self.grid[1]
        what = {1: "constant blob", 2: "constant pair"}.get(len(self.cells), "constant blobs")
        where = f" in frames {' and '.join(str(cell + 1) for cell in self.cells)}" if len(self.cells) < places else ""
        return what + where

    @property
    def rows(self) -> dict[str, float]:
        """Every width by the name of its row; the chosen one says so."""
        return {self.row(sigma): sigma for sigma in SIGMAS_PX}

    @property
    def best(self) -> str:
        """The name of the chosen width's row."""
        return self.row(self.sigma_px)

    def row(self, sigma_px: float) -> str:
        """The name of the row of a width."""
        chosen = f" (best on {self.chosen_on})" if sigma_px == self.sigma_px else ""
        return f"{self.name}, sigma {sigma_px:g} px{chosen}"

    @property
    def identity(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "grid": list(self.grid),
            "cells": list(self.cells),
            "sigma_px": self.sigma_px,
            "sigmas_px": list(SIGMAS_PX),
            "chosen_on": self.chosen_on,
        }


def choose_constant(
    scenes: Sequence[Scene],
    grid: Grid,
    maps: int,
    preset: Preset,
    chosen_on: str,
    tick: Callable[[int], None] | None = None,
) -> Constant:
    """Find the blobs with the best AUC on some scenes, 300 of them at most.

    Args:
        scenes: With the truth; their pictures and sounds are not looked at.
        grid: Rows and columns of frames in the pictures.
        maps: How many blobs, one in a map of its own.
        preset: How to score.
        chosen_on: What the scenes are called.
        tick: Called with the number of scenes of each finished batch.
    """
    rows, columns = grid
    # one picture, or fewer frames than blobs: blobs side by side
    places = grid if rows * columns >= maps else (1, maps)
    candidates = [
        Constant(places, cells, sigma, chosen_on)
        for cells in combinations(range(places[0] * places[1]), maps)
        for sigma in SIGMAS_PX
    ]
    step = max(1, -(-len(scenes) // _ENOUGH))
    overlap_only = replace(preset, precision=None)
    scores: list[list[Any]] = [[] for _ in candidates]
    for numbers, group in same_size(scenes[::step]):
        truth = torch.from_numpy(np.stack([scene.masks for scene in group]))
        if truth.shape[1]:
            for candidate, found in zip(candidates, scores, strict=True):
                height, width = truth.shape[-2:]
                blobs = constant_cells(height, width, places, candidate.sigma_px, candidate.cells)
                expanded = blobs.expand(len(group), -1, -1, -1)
                found.append(score(expanded, truth, overlap_only, grid, torch.tensor(numbers)))
        if tick is not None:
            tick(len(group))
    if not any(scores):
        return candidates[SIGMAS_PX.index(70.0)]
    quality = [summarise(concatenate(found))["auc"] for found in scores]
    return candidates[quality.index(max(quality))]
