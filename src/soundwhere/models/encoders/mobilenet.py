"""MobileNetV2 without its classifier, with torchvision's parameter names so that its weight files load."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from torch import Tensor, nn

from soundwhere.models.encoders.layers import channels_last, convolution, start_from_noise
from soundwhere.models.encoders.norm import SynchronisedBatchNorm2d

# expansion, channels, blocks, stride of the first block (Sandler et al., 2018, table 2)
_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

_convolution = partial(convolution, activation=nn.ReLU6)


class InvertedResidual(nn.Module):
    """Expand, filter each channel by itself, and project back, with a shortcut where the shape stays."""

    def __init__(self, in_channels: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = expansion * in_channels
        self.conv = nn.Sequential(
            *([_convolution(in_channels, hidden, (1, 1))] if expansion > 1 else []),
            _convolution(hidden, hidden, (3, 3), (stride, stride), groups=hidden),
            nn.Conv2d(hidden, channels, 1, bias=False),
            SynchronisedBatchNorm2d(channels),
        )
        self.has_shortcut = stride == 1 and in_channels == channels

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, C, H, W) to features of either sign (B, channels, H/stride, W/stride)."""
        result: Tensor = self.conv(features)
        return features + result if self.has_shortcut else result


class MobileNetV2(nn.Module):
    """The features of MobileNetV2.

    Args:
        in_channels: 3 for pictures, 1 for spectrograms.
        fine: Leave out the last halving and spread the filters behind it instead: four times the cells, same weights.
    """

    channels = 1280
    classifier_names: ClassVar[frozenset[str]] = frozenset({"classifier.1.weight", "classifier.1.bias"})

    def __init__(self, in_channels: int = 3, fine: bool = False) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(in_channels, 32, (3, 3), (2, 2))]
        width = 32
        for expansion, channels, blocks, stride in _STAGES:
            for index in range(blocks):
                layers.append(InvertedResidual(width, channels, stride if index == 0 else 1, expansion))
                width = channels
        layers.append(_convolution(width, self.channels, (1, 1)))
        self.features = nn.Sequential(*layers)
        self.stride = 16 if fine else 32
        if fine:
            self._refine()
        start_from_noise(self)

    def _refine(self) -> None:
        blocks = [block for block in self.features if isinstance(block, InvertedResidual)]
        depthwise: list[Any] = [block.conv.get_submodule("1.0" if len(block.conv) == 4 else "0.0") for block in blocks]
        last = max(place for place, layer in enumerate(depthwise) if layer.stride == (2, 2))
        depthwise[last].stride = (1, 1)
        for layer in depthwise[last + 1 :]:
            layer.dilation, layer.padding = (2, 2), (2, 2)

    def forward(self, image: Tensor) -> Tensor:
        """Image (B, 3, H, W), or spectrogram (B, 1, H, W), to features (B, 1280, H/stride, W/stride), in [0, 6]."""
        features: Tensor = self.features(channels_last(image))
        return features
