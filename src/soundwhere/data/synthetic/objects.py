"""Drawing: a thing in the made-up world, and how it gets onto a picture."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from math import ceil, cos, floor, sin
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

from soundwhere.data.synthetic.figures import ACCENT, FIGURES, INK, LIGHT, MAIN, NOTHING, PLAIN, SECOND, Pen

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

_SUPERSAMPLE = 2
_FIT = 0.92  # figures reach a little beyond radius 1; with this, a figure and its outline fit into the thing's circle


@dataclass(frozen=True)
class Thing:
    """One object: what it is, how it looks, and where it is.

    Attributes:
        kind: What it is; decides shape, texture and sound.
        palette: RGBA colour of each material, shape (7, 4), uint8. Independent of the kind.
        style: Seed of the small differences between things of one kind.
        x: Centre in pixels from the left edge.
        y: Centre in pixels from the top edge.
        radius: Radius in pixels of the circle the thing fits into.
        angle: Clockwise rotation in radians.
        mirrored: Whether left and right are exchanged.
    """

    kind: str
    palette: NDArray[np.uint8]
    style: int
    x: float
    y: float
    radius: float
    angle: float
    mirrored: bool


def random_palette(rng: Generator) -> NDArray[np.uint8]:
    """Colours for the materials of one thing, shape (7, 4), uint8: any hues, always with contrast between materials."""
    hue, bright = rng.random(), rng.uniform(0.6, 1)
    palette = np.zeros((7, 4), np.uint8)

    def put(material: int, h: float, s: float, v: float) -> None:
        palette[material] = (*(round(255 * part) for part in colorsys.hsv_to_rgb(h % 1, s, v)), 255)

    put(MAIN, hue, rng.uniform(0.3, 0.9), bright)
    put(SECOND, hue + rng.uniform(-0.12, 0.12), rng.uniform(0.5, 0.9), bright * rng.uniform(0.42, 0.6))
    put(ACCENT, hue + rng.uniform(0.3, 0.7), rng.uniform(0.6, 0.95), rng.uniform(0.65, 1))
    put(INK, rng.random(), rng.uniform(0.2, 0.8), rng.uniform(0.08, 0.3))
    put(LIGHT, rng.random(), rng.uniform(0.02, 0.4), rng.uniform(0.85, 1))
    palette[PLAIN] = palette[MAIN]
    return palette


def paint(canvas: Pillow.Image, thing: Thing) -> NDArray[np.bool_]:
    """Draw a thing onto an RGB picture in place.

    Returns:
        The pixels it touches, shape (H, W), bool. Edges are smoothed, so the outermost of them are blends.
    """
    reach = thing.radius + 2
    left, top = floor(thing.x - reach), floor(thing.y - reach)
    side = ceil(2 * reach) + 1
    materials = _materials(thing, side, thing.x - left, thing.y - top)
    colours = thing.palette.view(np.uint32)[:, 0][materials].view(np.uint8).reshape(*materials.shape, 4)
    sprite = Pillow.fromarray(colours).reduce(_SUPERSAMPLE)
    canvas.paste(sprite, (left, top), sprite)
    mask = Pillow.new("L", canvas.size)
    mask.paste(sprite.getchannel("A"), (left, top))
    return np.asarray(mask) > 0


def _materials(thing: Thing, side: int, x: float, y: float) -> NDArray[np.uint8]:
    """What each subpixel of a square patch is made of, when the thing's centre is at (x, y) in the patch."""
    figure, texture = FIGURES[thing.kind]
    scale = _SUPERSAMPLE * _FIT * thing.radius
    flip = -1.0 if thing.mirrored else 1.0
    matrix = scale * np.array(
        [[flip * cos(thing.angle), -sin(thing.angle)], [flip * sin(thing.angle), cos(thing.angle)]]
    )
    centre = _SUPERSAMPLE * np.array([x, y])
    image = Pillow.new("L", (side * _SUPERSAMPLE, side * _SUPERSAMPLE), NOTHING)
    figure(Pen(ImageDraw.Draw(image), matrix, centre), np.random.default_rng(thing.style))
    materials: NDArray[np.uint8] = np.array(image)

    rows, columns = np.nonzero(materials == MAIN)
    inverse = (matrix.T / scale**2).astype(np.float32)
    across, down = (columns + 0.5 - centre[0]).astype(np.float32), (rows + 0.5 - centre[1]).astype(np.float32)
    u, v = inverse[0, 0] * across + inverse[0, 1] * down, inverse[1, 0] * across + inverse[1, 1] * down
    materials[rows, columns] = np.where(texture(u, v) > 0, SECOND, MAIN)
    return _outlined(materials, max(1, round(0.035 * scale)))


def _outlined(materials: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Put a line of ink around the figure, so that it stands out from any background."""
    solid = (materials != NOTHING).ravel()
    grown = solid.copy()
    row, diagonal = materials.shape[1], max(1, round(0.7 * width))
    for shift in (width, width * row, diagonal * (row + 1), diagonal * (row - 1)):
        grown[shift:] |= solid[:-shift]
        grown[:-shift] |= solid[shift:]
    materials.ravel()[grown & ~solid] = INK
    return materials
