"""The pure parts of DSOL: where something sounds, what object is there, and which of the known objects it is.

Shapes: B items, C channels, K objects of the dictionary, (h, w) cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

SHARPNESS = 3.0
"""Factor of the object maps before they compete at test."""


def grown(mask: Tensor) -> Tensor:
    """A mask (B, h, w), bool, and the neighbours above, below, left and right of its cells.

    As published, cells on the border do not spread: only those inside grow.
    """
    inner = torch.zeros_like(mask)
    inner[:, 1:-1, 1:-1] = mask[:, 1:-1, 1:-1]
    spread = mask.clone()
    spread[:, :-1] |= inner[:, 1:]
    spread[:, 1:] |= inner[:, :-1]
    spread[:, :, :-1] |= inner[:, :, 1:]
    spread[:, :, 1:] |= inner[:, :, :-1]
    return spread


def object_features(features: Tensor, maps: Tensor, threshold: float) -> Tensor:
    """What is seen where something sounds: the mean over *all* cells of features that are 0 outside the grown mask.

    Args:
        features: x, shape (B, C, h, w).
        maps: Where something sounds, shape (B, h, w), in [0, 1].
        threshold: From which on it does.

    Returns:
        Shape (B, C).
    """
    return (features * grown(maps > threshold)[:, None]).mean((2, 3))


def object_maps(features: Tensor, dictionary: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """o: how much each cell resembles each object of the dictionary, shape (B, K, h, w).

    Args:
        features: x, shape (B, C, h, w).
        dictionary: One feature for each object, shape (K, C).
        weight: A factor, of one element.
        bias: Added to it, of one element.
    """
    return weight.reshape(()) * torch.einsum("bchw,kc->bkhw", features, dictionary) + bias.reshape(())


def category_loss(scores: Tensor, heard: Tensor) -> Tensor:
    """Divergence of the objects that are seen sounding from those that are heard, a mean over items and objects.

    Args:
        scores: Of the objects in right pictures, shape (B, K).
        heard: Logits of the objects in their sounds, from a classifier that does not learn, shape (B, K).
    """
    target = heard.detach().log_softmax(1)
    return (target.exp() * (target - scores.log_softmax(1))).mean()


def location_loss(right: Tensor, wrong: Tensor) -> Tensor:
    """A right picture sounds somewhere; no part of a wrong one does.

    Args:
        right: Maps of right pictures, shape (B, h, w), in [0, 1].
        wrong: Maps of wrong pictures, shape (B, h, w).
    """
    somewhere = right.flatten(1).amax(1)
    anywhere = negative_scores(wrong)
    return F.binary_cross_entropy(somewhere, torch.ones_like(somewhere)) + F.binary_cross_entropy(
        anywhere, torch.zeros_like(anywhere)
    )


def negative_scores(wrong: Tensor) -> Tensor:
    """The largest value in each quarter of a wrong picture's map (B, h, w), shape (4 B,)."""
    return F.adaptive_max_pool2d(wrong[:, None], 2).flatten()


def class_maps(masked: Tensor) -> Tensor:
    """Masked object maps (B, K, h, w) as shares of the objects at each cell, which is the answer at test."""
    return (SHARPNESS * masked).softmax(1)
