"""A fingerprint of a photo: which parts of it are brighter than their neighbours.

It stays what it is when a photo is encoded again, resized a little, or made brighter or darker; it says nothing of
what is to be seen. `scripts/make_lists.py --check` measures how often photos are taken for one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image as Pillow

if TYPE_CHECKING:
    from soundwhere.types import Image

CELLS: Final = 12
STEP: Final = 4
"""Levels by which a cell must be brighter than its neighbour: less is noise, as on a plain background."""
SAME_PHOTO: Final = 0.12
"""Share of differing bits up to which two photos count as the same."""


def photo_print(image: Image) -> bytes:
    """The difference hash of a photo (H, W, 3): 12 x 12 cells against their left and their upper neighbours."""
    grey = Pillow.fromarray(image).convert("L").resize((CELLS + 1, CELLS + 1), Pillow.Resampling.BOX)
    cells = np.asarray(grey).astype(np.int16)
    right = cells[:CELLS, 1:] - cells[:CELLS, :-1]
    down = cells[1:, :CELLS] - cells[:-1, :CELLS]
    return np.packbits(np.stack([right, down]) > STEP).tobytes()


def photo_distance(one: bytes, other: bytes) -> float:
    """The share of bits in which two prints differ, 0 to 1.

    >>> photo_distance(bytes([0, 255]), bytes([0, 15]))
    0.25
    """
    bits = np.bitwise_count(np.frombuffer(one, np.uint8) ^ np.frombuffer(other, np.uint8))
    return float(bits.sum()) / (8 * len(one))
