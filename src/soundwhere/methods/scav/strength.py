"""Feature strength: where in a picture the things are, whatever sounds.

The norm of a cell's features is high on objects and low on background. At one scale it is coarse and depends on where
the grid happens to lie; the mean over scales and a mirrored copy is a much better mask. Nothing is learnt and no label
is read, so it can teach stage 2 the shape of a source whose frame is known (`STRENGTH`). A small head learns to
guess it from one scale (`StrengthHead`), in a minute before stage 2, on single frames, with no sound at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.data.training_scenes import FrameTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from soundwhere.data.features import Eye
    from soundwhere.data.training_scenes import FramePairs

# Sides at which a frame is seen, as a share of its own.
SCALES: Final = (5 / 7, 1.0, 10 / 7, 2.0)
# Side of a cell of the result.
CELL_PX: Final = 16

STEPS: Final = 300
_WIDTH: Final = 64
_BATCH_SIZE: Final = 64
_LEARNING_RATE: Final = 1e-3
_WEIGHT_DECAY: Final = 1e-2


@torch.no_grad()
def feature_strength(images: Tensor, eye: Eye) -> Tensor:
    """The squared norm of features, each scale divided by its maximum, averaged.

    Args:
        images: Normalised pictures, shape (B, 3, H, W).
        eye: A frozen visual encoder.

    Returns:
        Shape (B, 1, H/16, W/16), in [0, 1], with a maximum of 1.
    """
    size = (images.shape[-2], images.shape[-1])
    total = torch.zeros(len(images), 1, *size)
    for scale in SCALES:
        scaled = [eye.stride_px * max(1, round(scale * side / eye.stride_px)) for side in size]
        seen = F.interpolate(images, size=scaled, mode="bilinear", antialias=True, align_corners=False)
        strength = eye.encode(seen).square().sum(1, keepdim=True)
        if scale == 1:
            strength = strength + eye.encode(seen.flip(-1)).square().sum(1, keepdim=True).flip(-1)
        strength = F.interpolate(strength.float().cpu(), size=size, mode="bilinear", align_corners=False)
        total += strength / strength.amax((-2, -1), keepdim=True).clamp_min(1e-6)
    pooled = F.avg_pool2d(total, CELL_PX)
    return pooled / pooled.amax((-2, -1), keepdim=True).clamp_min(1e-6)


STRENGTH: Final = FrameTarget(f"strength-{'-'.join(f'{scale:.3f}' for scale in SCALES)}-{CELL_PX}px", feature_strength)
"""Feature strength as what maps are taught; the name tells how it is made."""


class StrengthHead(nn.Module):
    """Guesses, from features at one scale, the feature strength that several scales would show.

    The norm of the features is high on things and low on the background, and blurred over 32 pixels. Looked at again
    at other scales it follows the things far better; this head has learned to do without.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, _WIDTH, 1, bias=False),
            nn.BatchNorm2d(_WIDTH),
            nn.ReLU(),
            nn.Conv2d(_WIDTH, _WIDTH, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(_WIDTH, 1, 1),
        )

    @property
    def fitted(self) -> bool:
        """Whether it has seen anything: its statistics count the batches, and travel with its weights."""
        return bool(self.get_buffer("layers.1.num_batches_tracked") > 0)

    def forward(self, features: Tensor) -> Tensor:
        """From V, shape (B, C, h, w), to a guess for each cell, shape (B, 1, h, w), nominally in [0, 1]."""
        strength: Tensor = self.layers(features)
        return strength


def fit_head(
    head: nn.Module,
    pairs: FramePairs,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
    criterion: Callable[[Tensor, Tensor], Tensor] = F.mse_loss,
) -> float:
    """Fit a head to the targets of single frames, from where it stands; nothing else of the run is touched.

    Args:
        head: From features (B, C, h, w) to maps (B, 1, n, m); trained in place, and left in eval mode.
        pairs: Features of single frames with their targets.
        seed: Decides the order of the frames.
        progress: Called with the number of steps done and of all.
        criterion: Of what the head gives and what it should.

    Returns:
        The mean error over the last tenth of the steps.
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
        guess = head(features)
        error = criterion(guess, F.interpolate(strength, size=guess.shape[-2:], mode="area"))
        optimiser.zero_grad()
        torch.autograd.backward(error)
        optimiser.step()
        errors.append(error.item())
        if progress is not None:
            progress(step + 1, STEPS)
    head.requires_grad_(False).eval()
    return float(np.mean(errors[-STEPS // 10 :]))
