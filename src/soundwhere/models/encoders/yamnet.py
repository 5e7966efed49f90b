"""YAMNet without its classifier: a MobileNetV1 that has heard AudioSet (Howard et al., 2017; Plakal and Ellis, 2020).

Its BatchNorm layers are folded into weights and biases, so that nothing depends on the batch it is trained on with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from soundwhere.errors import CheckpointError
from soundwhere.files import sha256
from soundwhere.models.encoders.layers import channels_last, start_from_noise
from soundwhere.models.encoders.weights import WEIGHTS_FOLDER_VARIABLE, fill, find_weights, read_weights, weight_folders

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME: Final = "yamnet.safetensors"
SHA256: Final = "961e10c6e3274cf17c4dd5bccb1c142a337f92d1600ac968adb8b9571e5206de"

_STEM: Final = 32
# channels and stride of the thirteen separable layers
_LAYERS: Final = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)


class SameConv2d(nn.Conv2d):
    """A 3 x 3 convolution padded as TensorFlow's SAME: the size divided by the stride and rounded up.

    What is left over goes to the end: with stride 2, an even side gets one zero behind it and none before it.
    """

    def __init__(self, in_channels: int, channels: int, stride: int, groups: int = 1) -> None:
        super().__init__(in_channels, channels, 3, stride, groups=groups)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Features (B, C, H, W) to features (B, channels, H/stride, W/stride), rounded up."""
        stride = int(self.stride[0])
        before, after = zip(*(_padding(int(side), stride) for side in input.shape[-2:]), strict=True)
        if before == after:  # which the convolution does by itself, without a copy
            return F.conv2d(input, self.weight, self.bias, self.stride, before, groups=self.groups)
        return super().forward(F.pad(input, (before[1], after[1], before[0], after[0])))


class SeparableLayer(nn.Module):
    """Filter each channel by itself, then mix the channels, with a ReLU behind each."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.depthwise = SameConv2d(in_channels, in_channels, stride, groups=in_channels)
        self.pointwise = nn.Conv2d(in_channels, channels, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, C, H, W) to non-negative features (B, channels, H/stride, W/stride), rounded up."""
        return torch.relu_(self.pointwise(torch.relu_(self.depthwise(features))))


class YAMNet(nn.Module):
    """The features of YAMNet, 3.2 million values, for `soundwhere.media.log_mel`.

    One cell hears about a second; cells lie 0.32 s apart, two over frequency. The mean over all cells is the published
    embedding.
    """

    channels = 1024
    classifier_names: ClassVar[frozenset[str]] = frozenset({"classifier.weight", "classifier.bias"})

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = SameConv2d(1, _STEM, stride=2)
        width = _STEM
        for number, (channels, stride) in enumerate(_LAYERS, 2):
            self.add_module(f"layer{number}", SeparableLayer(width, channels, stride))
            width = channels
        start_from_noise(self)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d) and layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Log-mel spectrogram (B, 1, 64, T) to non-negative features (B, 1024, 2, T/32), rounded up."""
        features = torch.relu_(self.layer1(channels_last(spectrogram.transpose(-1, -2))))  # it was made for time first
        for number in range(2, 2 + len(_LAYERS)):
            features = self.get_submodule(f"layer{number}")(features)
        return features.transpose(-1, -2)


def load_yamnet(encoder: YAMNet, path: Path | None = None) -> None:
    """Start an encoder from AudioSet's labels, in place.

    Args:
        encoder: The encoder to fill.
        path: A file of the same names, such as one that was trained on; by default the published one, looked for in
            torch hub's cache and in the folder that `SOUNDWHERE_WEIGHTS` names.

    Raises:
        CheckpointError: The file is missing, damaged, or of another model.
    """
    path = find_yamnet() if path is None else path
    weights = read_weights(path)
    if path.name == FILE_NAME and (found := sha256(path)) != SHA256:
        raise CheckpointError(
            f"{path} is damaged, or another file of that name: its sha256 is {found[:8]}..., not {SHA256[:8]}....",
            "Copy it again; give weights of your own another name.",
        )
    fill(encoder, weights, path)


def find_yamnet() -> Path:
    """Where the published weights are: torch hub's cache, else the folder `SOUNDWHERE_WEIGHTS` names."""
    if (found := find_weights(FILE_NAME)) is not None:
        return found
    raise CheckpointError(
        f"{FILE_NAME} is not in {' or '.join(map(str, weight_folders()))}.",
        f"Copy it there, or name the folder that holds it in the environment variable {WEIGHTS_FOLDER_VARIABLE}.",
    )


def _padding(side: int, stride: int) -> tuple[int, int]:
    """Zeros before and behind a side, for a filter of 3."""
    total = max(0, (-(-side // stride) - 1) * stride + 3 - side)
    return total // 2, total - total // 2
