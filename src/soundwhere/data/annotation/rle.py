"""COCO's run-length encoding: counts of 0 and 1 in turn, down the columns, as numbers or packed into text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere.data.annotation.pickles import MOST_PIXELS
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def decode_rle(rle: Any, place: str = "") -> NDArray[np.bool_]:
    """Decode one mask.

    Args:
        rle: `{"size": [height, width], "counts": [...] or "..."}`.
        place: Where it stands, for errors.

    Returns:
        Shape (height, width), bool.

    Raises:
        DataError: It is not such an encoding, or its counts do not fill its size.

    >>> decode_rle({"size": [2, 3], "counts": [1, 3, 2]}).astype(int)
    array([[0, 1, 0],
           [1, 1, 0]])
    """
    try:
        height, width = (int(side) for side in rle["size"])
        packed = rle["counts"]
        counts = unpack_counts(packed) if isinstance(packed, str | bytes) else [int(count) for count in packed]
    except (TypeError, KeyError, ValueError) as error:
        raise _bad(place, f"needs `size` (height, width) and `counts` ({type(error).__name__}: {error})") from error
    if min(height, width) < 0 or height * width > MOST_PIXELS:
        raise _bad(place, f"has the size {height} x {width}")
    if min(counts, default=0) < 0 or sum(counts) != height * width:
        raise _bad(place, f"has counts that do not fill {height} x {width} pixels")
    values = np.arange(len(counts)) % 2 == 1
    return np.repeat(values, counts).reshape((height, width), order="F")


def unpack_counts(packed: str | bytes) -> list[int]:
    """Counts from text: 5 bits a character from 48 on, the sixth says that more follow.

    Numbers are signed, lowest bits first. From the fourth count on they are differences to the count two before.

    Raises:
        ValueError: The text ends within a number, or holds a character that cannot occur.
    """
    counts: list[int] = []
    value = shift = 0
    for byte in packed.encode("ascii") if isinstance(packed, str) else packed:
        bits = byte - 48
        if not 0 <= bits < 64 or shift > 60:
            raise ValueError(f"the character {chr(byte)!r} is not allowed here")
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    if shift:
        raise ValueError("the text ends within a number")
    return counts


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


def _bad(place: str, what: str) -> DataError:
    return DataError(f"{place}: the run-length encoded mask {what}.", "Write it again with COCO's own tools.")
