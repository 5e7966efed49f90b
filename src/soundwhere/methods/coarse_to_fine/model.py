"""CoarseToFine's settings and network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from torch.nn import functional as F

from soundwhere.config import require_least, require_positive, share_out
from soundwhere.methods.classes import choose_classes, require_classes, taken
from soundwhere.methods.coarse_to_fine.classes import (
    ClassVectors,
    Matcher,
    alignment_loss,
    class_maps,
    matching_loss,
    pair_filter,
    whole_map,
)
from soundwhere.methods.published import two_stem_resnets
from soundwhere.methods.several import ClassMaps
from soundwhere.methods.two_encoders import TwoEncodersConfig, one_map
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from soundwhere.methods.method import Given


@dataclass(frozen=True)
class CoarseToFineConfig(TwoEncodersConfig):
    """The defaults are as published: 20 epochs of each stage."""

    family: Literal["coarse-to-fine"] = "coarse-to-fine"
    name: str = "coarse-to-fine"
    frame_px: int = 256
    fine_grid: bool = True
    """A 16 x 16 grid instead of 8 x 8 for a frame of 256; ResNet-18 hears finer, too."""
    spectrogram: str = "coarse_to_fine"
    augment: str = "flip"
    dimension: int = 128
    """Channels of the class vectors."""
    hidden: int = 1024
    """Channels of the layer before them."""
    matcher_hidden: int = 128
    """Channels between, where sound and picture are matched."""
    classes: tuple[str, ...] = ()
    """Names of the classes, in the order of their numbers; taken from the clips trained on."""
    least: float = 0.3
    """Probability above which a class is there."""
    margin: float = 1.4
    """Distance from which on vectors of different classes are far enough."""
    stage: Literal["one", "two", "both"] = "both"
    """Stage 1, stage 2 (from a stage-1 checkpoint), or one after the other."""
    steps: int = 20_000
    """Optimiser steps of stage 1."""
    steps_two: int = 20_000
    """Optimiser steps of stage 2."""
    batch_size: int = 16
    learning_rate: float = 1e-3
    """Initial learning rate of stage 1."""
    learning_rate_two: float = 1e-4
    """Initial learning rate of stage 2."""
    optimiser: Literal["adam", "adamw", "sgd"] = "sgd"
    momentum: float = 0.9
    weight_decay: float = 5e-4
    """Added to the gradient."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {
        *("least", "margin", "stage", "steps_two", "learning_rate_two"),
    }
    changeable: ClassVar[frozenset[str]] = TwoEncodersConfig.changeable | {"steps_two", "learning_rate_two"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(1, self, "hidden", "matcher_hidden", "steps_two")
        require_least(2, self, "batch_size")
        require_positive(self, "learning_rate_two")

    def lasting(self, steps: int) -> Self:
        """See `MethodConfig`."""
        one, two = {"steps": (self.steps, 1)}, {"steps_two": (self.steps_two, 1)}
        shares: dict[str, Any] = share_out(steps, {"one": one, "two": two}.get(self.stage, {**one, **two}))
        return replace(self, **shares)


class CoarseToFine(ClassMaps):
    """The map of a class: its vector from the sound, against every cell. What it hears is the map of the sound."""

    config: CoarseToFineConfig
    needs = frozenset({"labels"})
    published: ClassVar[Mapping[str, str]] = {
        **two_stem_resnets("vision.", "audio."),
        "avc.": "matcher.layers.",
        "class_a.": "heard_classes.classifier.",
        "class_v.": "seen_classes.classifier.",
        "project_a.": "heard_classes.project.",
        "project_v.": "seen_classes.project.",
    }

    def __init__(self, config: CoarseToFineConfig) -> None:
        super().__init__(config)
        require_classes(config, config.classes)
        visual, audio = self.channels
        classes = len(config.classes)
        self.matcher = Matcher(visual + audio, config.matcher_hidden)
        self.seen_classes = ClassVectors(visual, classes, config.hidden, config.dimension)
        self.heard_classes = ClassVectors(audio, classes, config.hidden, config.dimension)

    def embed(self, spectrogram: Tensor) -> Tensor:
        """Encode spectrograms (B, 1, F, T) into maps of sound, shape (B, C', f, t)."""
        heard: Tensor = self.audio(spectrogram)
        return heard

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The maps of the labelled classes, or without labels of those that are heard most surely.

        One map without labels is that of the whole picture.
        """
        count = sources or self.sources
        logits, vectors = self.heard_classes.logits(heard), self.heard_classes(heard)
        maps = class_maps(vectors, self.seen_classes.cells(seen))
        if count == 1 and (given is None or given.labels is None):
            return one_map(whole_map(maps, logits), vectors.mean(2))
        chosen = choose_classes(logits, self.config.classes, given, count)
        return Localisation(
            taken(maps, chosen), taken(logits.sigmoid(), chosen), taken(vectors.transpose(1, 2), chosen)
        )

    def coarse_loss(self, seen: Tensor, heard: Tensor, seen_labels: Tensor, heard_labels: Tensor) -> Tensor:
        """Stage 1: what belongs together, and which classes there are.

        Args:
            seen: Features of pictures, shape (B, C, h, w).
            heard: Maps of sounds, shape (B, C', f, t).
            seen_labels: Classes in the pictures, ones among zeros, shape (B, K).
            heard_labels: Classes in the sounds.
        """
        matching = matching_loss(self.matcher(heard.mean((2, 3)), seen.mean((2, 3))))
        pictures = F.binary_cross_entropy_with_logits(self.seen_classes.logits(seen), seen_labels)
        sounds = F.binary_cross_entropy_with_logits(self.heard_classes.logits(heard), heard_labels)
        return matching + pictures + sounds

    def fine_loss(self, seen: Tensor, heard: Tensor) -> Tensor:
        """What stage 2 adds: vectors of classes that are both seen and heard, aligned."""
        kept = pair_filter(self.heard_classes.logits(heard), self.seen_classes.logits(seen), self.config.least)
        return alignment_loss(self.heard_classes(heard), self.seen_classes(seen), kept.detach(), self.config.margin)
