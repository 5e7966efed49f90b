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
    if heat.dtype == np.bool_:
        return _mask_precision(heat, truth)
    ranked = _ranked(_falls(heat), truth.ravel())
    places = np.flatnonzero((ranked.astype(np.uint8) & 1).view(np.bool_))  # numpy finds booleans faster than integers
    if not len(places):
        return 0.0
    # positives with equal scores are let in together, at the place of the last of them
    last = _ends(ranked[places])
    return _precision(last + 1, places[last] + 1)


def reached(heat: Heat) -> NDArray[np.int64]:
    """For each pixel of a map (h, w) how many have at least its score: ranked once, compared with many truths."""
    falls = _falls(heat)
    order = falls.argsort()
    last = _ends(falls[order])
    counts = np.empty(len(order), dtype=np.int64)
    counts[order] = np.repeat(last + 1, np.diff(last, prepend=-1))
    return counts.reshape(heat.shape)


def average_precision_at(counts: NDArray[np.int64], truth: Mask) -> float:
    """The average precision of a map of which `reached` is known."""
    own = counts[truth]
    if not len(own):
        return 0.0
    own.sort()
    last = _ends(own)
    return _precision(last + 1, own[last])


def _mask_precision(heat: Mask, truth: Mask) -> float:
    """Of a map that is a mask: what is on is let in first, then all the rest."""
    positives, hits = _count(truth), _count(heat & truth)
    if not positives:
        return 0.0
    let_in = {hits: _count(heat), positives: heat.size} if hits < positives else {hits: _count(heat)}
    let_in.pop(0, None)
    return _precision(np.array(list(let_in)), np.array(list(let_in.values())))


def _ends(ordered: NDArray[Any]) -> NDArray[np.int64]:
    """The place of the last of each stretch of equal values."""
    ends = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=ends[:-1])
    return np.flatnonzero(ends)


def _precision(let_in: NDArray[np.int64], pixels: NDArray[np.int64]) -> float:
    """From the numbers of positives, and of pixels, that are let in step by step."""
    gains = let_in.copy()
    gains[1:] -= let_in[:-1]
    # not as a dot product: numpy would wake the threads of its linear algebra for it
    return float((gains * let_in / pixels).sum() / let_in[-1])


def _ranked(falls: NDArray[Any], truth: Mask) -> NDArray[Any]:
    """The pixels from high score to low, positives last among equals, as integers whose last bit says "positive".

    The place of the last positive of some score then tells how many pixels reach it, and no index has to be sorted.
    """
    falls <<= 1
    falls |= truth
    falls.sort()
    return falls


def _falls(heat: Heat) -> NDArray[Any]:
    """How far below the highest score each pixel is, shape (N,), counted in steps of float32; twice that has room."""
    scores = heat.astype(np.float32, copy=False).ravel()
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
    falls: NDArray[Any] = np.subtract(high, keys, dtype=np.int32 if narrow else np.int64)
    return falls.view(np.uint32 if narrow else np.uint64)


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def not_finite() -> DataError:
    """The error for a map that holds NaN or infinity: it is a fault of its maker and has no score."""
    return DataError(
        "A heatmap holds NaN or infinity and has no score.",
        "Look for a division by zero in the model that made it.",
    )
