"""Every setting of `scav-wide`. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from soundwhere.config import MethodConfig, require, require_least, require_positive, share_out


@dataclass(frozen=True)
class WideConfig(MethodConfig):
    """The defaults are `scav-wide`, but for `others`, `apart` and `dark`: files of before have none."""

    family: Literal["scav-wide"] = "scav-wide"
    name: str = "scav-wide"

    # The architecture
    visual_weights: str = "imagenet"
    """Weights of the visual encoder, a frozen MobileNetV2: `imagenet`, a file, or `none`."""
    audio: str = "yamnet"
    """Audio encoder: yamnet, or any that other methods hear with, such as mobilenet_v2."""
    audio_weights: str = "yamnet"
    """Weights the audio encoder starts from: `yamnet` (AudioSet), for other encoders `imagenet`, or `visual`, those of
    the visual encoder; a file, or `none`."""
    spectrogram: Literal["yamnet", "paper", "peers", "mel"] = "yamnet"
    """What the audio encoder hears: `yamnet`, its own front end, or for other encoders a preset."""
    hearing: Literal["cells", "mean"] = "cells"
    """Compare the picture with every moment and band of the sound, or with its mean."""
    guesses: int = 1
    """Embeddings of each moment and band: two things that sound at once may have one each."""
    ears: int = 1
    """How many hear side by side, each trained on mixtures of its own: where one mishears, another may not."""
    softness: float = 0.05
    """Of the maximum over moments and bands, and in training over cells of a picture."""
    explain: bool = True
    """Look for two things that explain the sound together; without, stage 1's one map is the answer."""
    others: int = 0
    """Things of training photos that a sound is compared with when it is counted what sounds in a picture."""
    apart: bool = False
    """Count a second source only as far as it is a thing apart from the first, which lone frames taught."""
    dark: float = 0.0
    """A picture stays dark where it is less likely than this that anything in it sounds; 0 leaves none dark."""
    sharp: bool = True
    """Let maps follow the edges of the picture (a guided filter)."""

    # What is minimised
    strong_cells: int = 16
    """Cells of a single clip's picture that are compared with sounds in stage 1: those with the strongest features."""
    most_sounds: int = 3
    """Most sounds that stage 1 mixes, 1 to 3."""
    explaining: float = 0.0
    """Weight in stage 1 of how well each picture explains what the others that sound leave over; 0 leaves it out."""
    window_s: float = 2.0
    """Length of a sound in stage 1."""
    augment: bool = True
    """Change every sound as other rooms, microphones and codecs would."""
    blank: int = 2
    """Bands, and as many spans of time, that are blanked in each spectrogram trained on (SpecAugment)."""
    frozen_layers: int = 3
    """First layers of YAMNet that stay as they were."""

    # For how long
    stage: Literal["one", "two", "both"] = "both"
    """Stage 1, stage 2 (from a stage-1 checkpoint), or one after the other."""
    steps_one: int = 2400
    """Optimiser steps of stage 1."""
    steps_two: int = 250
    """Optimiser steps of stage 2."""
    batch_size: int = 80
    """Clips per step of stage 1, over all processes."""
    batch_size_two: int = 64
    """Clips per step of stage 2, over all processes; the pictures made of them are heard in five ways each."""
    learning_rate: float = 3e-4
    """Highest learning rate of the audio encoder."""
    head_rate: float = 6.0
    """How many times as fast heads learn."""
    learning_rate_two: float = 0.2
    """Highest learning rate of stage 2."""
    weight_decay: float = 1e-2
    """Of AdamW."""
    warmup_steps: int = 30
    """Steps over which the learning rate rises from 0."""
    clip_norm: float = 5.0
    """Largest norm of the gradient."""

    training: ClassVar[frozenset[str]] = frozenset(
        {
            *("strong_cells", "most_sounds", "window_s", "augment", "blank", "frozen_layers", "stage", "steps_one"),
            *("explaining", "steps_two", "batch_size", "batch_size_two", "learning_rate", "head_rate"),
            *("learning_rate_two", "weight_decay", "warmup_steps", "clip_norm"),
        }
    )
    changeable: ClassVar[frozenset[str]] = frozenset(
        {"steps_one", "steps_two", "learning_rate", "learning_rate_two", "clip_norm"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(1, self, "guesses", "ears", "strong_cells", "most_sounds", "steps_one", "steps_two")
        require_least(0, self, "others", "explaining")
        require(0 <= self.dark < 1, "dark", self.dark, "from 0 to less than 1")
        require(self.most_sounds <= 3, "most_sounds", self.most_sounds, "3 or less")
        for name in ("batch_size", "batch_size_two"):
            require(getattr(self, name) >= 2, name, getattr(self, name), "2 or more: sounds are told apart in a batch")
        own = self.audio == "yamnet"
        require((self.spectrogram == "yamnet") == own, "spectrogram", self.spectrogram, f"one that {self.audio} hears")
        require(own or not self.frozen_layers, "frozen_layers", self.frozen_layers, f"0 with {self.audio}")
        require_positive(self, "softness", "window_s", "learning_rate", "learning_rate_two", "head_rate")

    @property
    def counts(self) -> bool:
        """See `MethodConfig`."""
        return self.explain

    def trained_like(self, other: MethodConfig) -> WideConfig:
        """See `MethodConfig`; a network that is trained again gets its second stage back."""
        return replace(super().trained_like(other), explain=True)

    def lasting(self, steps: int) -> Self:
        """See `MethodConfig`."""
        one, two = {"steps_one": (self.steps_one, 1)}, {"steps_two": (self.steps_two, 1)}
        shares: dict[str, Any] = share_out(steps, {"one": one, "two": two}.get(self.stage, {**one, **two}))
        return replace(self, **shares)


NAMED: dict[str, WideConfig] = {"scav-wide": WideConfig(others=256, apart=True, dark=0.2)}
"""The named models."""
