"""Metrics as pure functions of maps, masks and IoUs: no state, no files, no protocol.

Maps are (..., H, W), masks boolean of the same shape, and leading dimensions broadcast. Scores are float64 in [0, 1]
and lie on the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from soundwhere.metrics import kernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

AUC_STEPS: Final = 20
"""AUC integrates the success rate over the IoU thresholds 0, 0.05 .. 1."""


def iou(binary: Tensor, truth: Tensor) -> Tensor:
    """Intersection over union of two boolean masks (Eq. iou_def); 0 where both are empty.

    Args:
        binary: Binarised prediction, shape (..., H, W), bool.
        truth: Annotated mask, broadcastable to it, bool.

    Returns:
        Shape (...), float64, in [0, 1].

    Example:
        >>> iou(torch.tensor([[True, True, False]]), torch.tensor([[False, True, True]]))
        tensor(0.3333, dtype=torch.float64)
    """
    return _each(kernels.iou, binary, truth)


def consensus_iou(binary: Tensor, agreement: Tensor) -> Tensor:
    """Intersection over union with a truth that annotators agree on in part, as Flickr-SoundNet is scored.

    Agreement that is hit, over all agreement and the active pixels on which there is none; 0 where both are empty. With
    an agreement of 0 and 1 it is the plain IoU.

    Args:
        binary: Binarised prediction, shape (..., H, W), bool.
        agreement: How far annotators agree on each pixel (there: boxes that hold it, divided by 2, at most 1),
            broadcastable to it, in [0, 1].

    Returns:
        Shape (...), float64, in [0, 1].

    Example:
        >>> consensus_iou(torch.tensor([[True, True, True]]), torch.tensor([[0.5, 1.0, 0.0]]))
        tensor(0.6000, dtype=torch.float64)
    """
    return _each(kernels.consensus_iou, binary, agreement.double())


def average_precision(maps: Tensor, truth: Tensor) -> Tensor:
    """Average precision of the pixels of continuous maps; 0 where the truth is empty. CAP is its mean over pairs.

    The definition is scikit-learn's: each positive pixel contributes the precision at its own score, with all pixels of
    an equal score let in together. Scores are compared as float32, and all are equal in a map that is flat but for
    rounding errors, such as a constant leaves that was upsampled.

    Args:
        maps: Heatmaps, shape (..., H, W), any floating type; boolean maps count as 0 and 1.
        truth: Annotated masks, broadcastable to them, bool.

    Returns:
        Shape (...), float64, in [0, 1].

    Raises:
        DataError: A map holds NaN or infinity.

    Example:
        >>> average_precision(torch.tensor([[0.9, 0.8, 0.1]]), torch.tensor([[True, False, True]]))
        tensor(0.8333, dtype=torch.float64)
    """
    return _each(kernels.average_precision, kernels.settle(to_numpy(maps)), truth)


def pointing_game(maps: Tensor, truth: Tensor) -> Tensor:
    """1 where the peak of a map lies on the truth, else 0; of several equal peaks, the share that does.

    The share makes a constant map score what a blind guess would, whatever order its pixels are searched in; rounding
    errors are no peaks.

    Args:
        maps: Heatmaps, shape (..., H, W).
        truth: Annotated masks, broadcastable to them, bool.

    Returns:
        Shape (...), float64, in [0, 1].
    """
    return _each(kernels.pointing_game, kernels.settle(to_numpy(maps)), truth)


def leakage(binary: Tensor, others: Tensor) -> Tensor:
    """Share of a map's active pixels that lie on other sources; 0 where nothing is active.

    Args:
        binary: Binarised prediction, shape (..., H, W), bool.
        others: Union of the other sources' masks without the source's own, broadcastable to it, bool.

    Returns:
        Shape (...), float64, in [0, 1].
    """
    return _each(kernels.leakage, binary, others)


def dark_share(maps: Tensor, gate: float = 0.2) -> Tensor:
    """Share of each map's pixels that do not exceed `gate`; over maps of absent classes, DSOL's "no-sounding area".

    Args:
        maps: Heatmaps, shape (..., H, W).
        gate: Of the map's own values.

    Returns:
        Shape (...), float64, in [0, 1].
    """
    return (maps <= gate).double().mean((-2, -1))


def auc_shares(ious: Tensor) -> Tensor:
    """What each pair adds to the AUC, shape as `ious`: the AUC is their mean, because the trapezoid is linear."""
    thresholds = torch.arange(AUC_STEPS + 1, dtype=torch.float64, device=ious.device) / AUC_STEPS
    passed = (ious.double()[..., None] >= thresholds).double()
    return torch.trapezoid(passed, dx=1 / AUC_STEPS, dim=-1)


def auc(ious: Tensor) -> Tensor:
    """Area under the success rate over IoU thresholds 0, 0.05 .. 1 (trapezoid), over the last dimension.

    It stays within 0.025 of the mean IoU, and is 0.025 when every IoU is 0.

    Example:
        >>> auc(torch.tensor([0.0, 1.0]))
        tensor(0.5125, dtype=torch.float64)
    """
    return auc_shares(ious).mean(-1)


def to_numpy(maps: Tensor) -> NDArray[Any]:
    """Maps or masks as a numpy array; 16-bit floats, which numpy handles badly or not at all, as float32."""
    small = maps.is_floating_point() and maps.dtype.itemsize < 4
    array: NDArray[Any] = (maps.float() if small else maps).detach().cpu().numpy()
    return array


def _each(
    kernel: Callable[[NDArray[Any], NDArray[Any]], float], first: Tensor | NDArray[Any], second: Tensor
) -> Tensor:
    """A kernel of two maps for each of the maps (..., H, W), shape (...)."""
    array = to_numpy(first) if isinstance(first, torch.Tensor) else first
    one, other = np.broadcast_arrays(array, to_numpy(second))
    values = [kernel(one[index], other[index]) for index in np.ndindex(one.shape[:-2])]
    return torch.tensor(values, dtype=torch.float64).reshape(one.shape[:-2])
