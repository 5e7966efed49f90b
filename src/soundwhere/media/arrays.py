"""What numpy and torch call by different names, so that a front end is written once and runs without torch too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Floats = NDArray[np.float32]

_LOUDEST: Final = 1e6  # far above any sound; a larger sample's power would overflow float32

Array = TypeVar("Array", "Tensor", "NDArray[Any]")
"""A tensor or an array: what comes in decides what goes out."""


def namespace(array: Any) -> Any:
    """The module, numpy or torch, whose functions take an array."""
    if isinstance(array, np.ndarray):
        return np
    import torch  # loaded already: this is a tensor

    return torch


def like(constant: Floats, array: Array) -> Array:
    """A constant where an array is, of the same kind."""
    if isinstance(array, np.ndarray):
        return constant
    import torch

    return torch.from_numpy(constant).to(array.device)


def finite(waveform: Array) -> Array:
    """A waveform in single precision; samples that are not finite are silent, and none is beyond all measure."""
    samples = waveform.astype(np.float32, copy=False) if isinstance(waveform, np.ndarray) else waveform.float()
    xp = namespace(samples)
    tame: Array = xp.clip(xp.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0), -_LOUDEST, _LOUDEST)
    return tame


def triangles(places: NDArray[np.float64], corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Triangles of height 1 over three corners each, which overlap by half, at places, shape (places, corners - 2)."""
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    rising, falling = (places[:, None] - left) / (middle - left), (right - places[:, None]) / (right - middle)
    over: NDArray[np.float64] = np.maximum(np.minimum(rising, falling), 0)
    return over


def pad(array: Array, before: int, after: int) -> Array:
    """Zeros before and after the last axis."""
    if isinstance(array, np.ndarray):
        return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(before, after)])
    from torch.nn import functional as F

    return F.pad(array, (before, after))


def cut(array: Array, length: int, hop: int) -> Array:
    """Windows of the last axis, shape (..., T, length), one every `hop` samples, without a copy."""
    if isinstance(array, np.ndarray):
        return np.lib.stride_tricks.sliding_window_view(array, length, axis=-1)[..., ::hop, :]
    return array.unfold(-1, length, hop)
