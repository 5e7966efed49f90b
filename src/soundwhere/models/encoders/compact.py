"""A compact audio encoder for small machines."""

from __future__ import annotations

from torch import Tensor, nn

from soundwhere.models.encoders.layers import channels_last, convolution, start_from_noise
from soundwhere.models.encoders.resnet import BasicBlock


class CompactAudio(nn.Module):
    """A residual network of 2.6 M parameters and 0.2 G multiply-adds for a 552 x 121 spectrogram.

    Its first layer strides over 6 x 4 cells (120 Hz and 100 ms). Convolutions are full: depthwise ones need fewer
    multiply-adds, but are several times slower on a CPU, above all in training.
    """

    channels = 512

    def __init__(self) -> None:
        super().__init__()
        self.stem = convolution(1, 48, kernel=(9, 7), stride=(6, 4))
        self.blocks = nn.Sequential(
            BasicBlock(48, 64, stride=2),
            BasicBlock(64, 128, stride=2),
            BasicBlock(128, 256, stride=2),
            BasicBlock(256, 256),
            convolution(256, self.channels, kernel=(1, 1)),
        )
        start_from_noise(self)

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Spectrogram (B, 1, F, T) to non-negative features (B, 512, F/48, T/32), rounded up."""
        features: Tensor = self.blocks(channels_last(self.stem(spectrogram)))
        return features
