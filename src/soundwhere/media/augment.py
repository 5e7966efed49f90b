"""Spectrograms with parts blanked, so that an encoder does not rely on any single one of them."""

from __future__ import annotations

import torch
from torch import Tensor

# Widest band or span that is blanked, as a share of the whole.
WIDEST = 1 / 6


def blank(spectrogram: Tensor, count: int) -> Tensor:
    """Set random bands and spans of each spectrogram to its mean (after SpecAugment, Park et al., 2019).

    Args:
        spectrogram: Shape (B, 1, F, T).
        count: How many bands of frequencies, and as many spans of time; they may overlap.

    Returns:
        A copy, drawn with torch's global random state.
    """
    bands = _spans(len(spectrogram), spectrogram.shape[-2], count, spectrogram.device)[:, None, :, None]
    times = _spans(len(spectrogram), spectrogram.shape[-1], count, spectrogram.device)[:, None, None, :]
    return torch.where(bands | times, spectrogram.mean((1, 2, 3), keepdim=True), spectrogram)


def _spans(batch: int, length: int, count: int, device: torch.device) -> Tensor:
    """Which of `length` places lie in one of `count` random spans, shape (batch, length), bool."""
    width = torch.rand(batch, count, 1, device=device) * WIDEST * length
    start = torch.rand(batch, count, 1, device=device) * (length - width)
    place = torch.arange(length, device=device)
    return ((place >= start) & (place < start + width)).any(1)
