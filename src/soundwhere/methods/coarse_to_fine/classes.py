"""What is seen and heard of each class, and the losses that bring the two together.

Shapes: B items, K classes, C channels, D channels of class vectors, (h, w) cells of a picture or of a spectrogram.
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
    """Does a sound belong to a picture?

    Args:
        channels: Of sounds and pictures together.
        hidden: Channels between.
    """

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, heard: Tensor, seen: Tensor) -> Tensor:
        """Logits of no and yes for every sound (B, C) and every picture (B, C), shape (B, B, 2), sounds in rows."""
        sounds, pictures = len(heard), len(seen)
        pairs = [heard[:, None].expand(-1, pictures, -1), seen[None].expand(sounds, -1, -1)]
        logits: Tensor = self.layers(torch.cat(pairs, dim=-1))
        return logits


def matching_loss(logits: Tensor) -> Tensor:
    """Cross-entropy of logits (B, B, 2), B at least 2; right pairs weigh as much as all wrong ones."""
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
        self.classifier = nn.Conv2d(channels, classes, 1, bias=False)
        self.project = nn.Sequential(
            nn.Conv1d(channels, hidden, 1, bias=False), nn.ReLU(), nn.Conv1d(hidden, dimension, 1, bias=False)
        )

    def logits(self, features: Tensor) -> Tensor:
        """Which classes there are, from features (B, C, h, w), shape (B, K)."""
        logits: Tensor = self.classifier(features.mean((2, 3), keepdim=True))
        return logits.flatten(1)

    def activation(self, features: Tensor) -> Tensor:
        """CAM: where the classifier finds each class, at least 0, shape (B, K, h, w); no gradient flows through it."""
        found: Tensor = self.classifier(features.detach()).detach()
        return found.relu()

    def forward(self, features: Tensor) -> Tensor:
        """Unit class vectors (B, D, K): of each class, what is where the classifier finds it."""
        weights = self.activation(features).flatten(2)
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
        return F.normalize(self.project(torch.einsum("bcn,bkn->bck", features.flatten(2), weights)), dim=1)

    def cells(self, features: Tensor) -> Tensor:
        """Features (B, C, h, w) among the class vectors, shape (B, D, h, w), of unit length."""
        projected = F.normalize(self.project(features.flatten(2)), dim=1)
        return projected.reshape(*projected.shape[:2], *features.shape[2:])


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
        heard: Unit class vectors of the sounds, shape (B, D, K).
        seen: The same of the pictures.
        kept: From `pair_filter`.
        margin: Distance from which on others are far enough.
    """
    sounds, pictures = (vectors.transpose(1, 2).flatten(0, 1) for vectors in (heard, seen))
    distance = (2 - 2 * sounds @ pictures.T).clamp_min(_TINY)  # squared
    same = torch.eye(len(distance), dtype=torch.bool, device=distance.device)
    apart = (margin - distance.sqrt()).relu().square()
    return _mean(distance, kept & same) + _mean(apart, kept & ~same)


def _mean(values: Tensor, kept: Tensor) -> Tensor:
    """Over what is kept; 0 if that is nothing."""
    return (values * kept).sum() / kept.sum().clamp_min(1)


def class_maps(heard: Tensor, cells: Tensor) -> Tensor:
    """Where each class that is heard is seen, at least 0, shape (B, K, h, w).

    Args:
        heard: Unit class vectors of the sounds, shape (B, D, K).
        cells: Unit cells among the class vectors, shape (B, D, h, w).
    """
    return torch.einsum("bdk,bdhw->bkhw", heard, cells).relu()


def whole_map(maps: Tensor, heard: Tensor) -> Tensor:
    """The map of a picture without labels: the mean of its class maps, weighted by how surely each is heard.

    As published, the logistic function is applied twice, so that every class counts at least half.

    Args:
        maps: Shape (B, K, h, w).
        heard: Logits of the classes in the sound, shape (B, K).

    Returns:
        Shape (B, h, w); 1 at its best cell once it is divided by its maximum.
    """
    weights = heard.sigmoid().sigmoid()
    return torch.einsum("bkhw,bk->bhw", maps, weights) / weights.sum(1)[:, None, None]
