"""From heatmaps on the network's grid to places in the picture. Boxes are xyxy in pixels."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.metrics.binarise import binarise_arrays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Maps = NDArray[np.floating]
    Floats = NDArray[np.float32]

FINER: Final = 8  # outlines are looked for, and heat is drawn, on a grid up to this much finer than the network's
_FINE: Final = 64  # cells across from which on no finer one is needed
_AT_ONCE = 256  # maps that are refined together
_SHARPNESS: Final = -0.75  # of bicubic interpolation, as in torch and OpenCV


def upsample(maps: Maps, size: tuple[int, int], smooth: bool = False) -> Floats:
    """Enlarge maps (K, h, w) to (K, H, W): bilinearly, or bicubically, which looks better and stays within [0, 1]."""
    cells: Floats = np.asarray(maps, np.float32)
    rows, columns = (_weights(*lengths, smooth) for lengths in zip(cells.shape[-2:], size, strict=True))
    enlarged: Floats = np.matmul(np.matmul(rows, cells), columns.T)
    return enlarged.clip(0, 1, out=enlarged)


@lru_cache(maxsize=32)
def _weights(length: int, size: int, smooth: bool) -> Floats:
    """What each of `length` cells contributes to each of `size` finer ones along one side, shape (size, length).

    Cells lie at their centres; beyond the outermost their values go on.
    """
    place = (np.arange(size) + 0.5) * length / size - 0.5
    if not smooth:
        place = place.clip(0)  # at the other end both neighbours are the last cell
    first, weights = np.floor(place).astype(int), np.zeros((size, length))
    for step in (-1, 0, 1, 2) if smooth else (0, 1):
        distance = np.abs(place - first - step)
        weight = _bicubic(distance) if smooth else 1 - distance
        np.add.at(weights, (np.arange(size), (first + step).clip(0, length - 1)), weight)
    return weights.astype(np.float32)


def _bicubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Keys's cubic convolution, of distances in [0, 2]."""
    a = _SHARPNESS
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * a * x - 4 * a
    return np.where(x <= 1, near, far)


def finer(grid: tuple[int, ...]) -> tuple[int, int]:
    """Size of the grid on which outlines of maps (h, w) are looked for and their heat is drawn.

    >>> finer((7, 12)), finer((56, 96))
    ((56, 96), (56, 96))
    """
    rows, columns = grid
    times = max(1, min(FINER, _FINE // min(rows, columns)))
    return times * rows, times * columns


def between(times_s: Sequence[float] | NDArray[np.float64], time_s: float) -> tuple[int, int, float]:
    """The ascending times before and after a time, by number, and how far it lies between them; at the ends, those.

    >>> between([0, 1, 2], 1.25), between([0, 1, 2], 7)
    ((1, 2, 0.25), (2, 2, 0.0))
    """
    before = max(0, bisect_right(times_s, time_s) - 1)
    after = min(before + 1, len(times_s) - 1)
    step_s = float(times_s[after] - times_s[before])
    return before, after, max(0.0, float(time_s - times_s[before]) / step_s) if step_s else 0.0


def find_peaks(maps: Maps, size: tuple[int, int]) -> Floats:
    """Where each map is highest: x and y in pixels, shape (..., 2), for maps (..., h, w) of a picture of `size` (H, W).

    The parabola through the highest cell and its neighbours tells where between the cells' centres the peak lies.
    """
    rows, columns = maps.shape[-2:]
    flat = np.asarray(maps, np.float32).reshape(-1, rows, columns)
    y, x = np.divmod(flat.reshape(len(flat), -1).argmax(1), columns)
    each = np.arange(len(flat))
    place = np.stack(
        [
            (x + 0.5 + _summit(flat[each, y], x)) * size[1] / columns,
            (y + 0.5 + _summit(flat[each, :, x], y)) * size[0] / rows,
        ],
        axis=-1,
    )
    return place.astype(np.float32).reshape(*maps.shape[:-2], 2)


def _summit(lines: Floats, index: NDArray[np.intp]) -> Floats:
    """Offset in cells, within [-0.5, 0.5], of the parabola's top from the highest cell of each line (n, length).

    A cell at the end of its line has one neighbour only: there the offset is 0.
    """
    each = np.arange(len(lines))
    padded = np.pad(lines, ((0, 0), (1, 1)), mode="edge")
    left, middle, right = (padded[each, index + step] for step in range(3))
    bend = left - 2 * middle + right
    inner = (index > 0) & (index < lines.shape[1] - 1) & (bend < -1e-6)
    shift = np.divide(left - right, 2 * bend, out=np.zeros_like(bend), where=inner)
    offset: Floats = np.clip(shift, -0.5, 0.5)
    return offset


def find_boxes(maps: Maps, size: tuple[int, int]) -> tuple[Floats, Floats]:
    """The tightest box around the upper half of each map (rule `minmax-0.5`), and the share of the picture it covers.

    Args:
        maps: Shape (..., h, w).
        size: Height and width of the picture.

    Returns:
        Boxes, shape (..., 4), in pixels, right and bottom exclusive; and the thresholded area as a share of the
        picture, shape (...). A constant map has an empty box at (0, 0).
    """
    rows, columns = maps.shape[-2:]
    flat = np.asarray(maps, np.float32).reshape(-1, rows, columns)
    boxes, areas = np.zeros((len(flat), 4), np.float32), np.zeros(len(flat), np.float32)
    for start in range(0, len(flat), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        mask = binarise_arrays(upsample(flat[part], finer((rows, columns))))
        areas[part] = mask.mean((1, 2))
        boxes[part, 0::2] = _extent(mask.max(1)) * size[1]
        boxes[part, 1::2] = _extent(mask.max(2)) * size[0]
    return boxes.reshape(*maps.shape[:-2], 4), areas.reshape(maps.shape[:-2])


def _extent(lines: NDArray[np.bool_]) -> Floats:
    """First and one past the last True of each line (n, length), as shares of the length, shape (n, 2)."""
    length = lines.shape[1]
    ends = np.stack([lines.argmax(1), length - lines[:, ::-1].argmax(1)], axis=1) / length
    return np.where(lines.max(1, keepdims=True), ends, 0).astype(np.float32)


def place_words(x: float, y: float) -> str:
    """A place in words, from shares of the width and height.

    >>> place_words(0.1, 0.5), place_words(0.9, 0.8), place_words(0.5, 0.5)
    ('left, centre', 'right, low', 'centre')
    """
    across = ("left", "centre", "right")[min(2, int(3 * x))]
    down = ("high", "centre", "low")[min(2, int(3 * y))]
    return across if across == down else f"{across}, {down}"
