"""Where in a picture the things are, whatever sounds: a small head on the frozen visual features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

_WIDTH: Final = 64


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
