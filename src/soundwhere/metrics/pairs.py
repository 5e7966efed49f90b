"""What is kept of a scored scene: one row of scalars for each (prediction, source) pair, and the tables' figures."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Literal

import torch

from soundwhere.errors import DataError
from soundwhere.metrics.functional import auc_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

LEVELS: Final = (0.1, 0.3, 0.5)
"""IoU levels x of CIoU@x that are printed."""
Meaning = Literal["success", "success-above", "scene-success", "mean-iou"]
"""What CIoU@x means: the share of pairs whose IoU is at least x (the paper) or above it, the share of scenes whose mean
IoU is at least x, or the mean IoU of maps binarised at x."""


@dataclass(frozen=True)
class PairScores:
    """Scores of N pairs, each attribute of shape (N,).

    Attributes:
        scene: Number of the scene, int64.
        source: Number of the source within its scene, int64.
        prediction: Which map answered for it, int64; -1 for none.
        iou: Intersection over union of the binarised map, float64.
        ap: Average precision of the map's pixels, float64; NaN where a protocol takes none.
        pointing: 1 where the map's peak lies on the source, float64.
        leakage: Share of the map's active pixels that lie on other sources, float64.
    """

    scene: Tensor
    source: Tensor
    prediction: Tensor
    iou: Tensor
    ap: Tensor
    pointing: Tensor
    leakage: Tensor

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[float, ...]] | Tensor) -> PairScores:
        """Pairs from rows in the order of the attributes."""
        table = torch.as_tensor(rows, dtype=torch.float64).reshape(len(rows), len(fields(cls)))
        return cls(*table[:, :3].long().unbind(-1), *table[:, 3:].unbind(-1))

    def __len__(self) -> int:
        return len(self.iou)

    def __getitem__(self, rows: Tensor) -> PairScores:
        """Some of the rows, by index or boolean mask."""
        return PairScores(**{name: column[rows] for name, column in self.columns().items()})

    def columns(self) -> dict[str, Tensor]:
        """The attributes by name, e.g. to save them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def concatenate(parts: Sequence[PairScores]) -> PairScores:
    """The rows of several batches as one."""
    if not parts:
        raise DataError("There is nothing to score: no scene was given.", "Check the data folder and its lists.")
    names = [field.name for field in fields(PairScores)]
    return PairScores(**{name: torch.cat([getattr(part, name) for part in parts]) for name in names})


def scene_means(pairs: PairScores) -> PairScores:
    """One row per scene, ordered by its number, with the means over its pairs; `source` and `prediction` are -1."""
    scenes, row = torch.unique(pairs.scene, return_inverse=True)
    sizes = torch.bincount(row, minlength=len(scenes))
    none = torch.full_like(scenes, -1)
    means = {
        name: torch.zeros(len(scenes), dtype=torch.float64, device=row.device).index_add_(0, row, column) / sizes
        for name, column in pairs.columns().items()
        if column.is_floating_point()
    }
    return PairScores(scene=scenes, source=none, prediction=none, **means)


def figures(
    pairs: PairScores, levels: Sequence[float] = LEVELS, meaning: Meaning = "success"
) -> tuple[Tensor, dict[str, Tensor]]:
    """What each unit contributes to each figure of a table: every figure is the mean of its column.

    Args:
        pairs: Scored pairs.
        levels: IoU levels x of CIoU@x.
        meaning: What CIoU@x means.

    Returns:
        The scene each unit belongs to, shape (N,), and columns of shape (N,): `cap` (unless no average precision was
        taken), `ciou@x`, `auc`, `mean_iou`, `pointing`, `leakage`. Units are pairs, or scenes for `scene-success`.

    Raises:
        DataError: There is no pair.
    """
    if not len(pairs):
        raise DataError("No scene has a source to score.", "Check that the annotations are not all empty.")
    if meaning == "scene-success":
        pairs = scene_means(pairs)
    columns = {
        "cap": pairs.ap,
        **{f"ciou@{x:g}": _reached(pairs.iou, x, meaning) for x in levels},
        "auc": auc_shares(pairs.iou),
        "mean_iou": pairs.iou,
        "pointing": pairs.pointing,
        "leakage": pairs.leakage,
    }
    if pairs.ap.isnan().any():
        del columns["cap"]
    return pairs.scene, columns


def _reached(ious: Tensor, level: float, meaning: Meaning) -> Tensor:
    """What each IoU adds to CIoU@level, shape as `ious`, float64."""
    if meaning == "mean-iou":
        return ious
    return (ious > level if meaning == "success-above" else ious >= level).double()


def summarise(pairs: PairScores, levels: Sequence[float] = LEVELS, meaning: Meaning = "success") -> dict[str, float]:
    """CAP, CIoU@x, AUC, mean IoU, pointing game and leakage over all pairs, each in [0, 1]; see `figures`."""
    return {name: float(column.mean()) for name, column in figures(pairs, levels, meaning)[1].items()}
