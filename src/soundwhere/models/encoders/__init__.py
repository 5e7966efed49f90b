"""Visual and audio encoders, by the names a configuration gives them. To add one: docs/extending.md."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from soundwhere.errors import ConfigError
from soundwhere.models.encoders.compact import CompactAudio
from soundwhere.models.encoders.frozen import freeze
from soundwhere.models.encoders.mobilenet import MobileNetV2
from soundwhere.models.encoders.plain import PlainNet
from soundwhere.models.encoders.resnet import ResNet18
from soundwhere.models.encoders.tiny import TinyAudio, TinyVisual

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

__all__ = ["AUDIO", "VISUAL", "Encoder", "VisualEncoder", "build_audio", "build_visual", "freeze"]


class Encoder(Protocol):
    """A torch module with `channels`: spectrogram (B, 1, F, T) to features (B, channels, f, t).

    Features are 0 or more unless the module says `signed = True`.
    """

    channels: int


class VisualEncoder(Encoder, Protocol):
    """The same for images (B, 3, H, W), with `stride`: features (B, channels, H/stride, W/stride)."""

    stride: int


VISUAL: dict[str, Callable[[], nn.Module]] = {
    "resnet18": partial(ResNet18, in_channels=3),
    "mobilenet_v2": MobileNetV2,
    "plain": PlainNet,
    "tiny": TinyVisual,
}
"""Visual encoders with random weights, by name."""

AUDIO: dict[str, Callable[[], nn.Module]] = {
    "resnet18": partial(ResNet18, in_channels=1),
    "mobilenet_v2": partial(MobileNetV2, in_channels=1),
    "compact": CompactAudio,
    "plain": partial(PlainNet, in_channels=1),
    "tiny": TinyAudio,
}
"""Audio encoders with random weights, by name."""

FINE_VISUAL: dict[str, Callable[[], nn.Module]] = {
    "resnet18": partial(ResNet18, in_channels=3, fine=True),
    "mobilenet_v2": partial(MobileNetV2, fine=True),
}
"""Those of them that can have four times the cells."""

FINE_AUDIO: dict[str, Callable[[], nn.Module]] = {
    "resnet18": partial(ResNet18, in_channels=1, fine=True),
}
"""The same for sounds."""


def build_visual(name: str, fine: bool = False) -> Any:
    """A visual encoder with random weights; `fine` gives those of `FINE_VISUAL` four times the cells."""
    return _find(VISUAL | FINE_VISUAL if fine else VISUAL, name, "visual")()


def build_audio(name: str, fine: bool = False) -> Any:
    """An audio encoder with random weights; `fine` gives those of `FINE_AUDIO` four times the cells."""
    return _find(AUDIO | FINE_AUDIO if fine else AUDIO, name, "audio")()


def _find(encoders: dict[str, Callable[[], nn.Module]], name: str, sense: str) -> Callable[[], nn.Module]:
    if name not in encoders:
        raise ConfigError(f"There is no {sense} encoder {name!r}.", f"Choose one of: {', '.join(encoders)}.")
    return encoders[name]
