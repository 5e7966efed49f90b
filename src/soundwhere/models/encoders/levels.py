"""Features of several strides in one tensor: finer cells are put into the channels of the coarse cell they lie in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch.nn import functional as F

from soundwhere.models.encoders.layers import channels_last
from soundwhere.models.encoders.mobilenet import MobileNetV2

if TYPE_CHECKING:
    from torch import Tensor

# Blocks of MobileNetV2 behind which there are 8 and 16 pixels per cell, and their channels
_FINE: Final = ((6, 32, 4), (13, 96, 2))  # block, channels, cells along a side of a coarse cell


class Levels(NamedTuple):
    """What MobileNetV2 sees, from coarse to fine.

    Attributes:
        coarse: V, 32 pixels per cell, shape (B, 1280, h, w), in [0, 6].
        middle: 16 pixels per cell, shape (B, 96, 2h, 2w).
        fine: 8 pixels per cell, shape (B, 32, 4h, 4w).
    """

    coarse: Tensor
    middle: Tensor
    fine: Tensor


class MobileNetV2Levels(MobileNetV2):
    """MobileNetV2 whose features carry those of 16 and 8 pixels per cell along, so that they are kept as one."""

    packed = MobileNetV2.channels + sum(channels * side**2 for _, channels, side in _FINE)
    """Channels of what it gives; `channels` are those of V alone."""

    def forward(self, image: Tensor) -> Tensor:
        """Image (B, 3, H, W) to features (B, 2176, H/32, W/32), of either sign beyond the first 1280."""
        finer = []
        features = channels_last(image)
        for number, block in enumerate(self.features):
            features = block(features)
            finer += [F.pixel_unshuffle(features, side) for place, _, side in _FINE if place == number]
        return torch.cat([features, *reversed(finer)], dim=1)


def unpack(features: Tensor) -> Levels:
    """The levels in features of `MobileNetV2Levels`, shape (B, 2176, h, w)."""
    (_, fine, fine_side), (_, middle, middle_side) = _FINE
    sizes = [MobileNetV2.channels, middle * middle_side**2, fine * fine_side**2]
    coarse, packed_middle, packed_fine = torch.split(features, sizes, dim=1)
    return Levels(coarse, F.pixel_shuffle(packed_middle, middle_side), F.pixel_shuffle(packed_fine, fine_side))
