"""What is odd about a mask, in words: it leaves its box, or covers most of the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from soundwhere.data.annotation.rle import decode_rle

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from soundwhere.annotate.events import Box, Work
    from soundwhere.annotate.store import FrameRecord

MOST_OUTSIDE: Final = 0.2
"""Share of a mask that may lie outside its box without a warning."""

MOST_COVERED: Final = 0.5
"""Share of the picture that a mask may cover without a warning."""


def mask_doubts(mask: NDArray[np.bool_], boxes: Sequence[Box], what: str = "this mask") -> list[str]:
    """Everything that is odd about one mask.

    Args:
        mask: Shape (H, W), bool.
        boxes: Those that may be its box, of which the one that holds most of it counts; none if it has none.
        what: What the mask is called.
    """
    area = int(mask.sum())
    if not area:
        return []
    doubts = []
    outside = 1 - max((int(_inside(mask, box).sum()) for box in boxes), default=area) / area
    if outside > MOST_OUTSIDE:
        doubts.append(f"{outside:.0%} of {what} lies outside its box".replace("%", " %"))
    if area > MOST_COVERED * mask.size:
        doubts.append(f"{what} covers {area / mask.size:.0%} of the picture".replace("%", " %"))
    return doubts


def work_doubts(frame: FrameRecord, work: Work) -> list[list[str]]:
    """What is odd about each confirmed object, with the boxes as they are now."""
    return [
        mask_doubts(decode_rle(part["mask"]), frame.boxes, f"object {number}")
        for number, part in enumerate(work.objects, 1)
    ]


def _inside(mask: NDArray[np.bool_], box: Box) -> NDArray[np.bool_]:
    """The part of a mask in a box; a pixel that the box touches by half belongs to it."""
    left, top, right, bottom = (max(0, round(value)) for value in box)
    return mask[top:bottom, left:right]
