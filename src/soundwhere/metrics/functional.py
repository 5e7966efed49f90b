"""Metrics as pure functions of maps, masks and IoUs: no state, no files, no protocol.

Maps are (..., H, W), masks boolean of the same shape, and leading dimensions broadcast. Scores are float64 in [0, 1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from soundwhere.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

AUC_STEPS: Final = 20
"""AUC integrates the success rate over the IoU thresholds 0, 0.05 .. 1."""


def check_finite(maps: Tensor) -> None:
    """Refuse maps with NaN or infinity: such a map is a fault of its maker and has no score.

    Args:
        maps: Heatmaps, shape (..., H, W).

    Raises:
        DataError: Some value is not finite.
    """
    if maps.numel() and not bool((maps.amin((-2, -1)).isfinite() & maps.amax((-2, -1)).isfinite()).all()):
        bad = int((~maps.isfinite()).flatten(-2).any(-1).sum())
        raise DataError(
            f"{bad} of {maps[..., 0, 0].numel()} heatmaps hold NaN or infinity.",
            "Such a map cannot be scored: look for a division by zero in the model that made it.",
        )


def count(mask: Tensor) -> Tensor:
    """True pixels of a boolean mask (..., H, W), shape (...), int64."""
    # Summing bytes in int32 is several times faster than summing booleans, and exact for any picture.
    return mask.view(torch.uint8).sum((-2, -1), dtype=torch.int32).long()


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
    shared = count(binary & truth)
    union = count(binary) + count(truth) - shared
    return shared.double() / union.clamp(min=1)


def pointing_game(maps: Tensor, truth: Tensor) -> Tensor:
    """1 where the peak of a map lies on the truth, else 0; of several equal peaks, the share that does.

    The share makes a constant map score what a blind guess would, whatever order its pixels are searched in.

    Args:
        maps: Heatmaps, shape (..., H, W).
        truth: Annotated masks, broadcastable to them, bool.

    Returns:
        Shape (...), float64, in [0, 1].
    """
    peaks = maps == maps.amax((-2, -1), keepdim=True)
    return count(peaks & truth).double() / count(peaks).clamp(min=1)


def leakage(binary: Tensor, others: Tensor) -> Tensor:
    """Share of a map's active pixels that lie on other sources; 0 where nothing is active.

    Args:
        binary: Binarised prediction, shape (..., H, W), bool.
        others: Union of the other sources' masks without the source's own, broadcastable to it, bool.

    Returns:
        Shape (...), float64, in [0, 1].
    """
    return count(binary & others).double() / count(binary).clamp(min=1)


def success_rate(ious: Tensor, threshold: float) -> Tensor:
    """CIoU@x as the paper counts it: the share of pairs whose IoU is at least `threshold`, over the last dimension."""
    return (ious >= threshold).double().mean(-1)


def auc_shares(ious: Tensor) -> Tensor:
    """What each pair adds to the AUC, shape as `ious`: the AUC is their mean, because the trapezoid is linear.

    For one pair the success rate is 1 up to its IoU and 0 beyond, so its area is (thresholds passed - 1/2) x 0.05, and
    half a step less when it passes the last one too.
    """
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
