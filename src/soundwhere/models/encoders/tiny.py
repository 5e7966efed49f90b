"""Two encoders small enough to train from scratch on a CPU in minutes."""

from __future__ import annotations

from torch import Tensor, nn

from soundwhere.models.encoders.layers import channels_last, convolution, start_from_noise


class TinyVisual(nn.Module):
    """Pictures to a grid twice as fine as ResNet-18's, with 0.2 M parameters.

    Made to point at the middle of things. Nothing in a contrastive loss says where in its receptive field a cell should
    find what it looks for, and an encoder trained from scratch with wide fields settles beside the object. Here the
    fields are narrow (38 pixels), sit over the middle of their cells, and are averaged over neighbours: a bag of
    local features is purest in the middle of a thing.
    """

    channels = 128
    stride = 16

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            convolution(3, 24, kernel=(4, 4), stride=(2, 2)),
            convolution(24, 48, kernel=(4, 4), stride=(2, 2)),
            convolution(48, 96, kernel=(4, 4), stride=(2, 2)),
            convolution(96, self.channels, kernel=(3, 3)),
            convolution(self.channels, self.channels, kernel=(1, 1)),
            nn.AvgPool2d(4, stride=2, padding=1, count_include_pad=False),
        )
        start_from_noise(self)

    def forward(self, image: Tensor) -> Tensor:
        """Image (B, 3, H, W) to non-negative features (B, 128, H/16, W/16)."""
        features: Tensor = self.layers(channels_last(image))
        return features


class TinyAudio(nn.Module):
    """Spectrograms to a coarse map, with 0.1 M parameters; its first layer strides over 160 Hz and 100 ms."""

    channels = 128

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            convolution(1, 32, kernel=(9, 7), stride=(8, 4)),
            convolution(32, 64, kernel=(3, 3), stride=(2, 2)),
            convolution(64, self.channels, kernel=(3, 3), stride=(2, 2)),
        )
        start_from_noise(self)

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Spectrogram (B, 1, F, T) to non-negative features (B, 128, F/32, T/16), rounded up."""
        features: Tensor = self.layers(channels_last(spectrogram))
        return features
