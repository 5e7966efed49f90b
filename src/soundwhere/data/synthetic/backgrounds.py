"""The made-up world's backgrounds: muted, textured, and telling nothing about what sounds."""

from __future__ import annotations

import colorsys
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image as Pillow

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

    Array = NDArray[np.floating]


def random_background(rng: Generator, size: tuple[int, int]) -> Pillow.Image:
    """A textured RGB picture of `size` = (height, width): two colours in a pattern, with soft shade and grain."""
    height, width = size
    pattern = _PATTERNS[rng.integers(len(_PATTERNS))](rng, height, width)
    first, second = (Pillow.new("RGB", (width, height), colour) for colour in _colours(rng))
    first.paste(second, mask=_to_mask(pattern))
    shade = 0.22 * _smooth(rng, height, width, int(rng.integers(2, 6))) + 0.05 * rng.random(size, dtype=np.float32)
    first.paste((0, 0, 0), (0, 0), _to_mask(shade))
    return first


def _to_mask(weight: Array) -> Pillow.Image:
    """Weights in [0, 1] as a mask for pasting."""
    return Pillow.fromarray((255 * weight).astype(np.uint8))


def _colours(rng: Generator) -> list[tuple[int, ...]]:
    """Two muted colours that differ a little, as 8-bit RGB."""
    hue, value = rng.random(), rng.uniform(0.3, 1)
    step = rng.uniform(0.1, 0.22) * (1 if value < 0.6 else -1)
    pair = ((hue, value), (hue + rng.uniform(-0.15, 0.15), value + step))
    return [tuple(round(255 * part) for part in colorsys.hsv_to_rgb(h % 1, rng.uniform(0.05, 0.4), v)) for h, v in pair]


def _smooth(rng: Generator, height: int, width: int, cells: int) -> Array:
    """Smooth noise in [0, 1] with about `cells` bumps along a side, shape (height, width)."""
    coarse = Pillow.fromarray(rng.random((cells, cells), dtype=np.float32))
    smooth: Array = np.clip(np.asarray(coarse.resize((width, height), Pillow.Resampling.BICUBIC)), 0, 1)
    return smooth


def _turned(rng: Generator, height: int, width: int) -> tuple[Array, Array]:
    """Coordinates in units of the short side, turned at random, each shape (height, width)."""
    angle, short = rng.uniform(0, 2 * np.pi), min(height, width)
    x, y = np.arange(width, dtype=np.float32) / short, np.arange(height, dtype=np.float32)[:, None] / short
    c, s = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    return c * x + s * y, c * y - s * x


def _gradient(rng: Generator, height: int, width: int) -> Array:
    across, _ = _turned(rng, height, width)
    pattern: Array = (across - across.min()) / np.ptp(across)
    return pattern


def _clouds(rng: Generator, height: int, width: int) -> Array:
    coarse, fine = (_smooth(rng, height, width, int(cells)) for cells in (rng.integers(4, 8), rng.integers(12, 30)))
    return 0.65 * coarse + 0.35 * fine


def _blobs(rng: Generator, height: int, width: int) -> Array:
    pattern: Array = np.clip(12 * (_smooth(rng, height, width, int(rng.integers(5, 10))) - 0.5), 0, 1)
    return pattern


def _stripes(rng: Generator, height: int, width: int) -> Array:
    across, _ = _turned(rng, height, width)
    pattern: Array = np.clip(0.5 + 3 * np.sin(np.float32(rng.uniform(15, 70)) * across), 0, 1)
    return pattern


def _checks(rng: Generator, height: int, width: int) -> Array:
    across, down = _turned(rng, height, width)
    frequency = np.float32(rng.uniform(12, 35))
    pattern: Array = np.clip(0.5 + 3 * np.sin(frequency * across) * np.sin(frequency * down), 0, 1)
    return pattern


def _dots(rng: Generator, height: int, width: int) -> Array:
    across, down = _turned(rng, height, width)
    frequency = np.float32(rng.uniform(18, 50))
    pattern: Array = np.clip(3 * (np.sin(frequency * across) + np.sin(frequency * down) - 1), 0, 1)
    return pattern


def _waves(rng: Generator, height: int, width: int) -> Array:
    across, down = _turned(rng, height, width)
    bend = np.float32(rng.uniform(0.5, 2)) * np.sin(np.float32(rng.uniform(6, 16)) * down)
    pattern: Array = np.clip(0.5 + 2 * np.sin(np.float32(rng.uniform(20, 50)) * across + bend), 0, 1)
    return pattern


def _bricks(rng: Generator, height: int, width: int) -> Array:
    across, down = _turned(rng, height, width)
    rows = down * np.float32(rng.uniform(6, 12))
    columns = across * np.float32(rng.uniform(3, 6)) + 0.5 * (np.floor(rows) % 2)
    joint = np.minimum(rows % 1, 4 * (columns % 1) / 2) < 0.12
    pattern: Array = joint.astype(np.float32)
    return pattern


_PATTERNS: tuple[Callable[[Generator, int, int], Array], ...] = (
    _gradient,
    _clouds,
    _blobs,
    _stripes,
    _checks,
    _dots,
    _waves,
    _bricks,
)
