"""Two encoders, a projection of each into one space, and the object prior that may join the map: EZ-VSL and FNAC.

The object prior is where an ImageNet encoder is most active, whatever sounds: it does not listen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import nn

from soundwhere.config import require, require_positive
from soundwhere.errors import ConfigError
from soundwhere.methods.method import Control
from soundwhere.methods.two_encoders import SOLO, TwoEncoders, TwoEncodersConfig, one_map
from soundwhere.models.encoders import build_visual, freeze
from soundwhere.models.encoders.weights import load_weights
from soundwhere.models.similarity import normalise_range, prepare
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

Maps = Literal["avl", "ogl", "avl+ogl"]


@dataclass(frozen=True)
class ProjectedConfig(TwoEncodersConfig):
    """What is shown, and how closely cells and sounds are compared."""

    augment: str = "crop-flip"
    temperature: float = 0.03
    """Of the contrast."""
    dropout: float = 0.0
    """Share of the visual features that are dropped before they are projected, while training."""
    maps: Maps = "avl+ogl"
    """The audio-visual map, the object prior, or both."""
    sound_share: float = 0.4
    """Weight of the audio-visual map in both."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {"temperature", "dropout"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "temperature")
        require(0 <= self.dropout < 1, "dropout", self.dropout, "at least 0 and less than 1")
        require(0 <= self.sound_share <= 1, "sound_share", self.sound_share, "between 0 and 1")
        if self.maps != "avl" and self.visual_weights == "none":
            raise ConfigError(
                "The object prior is made by a visual encoder with weights, and visual_weights is none.",
                "Set --visual-weights imagenet, or --maps avl.",
            )


class Projected(TwoEncoders):
    """Unit cells and unit sounds in one space; the map is their cosine, alone or with the object prior.

    What it sees are the encoder's features and, where the encoder is trained and an object prior is shown, a last
    channel with the prior, which an encoder that stays as it was makes of the picture.
    """

    config: ProjectedConfig
    controls: ClassVar[tuple[Control, ...]] = (
        SOLO,
        Control("AVL", "training-free", lambda network, seen, heard, _: network.compare(seen, heard)[:, None]),
        Control("OGL", "training-free", lambda network, seen, heard, _: network.prior(seen)[:, None]),
    )
    published: ClassVar[Mapping[str, str]] = {
        "imgnet.": "visual.",
        "audnet.": "audio.",
        "img_proj.": "project_visual.",
        "aud_proj.": "project_audio.",
    }
    unpublished: ClassVar[tuple[str, ...]] = ("objects.",)

    def __init__(self, config: ProjectedConfig) -> None:
        super().__init__(config)
        seen, heard = self.channels
        self.dropout = nn.Dropout(config.dropout)
        self.project_visual = nn.Conv2d(seen, config.dimension, 1)
        self.project_audio = nn.Linear(heard, config.dimension)
        start_projections(self.project_visual, self.project_audio)
        self.objects: nn.Module | None = None
        if config.maps != "avl" and not config.freeze_visual:
            self.objects = freeze(build_visual(config.visual, config.fine_grid))

    def load_pretrained(self, download: bool) -> None:
        """Load the weights that the encoders start from, and those of the encoder that makes the object prior."""
        super().load_pretrained(download)
        self.complete(download)

    def complete(self, download: bool) -> None:
        """Load the weights of the encoder that makes the object prior."""
        if self.objects is not None:
            load_weights(self.objects, self.config.visual, self.config.visual_weights, download=download)

    def see(self, image: Tensor) -> Tensor:
        """The features of pictures (B, 3, H, W), and the object prior, if it takes another encoder and is shown."""
        seen = super().see(image)
        if self.objects is None or self.training:
            return seen
        return torch.cat([seen, object_prior(self.objects(image))[:, None]], dim=1)

    def cells(self, seen: Tensor) -> Tensor:
        """Unit cells v, shape (B, D, h, w)."""
        return prepare(self.project_visual(self.dropout(seen[:, : self.channels[0]])), "cosine")

    def sounds(self, heard: Tensor) -> Tensor:
        """Unit sounds a, shape (B, D)."""
        return prepare(self.project_audio(heard), "cosine")

    def compare(self, seen: Tensor, heard: Tensor) -> Tensor:
        """The audio-visual map: the cosine of the sound to every cell, shape (B, h, w)."""
        return torch.einsum("bdhw,bd->bhw", self.cells(seen), self.sounds(heard))

    def prior(self, seen: Tensor) -> Tensor:
        """The object prior, shape (B, h, w): of the encoder that stays as it was, if there is one, else of the eye."""
        channels = self.channels[0]
        return seen[:, channels] if seen.shape[1] > channels else object_prior(seen)

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The configured map; how surely it shows a source is read from the audio-visual map alone."""
        similarity = self.compare(seen, heard)
        found = one_map(similarity, self.sounds(heard))
        if self.config.maps == "avl":
            return found
        share = 0.0 if self.config.maps == "ogl" else self.config.sound_share
        maps = with_objects(similarity, self.prior(seen), share)
        return Localisation(maps[:, None], found.confidence, found.embeddings)


def object_prior(features: Tensor) -> Tensor:
    """The mean over channels of |features| (B, C, h, w), shape (B, h, w)."""
    return features.abs().mean(1)


def with_objects(similarity: Tensor, prior: Tensor, share: float) -> Tensor:
    """Both maps (B, h, w) stretched to [0, 1], weighted with `share` and 1 - `share`, and stretched again."""
    return normalise_range(share * normalise_range(similarity) + (1 - share) * normalise_range(prior))


def start_projections(*layers: nn.Module) -> None:
    """Draw projections as published: convolutions after He (fan out), linear layers normal, cut, sd 0.01."""
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(layer, nn.Linear):
            nn.init.trunc_normal_(layer.weight, std=0.01)
