"""Boxes around sounding objects: reading, repairing, and turning them into masks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from soundwhere.errors import DataError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

BoxNorm = tuple[float, float, float, float]
"""Left, top, right, bottom as shares of the picture, 0 to 1."""

BoxForm = Literal["xyxy", "xywh"]
"""Corners, or the top left corner with width and height."""

_ROUNDING = 1e-6  # so far outside is rounding, not a defect


@dataclass(frozen=True)
class Boxes:
    """The boxes around one source.

    Attributes:
        boxes_norm: Corners within 0 to 1; none is empty.
        clipped: How many boxes reached out of the picture as they came.
        dropped: How many were empty (after clipping) and are gone. A box can count as both.
    """

    boxes_norm: tuple[BoxNorm, ...] = ()
    clipped: int = 0
    dropped: int = 0

    def mask(self, size: tuple[int, int]) -> NDArray[np.bool_]:
        """The union of the boxes as a mask of shape `size`, as every peer draws it: int(size * v), end-exclusive.

        >>> Boxes(((0.0, 0.5, 0.5, 1.0),)).mask((2, 4)).astype(int)
        array([[0, 0, 0, 0],
               [1, 1, 0, 0]])
        """
        height, width = size
        mask = np.zeros(size, dtype=np.bool_)
        for left, top, right, bottom in self.boxes_norm:
            mask[int(height * top) : int(height * bottom), int(width * left) : int(width * right)] = True
        return mask


def repair_boxes(
    raw: Iterable[Any], form: BoxForm = "xyxy", place: str = "", size: tuple[float, float] = (1, 1)
) -> Boxes:
    """Clip boxes to the picture, drop those with nothing left, and count both.

    Args:
        raw: Boxes of four numbers each, as a file gives them.
        form: Corners, or corner and size.
        place: Where they stand, for errors.
        size: Height and width of the picture in the boxes' unit: (1, 1) for shares, the picture's for pixels.

    Raises:
        DataError: A box is not four numbers.
    """
    height, width = size
    kept: list[BoxNorm] = []
    clipped = dropped = 0
    for box in raw:
        a, b, c, d = _numbers(box, place)
        right, bottom = (c, d) if form == "xyxy" else (a + c, b + d)
        corners = (a / width, b / height, right / width, bottom / height)
        clipped += any(not -_ROUNDING <= value <= 1 + _ROUNDING for value in corners)
        x1, y1, x2, y2 = (min(max(value, 0.0), 1.0) for value in corners)
        if x2 > x1 and y2 > y1:  # false also for NaN
            kept.append((x1, y1, x2, y2))
        else:
            dropped += 1
    return Boxes(tuple(kept), clipped, dropped)


def _numbers(box: Any, place: str) -> tuple[float, float, float, float]:
    try:
        a, b, c, d = (float(value) for value in box)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{place}: {shown(box)} is not a box of four numbers.", "Correct that entry, or get the file again."
        ) from error
    if any(map(math.isnan, (a, b, c, d))):
        return math.nan, math.nan, math.nan, math.nan
    return a, b, c, d
