"""The metrics of one map, in numpy: it compares, counts and sorts maps of this size several times faster than torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
    Heat = NDArray[Any]

FLAT: Final = 1e-5  # a map whose range is a smaller share of its largest value is flat: bicubic upsampling leaves 3e-6
_INFINITY: Final = 0x7F800000  # the bits of infinity as float32; those of every NaN lie above


def is_flat(low: Heat, high: Heat) -> Mask:
    """Whether maps between these values are flat but for rounding errors, such as upsampling leaves."""
    low, high = low.astype(np.float64), high.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinities are refused elsewhere
        even: Mask = (high - low <= FLAT * np.maximum(abs(low), abs(high))) & np.isfinite(low)
    return even


def flat(heat: Heat) -> Mask:
    """Which of the maps (..., h, w) are flat but for rounding errors, shape (...)."""
    return is_flat(heat.min((-2, -1)), heat.max((-2, -1)))


def settle(heat: Heat) -> Heat:
    """Maps (..., h, w) in which those that are flat but for rounding errors are flat, so that these are not ranked."""
    if heat.dtype == np.bool_ or not (even := flat(heat)).any():
        return heat
    return np.where(even[..., None, None], heat.max((-2, -1), keepdims=True), heat)


def iou(binary: Mask, truth: Mask) -> float:
    """Intersection over union; 0 if both are empty."""
    shared = _count(binary & truth)
    return shared / max(_count(binary) + _count(truth) - shared, 1)


def consensus_iou(binary: Mask, agreement: Heat) -> float:
    """Agreement that is hit, over all agreement and the active pixels on which there is none."""
    hit, missed = float(agreement[binary].sum()), float(agreement[~binary].sum())
    alone = _count(binary & (agreement == 0))
    return hit / (hit + missed + alone) if hit else 0.0


def iou_table(binary: Mask, truth: Mask) -> NDArray[np.float64]:
    """IoU of each map k (K, M, h, w), or (K, 1, h, w) if the same for all sources, with each source m (M, h, w)."""
    table = np.empty((len(binary), len(truth)))
    areas = [_count(mask) for mask in truth]
    for k, views in enumerate(binary):
        active = [_count(view) for view in views]
        for m, mask in enumerate(truth):
            view = m % len(views)
            shared = _count(views[view] & mask)
            table[k, m] = shared / max(active[view] + areas[m] - shared, 1)
    return table


def pointing_game(heat: Heat, truth: Mask) -> float:
    """Share of the map's highest pixels that lie on the truth."""
    peaks = heat == heat.max()
    return _count(peaks & truth) / _count(peaks)


def leakage(binary: Mask, others: Mask) -> float:
    """Share of the active pixels that lie on the others; 0 if none is active."""
    return _count(binary & others) / max(_count(binary), 1)


def average_precision(heat: Heat, truth: Mask) -> float:
    """Sum over scores of (gain in recall) x (precision of all pixels with at least that score); 0 without a truth."""
    ranked = _ranked(heat.astype(np.float32, copy=False).ravel(), truth.ravel())
    places = np.flatnonzero((ranked.astype(np.uint8) & 1).view(np.bool_))  # numpy finds booleans faster than integers
    if not len(places):
        return 0.0
    # positives with equal scores are let in together, at the place of the last of them
    scores = ranked[places]
    ends = np.ones(len(scores), dtype=bool)
    np.not_equal(scores[1:], scores[:-1], out=ends[:-1])
    last = np.flatnonzero(ends)
    let_in = last + 1
    gains = let_in.copy()
    gains[1:] -= let_in[:-1]
    # not as a dot product: numpy would wake the threads of its linear algebra for it
    return float((gains * let_in / (places[last] + 1)).sum() / len(scores))


def _ranked(scores: NDArray[np.float32], truth: Mask) -> NDArray[Any]:
    """The pixels from high score to low, positives last among equals, as integers whose last bit says "positive".

    The place of the last positive of some score then tells how many pixels reach it, and no index has to be sorted.
    """
    # integers in the order of the floats: the bits of a positive float, minus those of a negative one (-0 becomes 0)
    keys = np.ascontiguousarray(scores).view(np.int32)
    low, high = int(keys.min()), int(keys.max())
    if low < 0:
        keys = np.where(keys >= 0, keys, -(keys & 0x7FFFFFFF))
        low, high = int(keys.min()), int(keys.max())
    if max(high, -low) >= _INFINITY:
        raise not_finite()
    # 32 bits sort twice as fast as 64, and hold every map within (-2, 2) and every map of one sign
    narrow = high - low < 2**31
    ranked: NDArray[Any] = np.subtract(high, keys, dtype=np.int32 if narrow else np.int64)
    ranked = ranked.view(np.uint32 if narrow else np.uint64)
    ranked <<= 1
    ranked |= truth
    ranked.sort()
    return ranked


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def not_finite() -> DataError:
    """The error for a map that holds NaN or infinity: it is a fault of its maker and has no score."""
    return DataError(
        "A heatmap holds NaN or infinity and has no score.",
        "Look for a division by zero in the model that made it.",
    )
