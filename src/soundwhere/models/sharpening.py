"""Maps with the edges of the picture: a coarse map becomes, around each pixel, a linear function of the colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

RADIUS_PX: Final = 32  # of frames of 224: chosen on val scenes of real-duet, as the next is
SMOOTHNESS: Final = 1e-3  # variance of a colour (in [0, 1]) below which there is no edge
STRIDE_PX: Final = 4


def sharpen(
    maps: Tensor,
    picture: Tensor,
    radius_px: int = RADIUS_PX,
    smoothness: float = SMOOTHNESS,
    stride_px: int = STRIDE_PX,
) -> Tensor:
    """Upsample maps to a picture and let them follow its edges: the fast guided filter (He and Sun, 2015) in colour.

    Within every square window the map is fitted by a linear function of the three colours, and each pixel takes the
    mean function of the windows it lies in. Fits are made on a grid of `stride_px`; only the last step sees all pixels.

    Args:
        maps: Shape (B, K, h, w), of any resolution.
        picture: Colours in [0, 1], shape (B, 3, H, W), sides multiples of `stride_px`.
        radius_px: Half the side of a window.
        smoothness: How much variance of the colours counts as an edge.
        stride_px: Side of a cell of the grid; 1 for the exact filter.

    Returns:
        Shape (B, K, H, W). May leave the range of `maps` a little beside edges.
    """
    height, width = picture.shape[-2:]
    coarse = (height // stride_px, width // stride_px)
    radius = max(1, round(radius_px / stride_px))
    guide = F.avg_pool2d(picture, stride_px) if stride_px > 1 else picture
    target = F.interpolate(maps, size=coarse, mode="bilinear", align_corners=False)
    slopes, offsets = _fit(target, guide, radius, smoothness)
    sources = maps.shape[1]
    coefficients = torch.cat([slopes.flatten(1, 2), offsets], dim=1)
    coefficients = F.interpolate(_box(coefficients, radius), size=(height, width), mode="bilinear", align_corners=False)
    slopes, offsets = coefficients[:, : 3 * sources], coefficients[:, 3 * sources :]
    return (slopes.reshape(-1, sources, 3, height, width) * picture[:, None]).sum(2) + offsets


def _fit(target: Tensor, guide: Tensor, radius: int, smoothness: float) -> tuple[Tensor, Tensor]:
    """The linear functions of the colours, one for every window.

    Args:
        target: Shape (B, K, H, W).
        guide: Shape (B, 3, H, W).
        radius: Half the side of a window.
        smoothness: Added to the variance of each colour.

    Returns:
        Slopes, shape (B, K, 3, H, W), and offsets, shape (B, K, H, W).
    """
    mean, level = _box(guide, radius), _box(target, radius)
    products = torch.stack([guide[:, i] * guide[:, j] for i, j in _PAIRS], dim=1)
    squares = torch.stack([mean[:, i] * mean[:, j] for i, j in _PAIRS], dim=1)
    rr, rg, rb, gg, gb, bb = (_box(products, radius) - squares).unbind(1)
    rr, gg, bb = rr + smoothness, gg + smoothness, bb + smoothness
    # the inverse of a symmetric 3 x 3 matrix, written out: no exported graph knows how to solve
    inverse = (
        (gg * bb - gb * gb, gb * rb - rg * bb, rg * gb - gg * rb),
        (gb * rb - rg * bb, rr * bb - rb * rb, rb * rg - rr * gb),
        (rg * gb - gg * rb, rb * rg - rr * gb, rr * gg - rg * rg),
    )
    determinant = rr * inverse[0][0] + rg * inverse[0][1] + rb * inverse[0][2]
    each = target[:, :, None] * guide[:, None]  # (B, K, 3, H, W)
    covariance = _box(each.flatten(1, 2), radius).reshape(each.shape)
    red, green, blue = (covariance - level[:, :, None] * mean[:, None]).unbind(2)  # (B, K, H, W) each
    slopes = torch.stack(
        [(row[0][:, None] * red + row[1][:, None] * green + row[2][:, None] * blue) for row in inverse], dim=2
    )
    slopes = slopes / determinant[:, None, None]
    return slopes, level - (slopes * mean[:, None]).sum(2)


_PAIRS: Final = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def _box(maps: Tensor, radius: int) -> Tensor:
    """Mean over the square of 2 x radius + 1 pixels around each, as far as it lies in the picture."""
    side = 2 * radius + 1
    lines = F.avg_pool2d(maps, (side, 1), stride=1, padding=(radius, 0), count_include_pad=False)
    return F.avg_pool2d(lines, (1, side), stride=1, padding=(0, radius), count_include_pad=False)
