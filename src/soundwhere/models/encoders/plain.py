"""Eight plain convolutions, from scratch: the encoder of both senses in OTS."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from soundwhere.models.encoders.layers import channels_last, start_from_noise
from soundwhere.models.encoders.norm import SynchronisedBatchNorm2d

_WIDTHS = (64, 128, 256, 512)


class PlainNet(nn.Module):
    """Four pairs of 3 x 3 convolutions of 64 to 512 channels; the first halves, and so do pools between the pairs.

    Args:
        in_channels: 3 for pictures, 1 for spectrograms.
    """

    channels = 512
    stride = 16

    def __init__(self, in_channels: int = 3) -> None:
        super().__init__()
        width = in_channels
        for number, channels in enumerate(_WIDTHS, 1):
            for place in (1, 2):
                stride = 2 if (number, place) == (1, 1) else 1
                setattr(self, f"conv{number}_{place}", nn.Conv2d(width, channels, 3, stride, padding=1))
                setattr(self, f"bn{number}_{place}", SynchronisedBatchNorm2d(channels))
                width = channels
        start_from_noise(self)

    def forward(self, picture: Tensor) -> Tensor:
        """Picture or spectrogram (B, in_channels, H, W) to features (B, 512, H/16, W/16), 0 or more.

        The first halving rounds up, the others down: 257 x 200 gives 16 x 12.
        """
        features = channels_last(picture)
        for number in range(1, len(_WIDTHS) + 1):
            for place in (1, 2):
                layer, norm = (self.get_submodule(f"{name}{number}_{place}") for name in ("conv", "bn"))
                features = torch.relu(norm(layer(features)))
            if number < len(_WIDTHS):
                features = nn.functional.max_pool2d(features, 2)
        return features
