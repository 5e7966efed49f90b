"""Where the things are, with their outlines: a small head on features of three strides, fitted before stage 2.

Feature strength at several scales follows things better than at one; a guided filter lets it follow their edges. The
head learns to guess the result in one pass. No sound is heard and no label is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from soundwhere.constants import IMAGENET_MEAN, IMAGENET_STD
from soundwhere.data.features import Eye
from soundwhere.data.training_scenes import FrameTarget
from soundwhere.losses.distillation import soft_half
from soundwhere.methods.scav.strength import STRENGTH, feature_strength
from soundwhere.models.encoders.levels import unpack
from soundwhere.models.encoders.mobilenet import MobileNetV2
from soundwhere.models.sharpening import RADIUS_PX, SMOOTHNESS, sharpen
from soundwhere.models.similarity import normalise_range

if TYPE_CHECKING:
    from soundwhere.models.encoders.levels import Levels

CELL_PX: Final = 8  # side of a cell of a shape
_WIDTH: Final = 48


class ShapeHead(nn.Module):
    """How surely each small cell shows a thing: features of 32, 16 and 8 pixels, joined from coarse to fine."""

    def __init__(self) -> None:
        super().__init__()
        self.coarse = nn.Conv2d(MobileNetV2.channels, _WIDTH, 1)
        self.middle = nn.Conv2d(96, _WIDTH, 1)
        self.fine = nn.Conv2d(32, _WIDTH, 1)
        self.join = nn.Sequential(nn.ReLU(), nn.Conv2d(_WIDTH, _WIDTH, 3, padding=1), nn.ReLU())
        self.read = nn.Sequential(
            nn.ReLU(), nn.Conv2d(_WIDTH, _WIDTH, 3, padding=1), nn.ReLU(), nn.Conv2d(_WIDTH, 1, 1)
        )
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    @property
    def fitted(self) -> bool:
        """Whether it has seen anything; that travels with its weights."""
        return bool(self.get_buffer("steps") > 0)

    def forward(self, seen: Tensor) -> Tensor:
        """From features of three levels in one, shape (B, 2176, h, w), to log-odds, shape (B, 1, 4h, 4w)."""
        if self.training:
            self.get_buffer("steps").add_(1)
        levels: Levels = unpack(seen)
        joined = self.join(_enlarged(self.coarse(levels.coarse), levels.middle) + self.middle(levels.middle))
        odds: Tensor = self.read(_enlarged(joined, levels.fine) + self.fine(levels.fine))
        return odds


def _enlarged(maps: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(maps, size=like.shape[-2:], mode="bilinear", align_corners=False)


def colours(images: Tensor) -> Tensor:
    """Normalised pictures (B, 3, H, W) as colours in [0, 1]."""
    mean, std = (torch.tensor(values, device=images.device)[:, None, None] for values in (IMAGENET_MEAN, IMAGENET_STD))
    return (images * std + mean).clamp(0, 1)


class CoarseEye(Eye):
    """An eye of three levels of which only V is asked."""

    def encode(self, images: Tensor) -> Tensor:
        """V, shape (B, 1280, h, w)."""
        return super().encode(images)[:, : MobileNetV2.channels]


@torch.no_grad()
def outlined_strength(images: Tensor, eye: Eye) -> Tensor:
    """Feature strength with the edges of the picture, as soft masks, shape (B, 1, H/8, W/8), in [0, 1]."""
    strength = feature_strength(images, CoarseEye(eye.architecture, eye.encoder, eye.stride_px))
    sharp = sharpen(strength, colours(images).cpu())
    return soft_half(normalise_range(F.avg_pool2d(sharp, CELL_PX)))


SHAPE: Final = FrameTarget(f"shape-{RADIUS_PX}px-{SMOOTHNESS:g}-{STRENGTH.name}", outlined_strength)
"""What the head is taught; the name tells how it is made."""
