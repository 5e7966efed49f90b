"""Pictures as they might have been taken: cut, mirrored, in another light. For training alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch.nn import functional as F

from soundwhere.constants import IMAGENET_MEAN, IMAGENET_STD

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class View:
    """How pictures are changed at random, each for itself.

    Attributes:
        side: Share of the picture's side that is kept, from a random place; 1 keeps all of it.
        area: Least and largest share of the area that is kept, instead of `side`.
        ratio: Least and largest shape (width over height) of what is kept, with `area`.
        flip: How often pictures are mirrored.
        brightness: By how much at most brightness is changed, as a factor around 1.
        contrast: The same for contrast.
        saturation: The same for the strength of colours.
        hue: How far at most hues are turned, as a share of the circle.
        light: How often brightness, contrast, saturation and hue are changed.
        grey: How often colours are taken away.
        blur: How often pictures are blurred, by 0.1 to 2 pixels.
    """

    side: float = 1.0
    area: tuple[float, float] | None = None
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    light: float = 0.0
    grey: float = 0.0
    blur: float = 0.0


VIEWS: Final[dict[str, View]] = {
    "none": View(),
    "flip": View(flip=0.5),
    # enlarged from 224 to 246 pixels, a random 224 of them (EZ-VSL, SLAVC, FNAC, AVGN)
    "crop-flip": View(side=224 / 246, flip=0.5),
    # the same without mirroring (NoPrior)
    "crop": View(side=224 / 246),
    # enlarged to 256 (DSOL, DMC)
    "crop-flip-colour": View(side=224 / 256, flip=0.5, brightness=0.3, saturation=0.3, light=1.0),
    # Mix-and-Localize
    "resized-crop-flip": View(area=(0.8, 1.0), ratio=(0.8, 1.2), flip=0.5),
    # as MoCo-v2 (SSL-TIE)
    "moco": View(
        area=(0.3, 1.0),
        flip=0.5,
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        hue=0.1,
        light=0.8,
        grey=0.2,
        blur=0.5,
    ),
    # JSA
    "strong": View(
        side=224 / 246,
        flip=0.5,
        brightness=0.8,
        contrast=0.8,
        saturation=0.8,
        hue=0.2,
        light=0.8,
        grey=0.2,
        blur=0.8,
    ),
}
"""Ways to change pictures, by name."""

_LUMA: Final = (0.299, 0.587, 0.114)


def change_views(images: Tensor, view: View) -> Tensor:
    """Change pictures at random, drawn with torch's global random state.

    Args:
        images: Normalised pictures, shape (B, 3, H, W).
        view: How.

    Returns:
        Pictures of the same shape.
    """
    if view == View():
        return images
    images = cut(images, view)
    if not (view.light or view.grey or view.blur):
        return images
    mean, std = (images.new_tensor(values).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
    pixels = (images * std + mean).clamp(0, 1)
    lit = _happens(images, view.light)
    pixels = torch.where(lit, _relight(pixels, view), pixels)
    pixels = torch.where(_happens(images, view.grey), _grey(pixels).expand_as(pixels), pixels)
    if view.blur:
        pixels = torch.where(_happens(images, view.blur), _blur(pixels), pixels)
    return (pixels - mean) / std


def cut(images: Tensor, view: View) -> Tensor:
    """Keep a random part of each picture (B, C, H, W), enlarged bilinearly to the whole, and mirror some."""
    count = len(images)
    draw = torch.rand(5, count, device=images.device, dtype=images.dtype)
    if view.area is None:
        width = height = torch.full_like(draw[0], view.side)
    else:
        area = view.area[0] + (view.area[1] - view.area[0]) * draw[0]
        low, high = torch.tensor(view.ratio, dtype=images.dtype).log().tolist()
        shape = torch.exp(low + (high - low) * draw[1])
        width, height = (area * shape).sqrt().clamp_max(1), (area / shape).sqrt().clamp_max(1)
    across, down = (1 - width) * (2 * draw[2] - 1), (1 - height) * (2 * draw[3] - 1)
    mirrored = torch.where(draw[4] < view.flip, -1.0, 1.0).to(images.dtype)
    zero = torch.zeros_like(width)
    rows = torch.stack([width * mirrored, zero, across]), torch.stack([zero, height, down])
    grid = F.affine_grid(torch.stack(rows).permute(2, 0, 1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _happens(images: Tensor, often: float) -> Tensor:
    return torch.rand(len(images), 1, 1, 1, device=images.device) < often


def _factor(images: Tensor, by: float) -> Tensor:
    return 1 + by * (2 * torch.rand(len(images), 1, 1, 1, device=images.device, dtype=images.dtype) - 1)


def _grey(pixels: Tensor) -> Tensor:
    return torch.einsum("bchw,c->bhw", pixels, pixels.new_tensor(_LUMA))[:, None]


def _relight(pixels: Tensor, view: View) -> Tensor:
    """Another brightness, contrast, saturation and hue."""
    pixels = (pixels * _factor(pixels, view.brightness)).clamp(0, 1)
    middle = _grey(pixels).mean((1, 2, 3), keepdim=True)
    pixels = (middle + (pixels - middle) * _factor(pixels, view.contrast)).clamp(0, 1)
    grey = _grey(pixels)
    pixels = (grey + (pixels - grey) * _factor(pixels, view.saturation)).clamp(0, 1)
    return _turn(pixels, _factor(pixels, view.hue) - 1) if view.hue else pixels


def _turn(pixels: Tensor, by: Tensor) -> Tensor:
    """Turn hues about the grey axis, by shares of the circle (B, 1, 1, 1)."""
    angle = by.flatten() * 2 * torch.pi
    cos, sin = angle.cos(), angle.sin()
    same, other = cos + (1 - cos) / 3, (1 - cos) / 3
    up, down = other - sin / 3**0.5, other + sin / 3**0.5
    rows = [torch.stack(row) for row in ((same, up, down), (down, same, up), (up, down, same))]
    return torch.einsum("rcb,bchw->brhw", torch.stack(rows), pixels).clamp(0, 1)


def _blur(pixels: Tensor) -> Tensor:
    """Gaussian blur, one width for each picture, between 0.1 and 2 pixels."""
    sigma = 0.1 + 1.9 * torch.rand(len(pixels), 1, device=pixels.device, dtype=pixels.dtype)
    place = torch.arange(-6, 7, device=pixels.device, dtype=pixels.dtype)
    kernel = torch.softmax(-0.5 * (place / sigma).square(), dim=1)  # (B, 13)
    batch, channels, height, width = pixels.shape
    flat = F.pad(pixels.reshape(1, -1, height, width), (6, 6, 6, 6), mode="replicate")
    weights = kernel.repeat_interleave(channels, dim=0)[:, None]
    down = F.conv2d(flat, weights[..., None], groups=batch * channels)
    return F.conv2d(down, weights[:, :, None], groups=batch * channels).reshape(pixels.shape)
