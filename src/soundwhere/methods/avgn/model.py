"""AVGN's network, and what it minimises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.config import positive_multiple, require, require_positive
from soundwhere.data.training_scenes import Needs
from soundwhere.losses.max_cell import both_ways, max_cell_logits
from soundwhere.methods.avgn.grouping import ClassTokens
from soundwhere.methods.classes import choose_classes, require_classes, several_hot, taken, with_classes
from soundwhere.methods.projected import start_projections
from soundwhere.methods.several import ClassMaps
from soundwhere.methods.single_stage import SingleStageMethod
from soundwhere.methods.two_encoders import TwoEncodersConfig, pool
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from soundwhere.methods.method import Given
    from soundwhere.types import Batch


@dataclass(frozen=True)
class AVGNConfig(TwoEncodersConfig):
    """The defaults are as published: 100 epochs."""

    family: Literal["avgn"] = "avgn"
    name: str = "avgn"
    augment: str = "crop-flip"
    batch_size: int = 128
    """Clips per optimiser step, over all processes."""
    classes: tuple[str, ...] = ()
    """Names of the classes, in the order of their numbers; taken from the clips trained on."""
    depth: int = 3
    """Blocks in which tokens and positions look at each other."""
    token_heads: int = 8
    """Heads of the attention."""
    drop: float = 0.1
    """Share of items for which a branch of a block is left out in training."""
    temperature: float = 0.03
    """Of the contrast."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {"drop", "temperature"}

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = positive_multiple(self.dimension, self.token_heads)
        require(fits, "dimension", self.dimension, f"a multiple of the {self.token_heads} attention heads")
        require(0 <= self.drop < 1, "drop", self.drop, "at least 0 and less than 1")
        require_positive(self, "temperature")


class Losses(NamedTuple):
    """The three losses, scalars."""

    localisation: Tensor
    token: Tensor
    presence: Tensor


class AVGN(ClassMaps):
    """The map of a class: what its token took from the sound, against every cell.

    Heads are called as in the published checkpoints. What it hears are the tokens of all classes, shape (B, K, D).
    """

    config: AVGNConfig
    needs = frozenset({"labels"})
    published: ClassVar[Mapping[str, str]] = {
        "imgnet.": "visual.",
        "audnet.": "audio.",
        **{
            name: name
            for name in (
                *("img_proj.", "aud_proj.", "av_token", "audio_encoder.", "visual_encoder."),
                *("fc_prob_a.", "fc_prob_v.", "fc_cls."),
            )
        },
    }

    def __init__(self, config: AVGNConfig) -> None:
        super().__init__(config)
        require_classes(config, config.classes)
        seen, heard = self.channels
        width, classes = config.dimension, len(config.classes)
        self.img_proj, self.aud_proj = nn.Conv2d(seen, width, 1), nn.Linear(heard, width)
        start_projections(self.img_proj)
        self.av_token = nn.Parameter(torch.zeros(classes, width))
        self.audio_encoder, self.visual_encoder = (
            ClassTokens(width, classes, config.depth, config.token_heads, config.drop) for _ in range(2)
        )
        self.fc_prob_a, self.fc_prob_v = nn.Linear(width, 1), nn.Linear(width, 1)
        self.fc_cls = nn.Linear(width, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)

    def cells(self, seen: Tensor) -> Tensor:
        """Unit cells v, shape (B, D, h, w)."""
        return F.normalize(self.img_proj(seen), dim=1)

    def sound_tokens(self, heard: Tensor) -> Tensor:
        """What the token of every class takes from pooled sounds (B, C'), shape (B, K, D)."""
        sound = F.normalize(self.aud_proj(heard), dim=1)
        found: Tensor = self.audio_encoder(sound[:, None], self.av_token)
        return found

    def picture_tokens(self, cells: Tensor) -> Tensor:
        """The same from unit cells (B, D, h, w)."""
        found: Tensor = self.visual_encoder(cells.flatten(2).transpose(1, 2), self.av_token)
        return found

    def embed(self, spectrogram: Tensor) -> Tensor:
        """What every class takes from spectrograms (B, 1, F, T), shape (B, K, D)."""
        return self.sound_tokens(pool(self.audio(spectrogram), self.config.pooling))

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The maps of the labelled classes, or without labels of those that are heard most surely."""
        presence = self.fc_prob_a(heard)[..., 0].sigmoid()
        chosen = choose_classes(presence, self.config.classes, given, sources or self.sources)
        tokens = taken(heard, chosen)
        maps = class_maps(self.cells(seen), F.normalize(tokens, dim=-1))
        return Localisation(maps, taken(presence, chosen), tokens)

    def losses(self, cells: Tensor, tokens: Tensor, labels: Tensor) -> Losses:
        """What is minimised.

        Args:
            cells: Unit cells, shape (B, D, h, w).
            tokens: What classes take from the mixtures, shape (B, K, D).
            labels: Classes of the picture and its sound, and of the sound that was added, shape (B, 2).
        """
        classes = len(self.av_token)
        shown, sounding = several_hot(labels[:, :1], classes).to(tokens), several_hot(labels, classes).to(tokens)
        seen = self.fc_prob_v(self.picture_tokens(cells))[..., 0]
        heard = self.fc_prob_a(tokens)[..., 0]
        own = taken(tokens, labels[:, :1])[:, 0]
        return Losses(
            both_ways(max_cell_logits(cells, own, self.config.temperature)),
            F.cross_entropy(self.fc_cls(self.av_token), torch.arange(classes, device=tokens.device)),
            F.binary_cross_entropy_with_logits(seen, shown) + F.binary_cross_entropy_with_logits(heard, sounding),
        )


def class_maps(cells: Tensor, tokens: Tensor) -> Tensor:
    """Tokens (B, K, D) against cells (B, D, h, w), shape (B, K, h, w)."""
    return torch.einsum("bdhw,bkd->bkhw", cells, tokens)


def partners(labels: Tensor) -> Tensor:
    """For each item the next one of the batch, in a circle, that is of another class; itself where there is none.

    Args:
        labels: Numbers of classes, shape (B,).

    Returns:
        Numbers of items, shape (B,).
    """
    count = len(labels)
    ahead = (torch.arange(count, device=labels.device)[:, None] + torch.arange(count, device=labels.device)) % count
    other = labels[ahead] != labels[:, None]  # by how far ahead
    first = torch.where(other.any(1), other.to(torch.int8).argmax(1), 0)
    return ahead.gather(1, first[:, None])[:, 0]


def loss(network: AVGN, batch: Batch) -> dict[str, Tensor]:
    """The sum of the three losses."""
    assert batch.labels is not None
    labels = batch.labels[:, 0]
    added = partners(labels)
    tokens = network.embed(network.listen(batch.mixture + batch.mixture[added]))
    found = network.losses(network.cells(network.watch(batch)), tokens, torch.stack([labels, labels[added]], dim=1))
    return {"loss": found.localisation + found.token + found.presence, **found._asdict()}


METHOD = SingleStageMethod(
    AVGNConfig, AVGN, loss, lambda _: Needs(sounds=1, separate=True, labels=True), check=with_classes
)
