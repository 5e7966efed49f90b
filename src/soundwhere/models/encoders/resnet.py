"""ResNet-18 without its classifier, with torchvision's parameter names so that its weight files load."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from soundwhere.models.encoders.layers import channels_last, start_from_noise
from soundwhere.models.encoders.norm import SynchronisedBatchNorm2d


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, projected where the shape changes."""

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = SynchronisedBatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = SynchronisedBatchNorm2d(channels)
        self.downsample: nn.Module | None = None
        if stride != 1 or in_channels != channels:
            projection = nn.Conv2d(in_channels, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, SynchronisedBatchNorm2d(channels))

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, C, H, W) to non-negative features (B, channels, H/stride, W/stride)."""
        shortcut = features if self.downsample is None else self.downsample(features)
        features = torch.relu_(self.bn1(self.conv1(features)))
        return torch.relu_(self.bn2(self.conv2(features)) + shortcut)


class ResNet18(nn.Module):
    """The paper's encoder, for pictures (3 channels) and spectrograms (1 channel).

    Args:
        in_channels: Channels of the input.
        fine: Leave out the last halving: four times the cells, same weights.
    """

    channels = 512
    classifier_names: ClassVar[frozenset[str]] = frozenset({"fc.weight", "fc.bias"})

    def __init__(self, in_channels: int = 3, fine: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = SynchronisedBatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(64, 64), BasicBlock(64, 64))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 1 if fine else 2), BasicBlock(512, 512))
        self.stride = 16 if fine else 32
        start_from_noise(self)

    def forward(self, picture: Tensor) -> Tensor:
        """Picture or spectrogram (B, in_channels, H, W) to features (B, 512, H/stride, W/stride), 0 or more."""
        features = self.maxpool(torch.relu_(self.bn1(channels_last(self.conv1(picture)))))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            features = layer(features)
        result: Tensor = features
        return result
