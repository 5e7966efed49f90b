"""Drawing: heat over pictures, heat alone, outlines of the truth, sheets of many pictures."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFilter, ImageFont

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.types import Image

    Colour = tuple[int, int, int]  # RGB

# Okabe and Ito's colours, which people with any kind of colour blindness can tell apart
SOURCE_COLOURS: Final[dict[str, Colour]] = {
    "orange": (230, 159, 0),
    "blue": (0, 114, 178),
    "green": (0, 158, 115),
    "pink": (204, 121, 167),
    "yellow": (240, 228, 66),
    "sky": (86, 180, 233),
    "vermilion": (213, 94, 0),
}
_OPACITY = 0.7  # of the strongest heat: the picture still shows
_GAP_PX = 6
_FONT_PX = 14


def source_colour(number: int) -> tuple[str, Colour]:
    """Name and RGB of the colour that a source, numbered from 0, is drawn in.

    >>> source_colour(1)
    ('blue', (0, 114, 178))
    """
    return list(SOURCE_COLOURS.items())[number % len(SOURCE_COLOURS)]


def overlay(image: Image, heatmaps: NDArray[np.floating], colours: Sequence[Colour] | None = None) -> Image:
    """Lay each source's heat over a picture in its own colour.

    Where several sources are hot their colours mix; the order of the sources does not matter.

    Args:
        image: RGB, shape (H, W, 3), uint8.
        heatmaps: One map per source, shape (K, h, w), in [0, 1] (clipped; NaN is cold), resized to the picture.
        colours: One RGB colour per source; by default `SOURCE_COLOURS` in turn.

    Returns:
        RGB, shape (H, W, 3), uint8; the picture itself where nothing is hot.
    """
    if len(heatmaps) == 0:
        return image.copy()
    layer = heat_layer(heatmaps, colours)
    size = image.shape[1], image.shape[0]
    canvas = Pillow.fromarray(image)
    # apart: Pillow would weigh colours with their opacity
    colour, opacity = (
        Pillow.fromarray(np.ascontiguousarray(part)).resize(size, Pillow.Resampling.BILINEAR)
        for part in (layer[..., :3], layer[..., 3])
    )
    canvas.paste(colour, mask=opacity)
    return np.asarray(canvas)


def heat_layer(heatmaps: NDArray[np.floating], colours: Sequence[Colour] | None = None) -> NDArray[np.uint8]:
    """The heat of all sources as one layer to lay over a picture.

    Args:
        heatmaps: One map per source, shape (K, h, w), in [0, 1] (clipped; NaN is cold).
        colours: One RGB colour per source; by default `SOURCE_COLOURS` in turn.

    Returns:
        Mixed colours and opacity, RGBA, shape (h, w, 4).
    """
    palette = [source_colour(k)[1] for k in range(len(heatmaps))] if colours is None else list(colours)
    paint = np.array([palette[k % len(palette)] for k in range(len(heatmaps))], np.float32).reshape(-1, 3)
    heat = np.minimum(np.fmax(heatmaps, 0), 1).astype(np.float32)
    layer = np.empty((*heat.shape[1:], 4), np.uint8)
    layer[..., 3] = np.rint(np.minimum(heat.sum(0), 1) * np.float32(255 * _OPACITY))
    heat += np.float32(1e-4)  # so that what is cold has a colour
    layer[..., :3] = np.rint(np.tensordot(heat / heat.sum(0), paint, (0, 0)))
    return layer


def heatmap_image(heatmap: NDArray[np.floating]) -> Image:
    """A map alone, from dark violet (0) over red to light yellow (1), evenly lighter to the eye.

    Args:
        heatmap: Shape (H, W), in [0, 1] (clipped; NaN is 0).

    Returns:
        RGB, shape (H, W, 3), uint8.
    """
    levels = np.minimum(np.fmax(heatmap, 0), 1) * 255
    image: Image = _ramp()[np.rint(levels).astype(np.uint8)]
    return image


def outline(image: Image, mask: NDArray[np.bool_], colour: Colour = (255, 255, 255)) -> Image:
    """Draw a line around a mask, just outside of it.

    Args:
        image: RGB, shape (H, W, 3), uint8.
        mask: Shape (H, W), bool.
        colour: RGB.

    Returns:
        A copy with the line, about 1/150 of the short side wide.
    """
    grown = Pillow.fromarray(mask.astype(np.uint8))
    for _ in range(max(1, round(min(mask.shape) / 150))):
        grown = grown.filter(ImageFilter.MaxFilter(3))
    result = image.copy()
    result[np.asarray(grown).astype(bool) & ~mask] = colour
    return result


def contact_sheet(rows: Sequence[Sequence[Image]], labels: Sequence[Sequence[str]] | None = None) -> Image:
    """Put pictures in rows on a white sheet, with captions below them.

    Args:
        rows: Pictures of any sizes, RGB uint8; rows may differ in length.
        labels: A caption per picture, in the same arrangement; one that is too long is cut.

    Returns:
        RGB, uint8.
    """
    columns = max((len(row) for row in rows), default=0)
    if columns == 0:
        raise ValueError("a contact sheet needs a picture")
    caption_px = _FONT_PX + _GAP_PX if labels is not None else 0
    widths = [max((row[i].shape[1] for row in rows if i < len(row)), default=0) for i in range(columns)]
    heights = [max((image.shape[0] for image in row), default=0) + caption_px for row in rows]
    size = (sum(widths) + _GAP_PX * (columns + 1), sum(heights) + _GAP_PX * (len(rows) + 1))
    sheet = Pillow.new("RGB", size, "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(_FONT_PX)
    for r, row in enumerate(rows):
        top = sum(heights[:r]) + _GAP_PX * (r + 1)
        for c, image in enumerate(row):
            left = sum(widths[:c]) + _GAP_PX * (c + 1)
            sheet.paste(Pillow.fromarray(image), (left, top))
            if labels is not None and r < len(labels) and c < len(labels[r]):
                text = _cut(labels[r][c], font, widths[c])
                pen.text((left, top + image.shape[0] + 1), text, fill="black", font=font)
    return np.array(sheet)


def _cut(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> str:
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"


@cache
def _ramp() -> NDArray[np.uint8]:
    """256 colours, shape (256, 3), whose OKLab lightness rises evenly while the hue turns from violet to yellow."""
    t = np.linspace(0, 1, 256)
    lightness = 0.15 + 0.8 * t
    chroma = 0.16 * np.sin(np.pi * (0.12 + 0.76 * t)) ** 0.8
    hue = np.radians(285 + 180 * t)
    lab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1)
    to_cones = np.array([[1, 0.3963378, 0.2158038], [1, -0.1055613, -0.0638542], [1, -0.0894842, -1.2914855]])
    to_rgb = np.array(
        [[4.0767417, -3.3077116, 0.2309699], [-1.2684380, 2.6097574, -0.3413194], [-0.0041961, -0.7034186, 1.7076147]]
    )
    linear = ((lab @ to_cones.T) ** 3 @ to_rgb.T).clip(0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    ramp: NDArray[np.uint8] = np.rint(srgb * 255).astype(np.uint8)
    return ramp
