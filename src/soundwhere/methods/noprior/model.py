"""NoPrior's network, and what it minimises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.config import Thresholds, require_least
from soundwhere.data.training_scenes import Needs
from soundwhere.errors import ConfigError
from soundwhere.losses.contrastive import infonce_loss
from soundwhere.methods.noprior.identification import (
    Rules,
    background_of,
    distances_between,
    group,
    identify,
    object_loss,
    object_maps,
)
from soundwhere.methods.several import SeveralMaps
from soundwhere.methods.single_stage import SingleStageMethod
from soundwhere.methods.two_encoders import TwoEncodersConfig, same_width
from soundwhere.models.similarity import normalise_range
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.methods.method import Given, Step
    from soundwhere.types import Batch


@dataclass(frozen=True)
class NoPriorConfig(TwoEncodersConfig):
    """The defaults are as published: 100 epochs."""

    family: Literal["noprior"] = "noprior"
    name: str = "noprior"
    freeze_visual: bool = True
    augment: str = "crop"
    batch_size: int = 128
    flow: Literal["still", "none"] = "still"
    """What stands for optical flow: the same flow everywhere, which makes its attention even, or no attention."""
    mixing: Literal["spectrograms", "waveforms"] = "spectrograms"
    """What is heard in training: the mean of the sounds' log-spectrograms, as published, or the mixed sound."""
    reading: Literal["objects", "iterations"] = "objects"
    """What a map is: an object, which is a group of alike seeds, or an iteration, as the dual-source reproduction in
    the paper of SCAV reads it."""
    objects: int = 2
    """How many maps are given unless another number is asked for."""
    thresholds: Thresholds = Thresholds()  # noqa: RUF009 - frozen
    """Of source and background."""
    stop: float = 0.1
    """Similarity below which nothing is looked for."""
    background_cosine: float = 0.7
    """Cosine to the background above which a seed is background."""
    merge_cosine: float = 0.6
    """Cosine above which two seeds are one object."""
    object_weight: float = 1.0
    """Weight of the object loss."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {"mixing", "object_weight"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(1, self, "objects")
        require_least(0, self, "object_weight")

    @property
    def rules(self) -> Rules:
        """When identification ends, and what belongs together."""
        return Rules(self.stop, self.background_cosine, self.merge_cosine)


class FlowAttention(nn.Module):
    """Cells ask where else there is the motion they look for, and take what is seen there.

    Args:
        channels: C.
        flow: Whether there will be flow; without, all cells take the mean, and nothing is asked.
    """

    def __init__(self, channels: int, flow: bool) -> None:
        super().__init__()
        self.query_conv, self.key_conv = (
            nn.Conv2d(channels, max(1, channels // 8), 1) if flow else None for _ in range(2)
        )
        self.value_conv = nn.Conv2d(channels, channels, 1)

    def forward(self, features: Tensor, flow: Tensor | None = None) -> Tensor:
        """Unit cells (B, C, h, w) of features and, where there is any, features of the flow, both of that shape."""
        values = self.value_conv(features).flatten(2)
        if flow is None or self.query_conv is None or self.key_conv is None:
            taken = values.mean(2)[..., None, None]
        else:
            query, key = self.query_conv(features).flatten(2), self.key_conv(flow).flatten(2)
            attention = (query.transpose(1, 2) @ key * query.shape[1] ** -0.5).softmax(-1)
            taken = (values @ attention.transpose(1, 2)).reshape(features.shape)
        return F.normalize(features + taken, dim=1)


class Objects(NamedTuple):
    """The objects of one scene, in the order they were found.

    Attributes:
        maps: Minus the mean distance to an object's seeds, shape (objects, h, w).
        confidence: Similarity of its first seed to the sound, shape (objects,), in [0, 1].
        vectors: What is seen in the seed that stands for it, of unit length, shape (objects, C).
    """

    maps: Tensor
    confidence: Tensor
    vectors: Tensor


class NoPrior(SeveralMaps):
    """Gives as many maps as there are objects that sound; padded with empty ones, or cut, to the number asked for."""

    config: NoPriorConfig

    def __init__(self, config: NoPriorConfig) -> None:
        super().__init__(config)
        same_width(self)
        self.attention = FlowAttention(self.channels[0], flow=False) if config.flow == "still" else None

    @property
    def sources(self) -> int:
        """How many maps are given unless another number is asked for."""
        return self.config.objects

    @property
    def note(self) -> str:
        """What maps are, and that there was no flow."""
        return f"maps of {self.config.reading}; no flow"

    @property
    def steps(self) -> tuple[Step, ...]:
        """None: what is exported must take as long for every scene."""
        raise ConfigError(
            "NoPrior takes as many iterations as a scene needs, and an ONNX file cannot.",
            "Use the model as it is: --runtime torch.",
        )

    def attend(self, seen: Tensor) -> Tensor:
        """Unit cells v, shape (B, C, h, w)."""
        return F.normalize(seen, dim=1) if self.attention is None else self.attention(seen)

    def every_object(self, seen: Tensor, heard: Tensor) -> list[Objects]:
        """All objects that sound, of each scene, however many there are.

        Args:
            seen: From `see`.
            heard: From `hear`.
        """
        grid = seen.shape[-2:]
        cells, similarity, background = signals(self.attend(seen), F.normalize(heard, dim=1), self.config.thresholds)
        found = identify(cells, similarity, background, self.config.stop)
        distances = distances_between(cells)
        answers = []
        for number, vectors in enumerate(found.vectors):
            real = vectors.any(-1)
            vectors, seeds = vectors[real], found.seeds[number][real]
            groups = list(range(len(vectors)))
            if self.config.reading == "objects":
                groups = group(vectors, background[number], self.config.rules)
            keys = [key for key in dict.fromkeys(groups) if key >= 0]
            maps = object_maps(distances[number][:, seeds].T, groups).reshape(-1, *grid)
            first = [groups.index(key) for key in keys]
            surety = similarity[number][seeds[first]].clamp(0, 1)
            answers.append(Objects(maps, surety, F.normalize(vectors[keys], dim=1)))
        return answers

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The maps of the configured number of objects."""
        return self.localise(seen, heard)

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The maps of the first objects, from 0 to 1; where there are fewer, maps of 0 with confidence 0."""
        count = sources or self.sources
        found = [each._replace(maps=normalise_range(each.maps)) for each in self.every_object(seen, heard)]
        return Localisation(
            *(torch.stack([_filled(part, count) for part in parts]) for parts in zip(*found, strict=True))
        )


def _filled(values: Tensor, count: int) -> Tensor:
    """The first `count` of values (n, ...), and zeros for those that are missing."""
    missing = values.new_zeros(max(0, count - len(values)), *values.shape[1:])
    return torch.cat([values[:count], missing])


def signals(cells: Tensor, sound: Tensor, thresholds: Thresholds) -> tuple[Tensor, Tensor, Tensor]:
    """z, S and b: cells as loud as they resemble the sound (B, N, C), that resemblance (B, N), the background (B, C).

    Args:
        cells: Unit cells v, shape (B, C, h, w).
        sound: Unit sounds, shape (B, C).
        thresholds: Of the background.
    """
    flat = cells.flatten(2).transpose(1, 2)
    similarity = torch.einsum("bnc,bc->bn", flat, sound)
    loud = flat * similarity[..., None]
    return loud, similarity, background_of(loud, similarity, thresholds)


def losses(cells: Tensor, sound: Tensor, thresholds: Thresholds, rules: Rules) -> tuple[Tensor, Tensor]:
    """The contrast of LVS, and the object loss.

    Args:
        cells: Unit cells v, shape (B, C, h, w).
        sound: Unit sounds, shape (B, C).
        thresholds: Of source and background.
        rules: When identification ends, and what belongs together.
    """
    loud, similarity, background = signals(cells, sound, thresholds)
    vectors = identify(loud, similarity, background, rules.stop).vectors
    groups = [group(each, own, rules) for each, own in zip(vectors, background, strict=True)]
    objects = object_loss(vectors, background, torch.tensor(groups, device=vectors.device))
    return infonce_loss(cells, sound, thresholds), objects


def loss(network: NoPrior, batch: Batch) -> dict[str, Tensor]:
    """What is minimised."""
    config = network.config
    seen = network.attend(network.watch(batch))
    if config.mixing == "spectrograms":
        assert batch.solos is not None
        heard = torch.stack([network.listen(solo) for solo in batch.solos.unbind(1)]).mean(0)
    else:
        heard = network.listen(batch.mixture)
    contrast, objects = losses(seen, F.normalize(network.embed(heard), dim=1), config.thresholds, config.rules)
    return {"loss": contrast + config.object_weight * objects, "contrast": contrast, "objects": objects}


def needs(config: NoPriorConfig) -> Needs:
    """Mixtures, whose sounds must be known apart if their spectrograms are mixed."""
    return Needs(sounds=2, separate=config.mixing == "spectrograms")


DUAL = NoPriorConfig(name="noprior-dual", mixing="waveforms", reading="iterations")
"""As the paper of SCAV reproduced it for two sources."""

METHOD = SingleStageMethod(NoPriorConfig, NoPrior, loss, needs, {DUAL.name: DUAL})
