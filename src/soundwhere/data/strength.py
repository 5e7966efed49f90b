"""Feature strength: where in a single clip's frame a frozen encoder sees something, at several scales.

The norm of a cell's features is high on objects and low on background. At one scale it is coarse and depends on where
the grid happens to lie; the mean over scales and a mirrored copy is a much better mask. Nothing is learnt and no label
is read, so it can teach stage 2 the shape of a source whose frame is known.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from soundwhere.constants import ENCODER_STRIDE_PX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from soundwhere.data.features import FeatureCache

# Sides at which a frame is seen, as a share of its own.
SCALES = (5 / 7, 1.0, 10 / 7, 2.0)
# Side of a cell of the result.
CELL_PX = 16


def strength_id(encoder: str) -> str:
    """Names everything that strength depends on: the encoder (see `encoder_id`), the scales and the cells.

    >>> strength_id("tiny-0123") == strength_id("tiny-4567")
    False
    """
    settings = repr((SCALES, CELL_PX, ENCODER_STRIDE_PX))
    return f"{encoder}-strength-{hashlib.sha256(settings.encode()).hexdigest()[:8]}"


@torch.no_grad()
def feature_strength(images: Tensor, encode: Callable[[Tensor], Tensor]) -> Tensor:
    """The squared norm of features, each scale divided by its maximum, averaged.

    Args:
        images: Normalised pictures, shape (B, 3, H, W).
        encode: From pictures of any size to features (B, C, h, w).

    Returns:
        Shape (B, 1, H/16, W/16), in [0, 1], with a maximum of 1.
    """
    size = (images.shape[-2], images.shape[-1])
    total = torch.zeros(len(images), 1, *size)
    for scale in SCALES:
        scaled = [ENCODER_STRIDE_PX * max(1, round(scale * side / ENCODER_STRIDE_PX)) for side in size]
        seen = F.interpolate(images, size=scaled, mode="bilinear", antialias=True, align_corners=False)
        strength = encode(seen).square().sum(1, keepdim=True)
        if scale == 1:
            strength = strength + encode(seen.flip(-1)).square().sum(1, keepdim=True).flip(-1)
        strength = F.interpolate(strength.float().cpu(), size=size, mode="bilinear", align_corners=False)
        total += strength / strength.amax((-2, -1), keepdim=True).clamp_min(1e-6)
    pooled = F.avg_pool2d(total, CELL_PX)
    return pooled / pooled.amax((-2, -1), keepdim=True).clamp_min(1e-6)


class StrengthPairs:
    """Single frames as the strength head sees them: features at one scale (C, h, w), and their strength (1, n, m)."""

    def __init__(self, keys: Sequence[str], features: FeatureCache, strength: FeatureCache) -> None:
        self._keys = keys
        self._features = features
        self._strength = strength

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, index: int) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
        key = self._keys[index]
        return self._features.get(key), self._strength.get(key)
