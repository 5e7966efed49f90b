"""A second method, as small as one can be: where does the picture resemble the sound?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from soundwhere.config import Thresholds
from soundwhere.losses.contrastive import infonce_loss
from soundwhere.media.spectrogram import log_spectrogram
from soundwhere.methods.method import Network
from soundwhere.methods.single_stage import SingleStageConfig, SingleStageMethod
from soundwhere.models.encoders import build_audio, build_visual
from soundwhere.models.similarity import prepare, similarity_map
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.types import Batch


@dataclass(frozen=True)
class ToyConfig(SingleStageConfig):
    """Two small encoders, trained from scratch."""

    family: Literal["toy"] = "toy"
    name: str = "toy"
    frame_px: int = 64


class Toy(Network):
    """One map: the cosine of the sound to every cell."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.visual, self.audio = build_visual("tiny"), build_audio("tiny")

    def spectrogram(self, sound: Tensor) -> Tensor:
        return log_spectrogram(sound, "mel")

    def embed(self, spectrogram: Tensor) -> Tensor:
        return self.audio(spectrogram).mean((2, 3))

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        maps = similarity_map(seen, heard)[:, None]
        return Localisation(maps, maps.amax((2, 3)).clamp(0, 1), heard[:, None])


def contrast(network: Toy, batch: Batch) -> dict[str, Tensor]:
    seen, heard = network.seen(batch), network.hear(batch.mixture)
    return {"loss": infonce_loss(prepare(seen, "cosine"), prepare(heard, "cosine"), Thresholds())}


METHOD = SingleStageMethod(ToyConfig, Toy, contrast)
