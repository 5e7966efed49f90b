"""Fitting the strength head: a minute before stage 2, on single frames, with no sound at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.data.strength import StrengthPairs
    from soundwhere.models.strength import StrengthHead

STEPS: Final = 300
_BATCH_SIZE: Final = 64
_LEARNING_RATE: Final = 1e-3
_WEIGHT_DECAY: Final = 1e-2


def fit_strength(
    head: StrengthHead, pairs: StrengthPairs, seed: int, progress: Callable[[int, int], None] | None = None
) -> float:
    """Fit the head to what several scales show, from where it stands; nothing else of the run is touched.

    Args:
        head: Trained in place, and left in eval mode.
        pairs: Features of single frames with their strength.
        seed: Decides the order of the frames.
        progress: Called with the number of steps done and of all.

    Returns:
        The mean squared error over the last tenth of the steps.
    """
    device = next(head.parameters()).device
    rng = np.random.default_rng(seed)
    head.requires_grad_(True).train()
    optimiser = torch.optim.AdamW(head.parameters(), _LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    errors = []
    for step in range(STEPS):
        chosen = [pairs[int(index)] for index in rng.integers(len(pairs), size=_BATCH_SIZE)]
        features, strength = (torch.from_numpy(np.stack(side)).float().to(device) for side in zip(*chosen, strict=True))
        if step % 2:
            features, strength = features.flip(-1), strength.flip(-1)
        target = F.interpolate(strength, size=features.shape[-2:], mode="area")
        error = F.mse_loss(head(features), target)
        optimiser.zero_grad()
        torch.autograd.backward(error)
        optimiser.step()
        errors.append(error.item())
        if progress is not None:
            progress(step + 1, STEPS)
    head.requires_grad_(False).eval()
    return float(np.mean(errors[-STEPS // 10 :]))
