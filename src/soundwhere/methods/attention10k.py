"""Attention10k: a sound attends to cells, and what it attends to must tell the sound from another.

Senocak, Oh, Kim, Yang and Kweon, Learning to Localize Sound Source in Visual Scenes, CVPR 2018
(github.com/ardasnck/learning_to_localize_sound_source), whose sound features are SoundNet's, kept as they are; and the
re-write with a learned sound encoder in github.com/DTaoo/Discriminative-Sounding-Objects-Localization. Deviations:
neither VGG-16 nor SoundNet is at hand, so the original head stands on other encoders, whose width it takes; pairs that
do not match are of any other clip. Maps are the attention before it is normalised over cells.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.errors import ConfigError
from soundwhere.losses.pairs import margin_loss, with_strangers
from soundwhere.methods.published import two_stem_resnets
from soundwhere.methods.single_stage import SingleStageMethod
from soundwhere.methods.two_encoders import TwoEncoders, TwoEncodersConfig, one_map, same_width
from soundwhere.models.encoders import freeze
from soundwhere.models.similarity import similarity_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from soundwhere.types import Batch, Localisation


@dataclass(frozen=True)
class Attention10kConfig(TwoEncodersConfig):
    """The defaults are the re-write as published; `attention10k-original` has the original head."""

    family: Literal["attention10k"] = "attention10k"
    name: str = "attention10k"
    head: Literal["rewrite", "original"] = "rewrite"
    """The re-write, or the original head."""
    freeze_audio: bool = False
    """Keep the audio encoder as it is, as SoundNet was; the original loss would else have it forget what it hears."""
    fine_grid: bool = True
    spectrogram: str = "dsol"
    augment: str = "crop-flip-colour"
    batch_size: int = 32
    weight_decay: float = 1e-4
    margin: float = 10.0
    """Of the re-write: the distance from which on pairs that do not match are left alone."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {"margin"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.freeze_audio and self.audio_weights == "none":
            raise ConfigError(
                "A sound encoder that stays as it is needs weights, and audio_weights is none.",
                "Give a file with --audio-weights, or `visual` for those of a visual encoder of the same kind.",
            )
        if self.head == "original" and not self.freeze_audio:
            raise ConfigError(
                "The original head compares pictures with the very features of the sound, which must stay as they are.",
                "Add --freeze-audio, or choose --head rewrite.",
            )


class Attention(NamedTuple):
    """What a sound attends to: scores of cells (B, h, w), their softmax (B, h, w), and a code z of what was seen."""

    scores: Tensor
    weights: Tensor
    code: Tensor


