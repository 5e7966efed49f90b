"""Masks as COCO's run lengths, the other way round from `data.annotation.rle`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def encode_rle(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Encode a mask as counts of 0 and 1 in turn, down the columns.

    Args:
        mask: Shape (height, width), bool.

    >>> encode_rle(np.array([[False, True, False], [True, True, False]]))
    {'size': [2, 3], 'counts': [1, 3, 2]}
    """
    values = mask.ravel(order="F")
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    edges = np.concatenate(([0], changes, [values.size]))
    counts = [int(count) for count in np.diff(edges)]
    return {"size": list(mask.shape), "counts": [0, *counts] if values.size and values[0] else counts}


def pack_counts(counts: Sequence[int]) -> str:
    """Counts as text: 5 bits a character from 48 on, the sixth says that more follow.

    >>> pack_counts([1, 3, 2])
    '132'
    """
    text = []
    for place, count in enumerate(counts):
        value = count - counts[place - 2] if place > 2 else count
        while True:
            bits = value & 31
            value >>= 5
            more = value != (-1 if bits & 16 else 0)
            text.append(chr((bits | 32 if more else bits) + 48))
            if not more:
                break
    return "".join(text)
