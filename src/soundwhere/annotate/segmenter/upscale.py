"""From a network's coarse answers to a mask of the picture's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image as Pillow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.annotate.segmenter.protocol import Mask


def upscaled(values: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    """Bring logits to a size (height, width) bilinearly."""
    height, width = size
    picture = Pillow.fromarray(np.ascontiguousarray(values, np.float32))
    return np.asarray(picture.resize((width, height), Pillow.Resampling.BILINEAR))


def choose(masks: Sequence[Mask], scores: Sequence[float], previous: Mask | None) -> Mask:
    """The mask most like the one before, so that a click changes it and does not replace it; else the best score."""
    if previous is None or not previous.any():
        return masks[int(np.argmax(scores))]
    overlaps = [(mask & previous).sum() / max(1, (mask | previous).sum()) for mask in masks]
    return masks[int(np.argmax(overlaps))]
