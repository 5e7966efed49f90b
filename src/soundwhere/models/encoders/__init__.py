"""Visual and audio encoders, by the names a configuration gives them."""

from __future__ import annotations

from typing import Literal

from soundwhere.models.encoders.compact import CompactAudio
from soundwhere.models.encoders.frozen import freeze
from soundwhere.models.encoders.mobilenet import MobileNetV2
from soundwhere.models.encoders.resnet import ResNet18
from soundwhere.models.encoders.tiny import TinyAudio, TinyVisual

__all__ = ["AudioEncoder", "VisualEncoder", "build_audio", "build_visual", "freeze"]

VisualEncoder = ResNet18 | MobileNetV2 | TinyVisual
"""A module with `channels` and `stride`: image (B, 3, H, W) to features (B, channels, H/stride, W/stride), >= 0."""

AudioEncoder = ResNet18 | MobileNetV2 | CompactAudio | TinyAudio
"""A module with `channels`: spectrogram (B, 1, F, T) to features (B, channels, f, t), >= 0."""


def build_visual(name: Literal["resnet18", "mobilenet_v2", "tiny"], fine: bool = False) -> VisualEncoder:
    """A visual encoder with random weights; `fine` gives MobileNetV2 four times the cells."""
    match name:
        case "resnet18":
            return ResNet18(in_channels=3)
        case "mobilenet_v2":
            return MobileNetV2(fine=fine)
        case "tiny":
            return TinyVisual()


def build_audio(name: Literal["resnet18", "mobilenet_v2", "compact", "tiny"]) -> AudioEncoder:
    """An audio encoder with random weights."""
    match name:
        case "resnet18":
            return ResNet18(in_channels=1)
        case "mobilenet_v2":
            return MobileNetV2(in_channels=1)
        case "compact":
            return CompactAudio()
        case "tiny":
            return TinyAudio()
