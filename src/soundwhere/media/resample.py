"""Another sampling rate for batches of waveforms, in torch on any device: a windowed sinc, filter by filter."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

# Zero crossings of the sinc on each side, and the share of the lower rate's band that passes.
_CROSSINGS = 32
_PASSES = 0.95


def resample(waveform: Tensor, from_hz: int, to_hz: int) -> Tensor:
    """Bring waveforms to another sampling rate.

    Args:
        waveform: Shape (..., N), floating.
        from_hz: Its rate.
        to_hz: The rate wanted.

    Returns:
        Shape (..., ceil(N * to_hz / from_hz)), same dtype. What lies beyond half of the lower rate is filtered out.
    """
    if from_hz == to_hz or not waveform.shape[-1]:
        return waveform
    common = math.gcd(from_hz, to_hz)
    before, after = from_hz // common, to_hz // common
    kernels, margin = _kernels(before, after)
    length = waveform.shape[-1]
    padded = F.pad(waveform.reshape(-1, 1, length), (margin, margin + before))
    phases = F.conv1d(padded, kernels.to(padded), stride=before)  # (B, after, blocks of `before` samples)
    samples = phases.transpose(1, 2).flatten(1)[:, : -(-length * after // before)]
    return samples.reshape(*waveform.shape[:-1], -1)


@lru_cache
@torch.inference_mode(False)  # kept for later calls, which may train
def _kernels(before: int, after: int) -> tuple[Tensor, int]:
    """One filter per sample of a block of `after` samples, shape (after, 1, taps), and how far it reaches back."""
    cutoff = _PASSES * min(1.0, after / before)  # in half the input's rate
    margin = math.ceil(_CROSSINGS / cutoff)
    taps = torch.arange(-margin, margin + before, dtype=torch.float64)
    distance = (taps - torch.arange(after, dtype=torch.float64)[:, None] * before / after) * cutoff
    window = torch.cos(distance.clamp(-_CROSSINGS, _CROSSINGS) * math.pi / (2 * _CROSSINGS)).square()
    return (torch.sinc(distance) * window * cutoff)[:, None].float(), margin
