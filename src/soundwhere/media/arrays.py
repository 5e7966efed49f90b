"""What numpy and torch call by different names, so that a front end is written once and runs without torch too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Floats = NDArray[np.float32]

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


def single(array: Array) -> Array:
    """In single precision."""
    return array.astype(np.float32, copy=False) if isinstance(array, np.ndarray) else array.float()


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