class AttentionNetwork(TwoEncoders):
    """One map: how much a sound attends to each cell."""

    config: Attention10kConfig

    def __init__(self, config: Attention10kConfig) -> None:
        super().__init__(config)
        if config.freeze_audio:
            freeze(self.audio)

    @abstractmethod
    def attend(self, seen: Tensor, heard: Tensor) -> Attention:
        """What sounds (B, C') attend to in features (B, C, h, w)."""

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The attention as a map: an exponential of the score, from 0 where it is 0 to 1 where it is 1.

        Stretched to [0, 1] it is what the softmax over cells is, which itself depends on how many cells there are.
        """
        scores = self.attend(seen, heard).scores
        return one_map(scores.expm1() / math.expm1(1), heard)


class Original(AttentionNetwork):
    """The head of the paper: h = unit(W2 relu(W1 relu(s))), softmax of relu(cos), z = W4 relu(W3 relu(mean))."""

    published: ClassVar[Mapping[str, str]] = {}  # they hold VGG-16, and no sound encoder

    def __init__(self, config: Attention10kConfig) -> None:
        super().__init__(config)
        seen, heard = self.channels
        self.sound_fc1, self.sound_fc2 = nn.Linear(heard, heard), nn.Linear(heard, seen)
        self.vision_fc1, self.vision_fc2 = nn.Linear(seen, seen), nn.Linear(seen, heard)

    def attend(self, seen: Tensor, heard: Tensor) -> Attention:
        """Cells are compared as unit vectors and averaged as they are."""
        query = self.sound_fc2(self.sound_fc1(heard.relu()).relu())
        scores = similarity_map(seen, query).relu()
        weights = scores.flatten(1).softmax(1).reshape(scores.shape)
        attended = torch.einsum("bchw,bhw->bc", seen, weights)
        return Attention(scores, weights, self.vision_fc2(self.vision_fc1(attended.relu()).relu()))


class Rewrite(AttentionNetwork):
    """The re-write: a = unit(relu(W2 relu(W1 f))), softmax of cos, z = relu(W4 relu(W3 mean of unit cells))."""

    published: ClassVar[Mapping[str, str]] = {
        **two_stem_resnets("visual_net.", "audio_net."),
        **{f"{part}.": f"{part}." for part in ("fc_v_1", "fc_v_2", "fc_a_1", "fc_a_2")},
        "fc_av.": "-",
    }

    def __init__(self, config: Attention10kConfig) -> None:
        super().__init__(config)
        same_width(self)
        width, _ = self.channels
        self.fc_v_1, self.fc_v_2, self.fc_a_1, self.fc_a_2 = (nn.Linear(width, width) for _ in range(4))

    def attend(self, seen: Tensor, heard: Tensor) -> Attention:
        """Cells are compared and averaged as unit vectors."""
        query = self.fc_a_2(self.fc_a_1(heard).relu()).relu()
        scores = similarity_map(seen, query)
        weights = scores.flatten(1).softmax(1).reshape(scores.shape)
        attended = torch.einsum("bchw,bhw->bc", F.normalize(seen, dim=1), weights)
        return Attention(scores, weights, self.fc_v_2(self.fc_v_1(attended).relu()).relu())


def distance_ratio_loss(code: Tensor, own: Tensor, other: Tensor) -> Tensor:
    """The code of a picture must be nearer to its own sound than to another.

    Args:
        code: z, shape (B, D).
        own: Features of its own sound, shape (B, D).
        other: Those of another, shape (B, D).

    Returns:
        The mean of q+^2 and (q- - 1)^2, where (q+, q-) is the softmax of both distances.
    """
    distances = torch.stack([F.pairwise_distance(code, own), F.pairwise_distance(code, other)], dim=1)
    ratio = distances.softmax(1)
    return F.mse_loss(ratio, torch.tensor([0.0, 1.0]).to(ratio).expand_as(ratio))


def annotation_loss(weights: Tensor, annotation: Tensor, weight: Tensor) -> Tensor:
    """Cross-entropy of the attention with where people say the source is, for whoever has such maps to train with.

    Args:
        weights: The attention, shape (B, h, w).
        annotation: Shape (B, h * w).
        weight: Of each picture; 0 for one without annotation, shape (B,).
    """
    return -((annotation * weights.flatten(1).log()).sum(1) * weight).mean()


def loss(network: AttentionNetwork, batch: Batch) -> dict[str, Tensor]:
    """Pictures attended to by a sound, told from those of another clip."""
    seen, heard = network.perceive(batch)
    if network.config.head == "original":
        return {"loss": distance_ratio_loss(network.attend(seen, heard).code, heard, heard.roll(1, 0))}
    pictures, sounds, match = with_strangers(seen, heard)
    code = network.attend(pictures, sounds).code
    squared = (code - sounds).square().sum(1)
    return {"loss": margin_loss(squared, match, network.config.margin), "distance": squared.sqrt().mean()}


ORIGINAL = Attention10kConfig(
    name="attention10k-original",
    head="original",
    freeze_visual=True,
    freeze_audio=True,
    audio_weights="visual",
    pooling="average",
    augment="none",
    batch_size=30,
    weight_decay=0.0,
)

METHOD = SingleStageMethod(
    Attention10kConfig,
    lambda config: (Original if config.head == "original" else Rewrite)(config),
    loss,
    others={ORIGINAL.name: ORIGINAL},
)
