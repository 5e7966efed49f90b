"""What is seen and heard of each class, and the losses that bring the two together.

Shapes: B items, K classes, C channels, D channels of class vectors, N cells or time-frequency cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

_TINY = 1e-10  # below this a squared distance has no root whose gradient is a number


class Matcher(nn.Module):
    """Does a sound belong to a picture?"""

    def __init__(self, audio: int, visual: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(audio + visual, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, heard: Tensor, seen: Tensor) -> Tensor:
        """Logits of no and yes for every sound (B, C) and every picture (B, C), shape (B, B, 2), sounds in rows."""
        sounds, pictures = len(heard), len(seen)
        pairs = [heard[:, None].expand(-1, pictures, -1), seen[None].expand(sounds, -1, -1)]
        logits: Tensor = self.layers(torch.cat(pairs, dim=-1))
        return logits


def matching_loss(logits: Tensor) -> Tensor:
    """Cross-entropy of logits (B, B, 2); right pairs weigh as much as all wrong ones."""
    right = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    wrong = -logits.log_softmax(-1)
    return (wrong[right][:, 1].mean() + wrong[~right][:, 0].mean()) / 2


class ClassVectors(nn.Module):
    """One modality's classifier, and the vector of each class that follows from where the classifier looks.

    Args:
        channels: C of the features.
        classes: K.
        hidden: Channels between.
        dimension: D of the vectors.
    """

    def __init__(self, channels: int, classes: int, hidden: int, dimension: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(channels, classes, bias=False)
        self.project = nn.Sequential(
            nn.Linear(channels, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, dimension, bias=False)
        )

    def logits(self, cells: Tensor) -> Tensor:
        """Which classes there are, from cells (B, N, C), shape (B, K)."""
        logits: Tensor = self.classifier(cells.mean(1))
        return logits

    def activation(self, cells: Tensor) -> Tensor:
        """CAM: where the classifier finds each class, at least 0, shape (B, K, N); no gradient flows through it."""
        found: Tensor = self.classifier(cells).detach()
        return found.relu().transpose(1, 2)

    def forward(self, cells: Tensor) -> Tensor:
        """Unit class vectors (B, K, D) of cells (B, N, C): of each class, what is where the classifier finds it."""
        weights = self.activation(cells)
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(cells.dtype).tiny)
        return self.cells(weights @ cells)

    def cells(self, cells: Tensor) -> Tensor:
        """Cells (..., C) among the class vectors, shape (..., D), of unit length."""
        return F.normalize(self.project(cells), dim=-1)


def pair_filter(heard: Tensor, seen: Tensor, least: float) -> Tensor:
    """Pairs of a class that is heard and one that is seen, shape (B K, B K), bool; item by item, sounds in rows.

    Args:
        heard: Logits of the classes in sounds, shape (B, K).
        seen: The same for pictures.
        least: Probability above which a class is there.
    """
    return (heard.sigmoid().flatten()[:, None] > least) & (seen.sigmoid().flatten() > least)


def alignment_loss(heard: Tensor, seen: Tensor, kept: Tensor, margin: float) -> Tensor:
    """Vectors of one class of one item are drawn together, all others pushed apart.

    Args:
        heard: Unit class vectors of the sounds, shape (B, K, D).
        seen: The same of the pictures.
        kept: From `pair_filter`.
        margin: Distance from which on others are far enough.
    """
    distance = (2 - 2 * heard.flatten(0, 1) @ seen.flatten(0, 1).T).clamp_min(_TINY)  # squared
    same = torch.eye(len(distance), dtype=torch.bool, device=distance.device)
    apart = (margin - distance.sqrt()).relu().square()
    return _mean(distance, kept & same) + _mean(apart, kept & ~same)


def _mean(values: Tensor, kept: Tensor) -> Tensor:
    """Over what is kept; 0 if that is nothing."""
    return (values * kept).sum() / kept.sum().clamp_min(1)


def class_maps(heard: Tensor, cells: Tensor) -> Tensor:
    """Where each class that is heard is seen, at least 0, shape (B, K, N).

    Args:
        heard: Unit class vectors of the sounds, shape (B, K, D).
        cells: Unit cells among the class vectors, shape (B, N, D).
    """
    return torch.einsum("bkd,bnd->bkn", heard, cells).relu()
