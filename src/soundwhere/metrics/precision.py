"""Pixel average precision: exact, ties included, at the cost of one sort of integers per map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from soundwhere.metrics.functional import check_finite

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


def average_precision(maps: Tensor, truth: Tensor) -> Tensor:
    """Average precision of the pixels of continuous maps; 0 where the truth is empty. CAP is its mean over pairs.

    The definition is scikit-learn's: each positive pixel contributes the precision at its own score, with all pixels of
    an equal score let in together. It runs on the CPU wherever the maps are, and compares scores as float32.

    Args:
        maps: Heatmaps, shape (..., H, W), any floating type; boolean maps count as 0 and 1.
        truth: Annotated masks of the same shape, bool.

    Returns:
        Shape (...), float64, in [0, 1].

    Example:
        >>> average_precision(torch.tensor([[0.9, 0.8, 0.1]]), torch.tensor([[True, False, True]]))
        tensor(0.8333, dtype=torch.float64)
    """
    check_finite(maps.float())
    scores = maps.detach().to("cpu", torch.float32).flatten(-2)
    rows = scores.reshape(-1, scores.shape[-1]).numpy()
    positives = truth.cpu().flatten(-2).reshape(rows.shape).numpy()
    values = [_average_precision(row, positive) for row, positive in zip(rows, positives, strict=True)]
    return torch.tensor(values, dtype=torch.float64, device=maps.device).reshape(scores.shape[:-1])


def _average_precision(scores: NDArray[np.float32], truth: NDArray[np.bool_]) -> float:
    """Average precision of one map: the mean over positives of (positives >= its score) / (pixels >= its score)."""
    packed = _sorted_keys(scores, truth)
    places = np.flatnonzero((packed & 1) == 0)
    if not len(places):
        return 0.0
    # Of positives with equal scores, each takes the place of the first: those are the pixels let in together.
    found = packed[places]
    first = np.arange(len(found))
    first[1:][found[1:] == found[:-1]] = 0
    first = np.maximum.accumulate(first)
    return float(((len(found) - first) / (len(packed) - places[first])).mean())


def _sorted_keys(scores: NDArray[np.float32], truth: NDArray[np.bool_]) -> NDArray[Any]:
    """The pixels in ascending order of score, positives first among equals, as integers whose last bit says "negative".

    The place of the first positive of some score then tells how many pixels reach it, and no index has to be sorted.
    """
    bits = np.ascontiguousarray(scores).view(np.int32)
    # integers in the order of the floats: the bits of a positive float, minus those of a negative one (-0 becomes 0)
    keys = np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))
    low, high = int(keys.min()), int(keys.max())
    # 32 bits sort twice as fast as 64, and hold every map within (-2, 2) and every map of one sign
    width = np.uint32 if high - low < 2**31 else np.uint64
    packed: NDArray[Any] = (keys.astype(np.int64) - low).astype(width)
    packed <<= 1
    packed |= ~truth
    packed.sort()
    return packed
