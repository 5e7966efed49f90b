"""The constant answer: the same blobs for every scene, as wide and in such frames as score best on other scenes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from soundwhere.data.selection import Selected
from soundwhere.evaluation.answerers import InputFreeAnswerer
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.scorebook import Scorebook
from soundwhere.evaluation.scoring import evaluate
from soundwhere.metrics.baselines import constant_cells
from soundwhere.metrics.pairs import summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import Tensor

    from soundwhere.metrics.frames import Grid
    from soundwhere.metrics.presets import Preset
    from soundwhere.types import Scene

SIGMAS_PX: Final = (25.0, 40.0, 55.0, 70.0, 90.0)
_USUAL: Final = 3  # place of the width that is taken where no scene has a source to choose by
_ENOUGH: Final = 300  # scenes to choose by


_drawn = lru_cache(64)(constant_cells)  # for every scene the same


@dataclass(frozen=True)
class Blobs:
    """Gaussians, each in a map of its own.

    Attributes:
        grid: Rows and columns of places.
        cells: Which places have a blob, counted row by row.
        sigma_px: Their width.
    """

    grid: Grid
    cells: tuple[int, ...]
    sigma_px: float

    @property
    def row(self) -> Row:
        """The row of a table.

        >>> str(Blobs((1, 3), (0, 2), 70.0).row), str(Blobs((1, 1), (0,), 12.5).row)
        ('constant pair in frames 1 and 3, sigma 70 px', 'constant blob, sigma 12.5 px')
        """
        places = self.grid[0] * self.grid[1]
        what = {1: "constant blob", 2: "constant pair"}.get(len(self.cells), "constant blobs")
        where = f" in frames {' and '.join(str(cell + 1) for cell in self.cells)}" if len(self.cells) < places else ""
        return Row(answer=f"{what}{where}, sigma {self.sigma_px:g} px")

    def maps(self, height: int, width: int) -> Tensor:
        """One map per blob, shape (K, H, W)."""
        return _drawn(height, width, self.grid, self.sigma_px, self.cells)


@dataclass(frozen=True)
class Constant:
    """The blobs that were chosen.

    Attributes:
        blobs: Which.
        chosen_on: Where they scored best, in words.
        sigmas_px: The widths that were tried.
    """

    blobs: Blobs
    chosen_on: str
    sigmas_px: tuple[float, ...] = SIGMAS_PX

    @property
    def best(self) -> Row:
        """The row of the chosen width, which says where it was chosen."""
        row = self.blobs.row
        return replace(row, answer=f"{row.answer} (best on {self.chosen_on})")

    @property
    def rows(self) -> dict[Row, Blobs]:
        """Every width in the chosen frames, by its row."""
        tried = [replace(self.blobs, sigma_px=sigma) for sigma in self.sigmas_px]
        return {self.best if each == self.blobs else each.row: each for each in tried}

    @property
    def identity(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "grid": list(self.blobs.grid),
            "cells": list(self.blobs.cells),
            "sigma_px": self.blobs.sigma_px,
            "sigmas_px": list(self.sigmas_px),
            "chosen_on": self.chosen_on,
        }


def choose_constant(
    scenes: Sequence[Scene],
    grid: Grid,
    maps: int,
    preset: Preset,
    chosen_on: str,
    *,
    sigmas_px: tuple[float, ...] = SIGMAS_PX,
    folder: Path | None = None,
    about: dict[str, Any] | None = None,
    tick: Callable[[int, int], None] | None = None,
) -> Constant:
    """Find the blobs with the best AUC on some scenes, 300 of them at most.

    Args:
        scenes: With the truth; their pictures and sounds are not looked at.
        grid: Rows and columns of frames in the pictures.
        maps: How many blobs, each in a map of its own.
        preset: How to score.
        chosen_on: What the scenes are called.
        sigmas_px: The widths to try.
        folder: Where the choice is kept, so that it is made once; None keeps nothing.
        about: What the scenes depend on, as JSON values.
        tick: Called with the number of scenes done and that of all.
    """
    # one picture, or fewer frames than blobs: blobs side by side
    places = grid if grid[0] * grid[1] >= maps else (1, maps)
    cells = combinations(range(places[0] * places[1]), maps)
    tried = {each.row: each for each in (Blobs(places, cell, sigma) for cell in cells for sigma in sigmas_px)}
    names = {str(row): blobs for row, blobs in tried.items()}
    settings = {"about": about or {}, "preset": asdict(preset), "maps": maps, "chosen_on": chosen_on}
    book = Scorebook(folder, {**settings, "tried": list(names), "scenes": len(scenes)})
    if "choice" not in book:
        thinned = range(0, len(scenes), max(1, -(-len(scenes) // _ENOUGH)))
        found = evaluate(
            Selected(scenes, thinned),
            [str(number) for number in thinned],
            [InputFreeAnswerer(tried, maps, others=())],
            replace(preset, precision=None),
            grid,
            measures=("pairs",),
            tick=tick,
        )
        pairs = {row: found.scores[row].pairs for row in tried}
        quality = {row: summarise(each)["auc"] if len(each) else 0.0 for row, each in pairs.items()}
        best = max(tried, key=quality.__getitem__) if any(map(len, pairs.values())) else list(tried)[_USUAL]
        book.add({"choice": str(best)})
    return Constant(names[book["choice"]], chosen_on, sigmas_px)
