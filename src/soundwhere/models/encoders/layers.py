"""What the encoders have in common."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from soundwhere.models.encoders.norm import SynchronisedBatchNorm2d


def convolution(
    in_channels: int,
    channels: int,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    groups: int = 1,
    activation: type[nn.ReLU] | type[nn.ReLU6] = nn.ReLU,
) -> nn.Sequential:
    """Convolution, normalisation and activation.

    An odd kernel keeps the size, divided by the stride and rounded up. An even kernel with stride 2 halves it, and puts
    each output over the middle of the inputs it replaces, where a strided odd kernel sits half a step to the top left.
    """
    padding = ((kernel[0] - 1) // 2, (kernel[1] - 1) // 2)
    layer = nn.Conv2d(in_channels, channels, kernel, stride, padding, groups=groups, bias=False)
    return nn.Sequential(layer, SynchronisedBatchNorm2d(channels), activation(inplace=True))


def start_from_noise(encoder: nn.Module) -> None:
    """Draw convolutions so that ReLU layers keep the variance of what passes back through them (He et al., 2015)."""
    for layer in encoder.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")


def channels_last(features: Tensor) -> Tensor:
    """The same values, with channels adjacent in memory: convolutions then train about 1.5 times as fast on a CPU."""
    return features.contiguous(memory_format=torch.channels_last)
