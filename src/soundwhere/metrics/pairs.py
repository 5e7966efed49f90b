"""What is kept of a scored scene: one row of scalars for each (prediction, source) pair, and the tables' figures."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import torch

from soundwhere.errors import DataError
from soundwhere.metrics.functional import auc_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

LEVELS: Final = (0.1, 0.3, 0.5)
"""IoU levels x of CIoU@x that are printed."""


@dataclass(frozen=True)
class PairScores:
    """Scores of N pairs, each attribute of shape (N,).

    Attributes:
        scene: Number of the scene, int64.
        source: Number of the source within its scene, int64.
        prediction: Which map answered for it, int64; -1 for none.
        iou: Intersection over union of the binarised map, float64.
        ap: Average precision of the map's pixels, float64.
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


def figures(pairs: PairScores, levels: Sequence[float] = LEVELS) -> dict[str, Tensor]:
    """What each pair contributes to each figure of a table, shapes (N,): every figure is the mean of its column."""
    return {
        "cap": pairs.ap,
        **{f"ciou@{level:g}": (pairs.iou >= level).double() for level in levels},
        "auc": auc_shares(pairs.iou),
        "mean_iou": pairs.iou,
        "pointing": pairs.pointing,
        "leakage": pairs.leakage,
    }


def summarise(pairs: PairScores, levels: Sequence[float] = LEVELS) -> dict[str, float]:
    """CAP, CIoU@x, AUC, mean IoU, pointing game and leakage over all pairs, each in [0, 1].

    Raises:
        DataError: There is no pair.
    """
    if not len(pairs):
        raise DataError("No scene has a source to score.", "Check that the annotations are not all empty.")
    return {name: float(column.mean()) for name, column in figures(pairs, levels).items()}
