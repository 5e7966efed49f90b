"""What most systems of the field share: an eye, an ear with a pooling, and one map of how cells and sound agree.

A method adds its heads and writes `answer`. Of several sounds at once such a network knows nothing: it gives its one
map of the mixture as often as maps are asked for, or one map for every solo sound. The row of a table says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import torch

from soundwhere.config import require, require_least
from soundwhere.data.features import Eye
from soundwhere.errors import ConfigError
from soundwhere.media.augment import blank
from soundwhere.media.front_ends import check_front_end, hear_as
from soundwhere.media.views import VIEWS, change_views
from soundwhere.methods.method import Control, Given, Network, check_frame
from soundwhere.methods.single_stage import SingleStageConfig
from soundwhere.models.encoders import build_audio, build_visual, freeze
from soundwhere.models.encoders.weights import load_weights
from soundwhere.models.similarity import similarity_map
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from torch import Tensor, nn

    from soundwhere.methods.scav.model import SCAV
    from soundwhere.types import Batch

SOLO: Final = Control("solo sounds", "solo", lambda network, seen, heard, _: network.answer(seen, heard).similarity)
"""Where the network points when it hears one sound alone."""


@dataclass(frozen=True)
class TwoEncodersConfig(SingleStageConfig):
    """The encoders, and how a network with one map answers for several sounds."""

    visual: str = "resnet18"
    """Visual encoder: resnet18, mobilenet_v2, plain or tiny."""
    audio: str = "resnet18"
    """Audio encoder: resnet18, mobilenet_v2, compact, plain or tiny."""
    visual_weights: str = "imagenet"
    """Weights the visual encoder starts from: `imagenet`, `built-in` (from the package), a file, or `none`."""
    audio_weights: str = "none"
    """Weights the audio encoder starts from: `none`, `imagenet`, a file, or `visual`, those of the visual encoder."""
    freeze_visual: bool = False
    """Keep the visual encoder as it is: no gradients, BatchNorm statistics that do not move."""
    fine_grid: bool = False
    """A 14 x 14 grid instead of 7 x 7 for a frame of 224; ResNet-18 hears finer, too."""
    spectrogram: str = "ez_vsl"
    """Preset or published front end."""
    pooling: Literal["average", "max"] = "max"
    """Pooling of the audio encoder's map into one vector."""
    dimension: int = 512
    """Size of the space in which cells and sounds are compared, for methods that project both."""
    queries: Literal["mixture", "solo"] = "mixture"
    """What is asked for when several sounds are mixed: the one map of the mixture, over again, or the map of each sound
    heard alone, which is easier."""
    augment: str = "none"
    """How pictures are changed at random while training; those whose features are cached stay as they are."""
    blank: int = 0
    """Bands, and as many spans of time, that are blanked in each spectrogram trained on (SpecAugment)."""

    training: ClassVar[frozenset[str]] = SingleStageConfig.training | {"augment", "blank"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_front_end(self.spectrogram)
        require_least(1, self, "dimension")
        require_least(0, self, "blank")
        require(self.augment in VIEWS, "augment", self.augment, f"one of {', '.join(VIEWS)}")
        if self.audio_weights == "visual" and self.audio != self.visual:
            raise ConfigError(
                f"The audio encoder ({self.audio}) cannot start from the weights of the visual one ({self.visual}).",
                "Set --audio-weights to none, imagenet or a file.",
            )


class TwoEncoders(Network):
    """A network with `visual` and `audio`; `answer` and whatever heads it takes are left to write.

    What it sees is the visual encoder's map (B, C, h, w); what it hears is the audio encoder's map, pooled (B, C').
    """

    config: TwoEncodersConfig
    controls: ClassVar[tuple[Control, ...]] = (SOLO,)
    audio: nn.Module

    def __init__(self, config: TwoEncodersConfig) -> None:
        super().__init__(config)
        visual, audio = build_visual(config.visual, config.fine_grid), build_audio(config.audio, config.fine_grid)
        check_frame(config, visual.stride)
        self.visual, self.audio = visual, audio
        self.channels: tuple[int, int] = (visual.channels, audio.channels)
        """Widths of what is seen and of what is heard."""
        if config.freeze_visual:
            freeze(self.visual)
        if config.queries == "solo":
            self.needs = frozenset({"sounds"})

    @property
    def note(self) -> str:
        """How one map answers for several sounds."""
        return "solo queries" if "sounds" in self.needs else "same map twice"

    @property
    def eye(self) -> Eye | None:
        """The visual encoder, if it is frozen."""
        return frozen_eye(self)

    def load_pretrained(self, download: bool) -> None:
        """Load the weights that both encoders start from."""
        load_encoders(self, self.audio, download)

    def spectrogram(self, sound: Tensor) -> Tensor:
        """Turn waveforms (B, N) into the spectrograms (B, 1, F, T) of the configured front end."""
        return hear_as(sound, self.config.spectrogram)

    def embed(self, spectrogram: Tensor) -> Tensor:
        """Encode spectrograms (B, 1, F, T) into pooled vectors, shape (B, C')."""
        return pool(self.audio(spectrogram), self.config.pooling)

    def perceive(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What is seen and heard in a batch to train on: changed at random, as the configuration says, in training."""
        return self.watch(batch), self.embed(self.listen(batch.mixture))

    def watch(self, batch: Batch) -> Tensor:
        """What is seen in a batch to train on, shape (B, C, h, w)."""
        picture = self.look(batch)
        return self.seen(batch) if picture is None else self.see(picture)

    def look(self, batch: Batch) -> Tensor | None:
        """The pictures of a batch, changed at random in training; none where their features are cached."""
        if batch.image is None or batch.features is not None:
            return None
        return change_views(batch.image, VIEWS[self.config.augment]) if self.training else batch.image

    def listen(self, sound: Tensor) -> Tensor:
        """The spectrograms of waveforms (B, N), with parts blanked in training, if the configuration says so."""
        spectrogram = self.spectrogram(sound)
        return blank(spectrogram, self.config.blank) if self.training and self.config.blank else spectrogram

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The one map of the mixture as often as asked for, or the map of each sound heard alone."""
        if "sounds" not in self.needs:
            return super().localise(seen, heard, sources)
        if given is None or given.sounds is None:
            raise ConfigError(
                "Solo queries need the separate sounds of a scene.", "Ask with the mixture: --queries mixture."
            )
        maps = [self.answer(seen, self.hear(sound)) for sound in given.sounds.unbind(1)]
        parts = zip(*((found.similarity, found.confidence, found.embeddings) for found in maps), strict=True)
        found = Localisation(*(torch.cat(part, dim=1) for part in parts))
        return found if sources is None else found.of(sources)


class CosineMap(TwoEncoders):
    """One map: the cosine of the sound to every cell, as both encoders give them, which must be of one width."""

    def __init__(self, config: TwoEncodersConfig) -> None:
        super().__init__(config)
        same_width(self)

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The cosine of the sound to every cell."""
        return one_map(similarity_map(seen, heard), heard)


def frozen_eye(network: TwoEncoders | SCAV) -> Eye | None:
    """The visual encoder of a network, if it is frozen."""
    config = network.config
    if not config.freeze_visual:
        return None
    return Eye(config.visual + "-fine" * config.fine_grid, network.visual, network.stride_px)


def load_encoders(network: TwoEncoders | SCAV, audio: nn.Module, download: bool) -> None:
    """Load the weights that the encoders of a network start from, which are those of its eye and of this ear."""
    config = network.config
    load_weights(network.visual, config.visual, config.visual_weights, download=download)
    heard = config.visual_weights if config.audio_weights == "visual" else config.audio_weights
    load_weights(audio, config.audio, heard, download=download)


def pool(cells: Tensor, pooling: Literal["average", "max"]) -> Tensor:
    """The mean or the channel-wise maximum of a map (B, C, f, t), shape (B, C)."""
    return cells.flatten(2).mean(2) if pooling == "average" else cells.flatten(2).amax(2)


def one_map(similarity: Tensor, embedding: Tensor) -> Localisation:
    """The answer of one map (B, h, w) and one embedding (B, D); the confidence of a map is its peak."""
    return Localisation.peaked(similarity[:, None], embedding[:, None])


def same_width(network: TwoEncoders) -> None:
    """Refuse encoders of different widths, for methods that compare their maps as they are."""
    seen, heard = network.channels
    if seen != heard:
        config = network.config
        raise ConfigError(
            f"The method {config.family!r} compares features as they are, but {config.visual} has {seen} channels and "
            f"{config.audio} has {heard}.",
            "Choose encoders of one width, such as resnet18 for both.",
        )
