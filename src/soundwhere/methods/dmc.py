"""DMC: cells of picture and sound are clustered, and the clusters of one clip must find each other.

Hu, Nie and Li, Deep Multimodal Clustering for Unsupervised Audiovisual Learning, CVPR 2019, in the authors' own
simplified version (github.com/DTaoo/Simplified_DMC). Setting `solo` has one cluster of sound and two of picture, `duet`
two and three: sounds, and one more for the background. The number of sounds must be known; the map of source j is the
assignment of the visual cluster nearest to sound cluster j (the release only dumps all assignments). Deviations: pairs
that do not match are of any other clip; the original in Keras, on VGGish and VGG-16, is not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from torch import nn

from soundwhere.config import require_least, require_positive
from soundwhere.data.layout import check_layouts
from soundwhere.data.training_scenes import Needs
from soundwhere.losses.pairs import margin_loss, with_strangers
from soundwhere.methods.published import DROPPED, two_stem_resnets
from soundwhere.methods.single_stage import SingleStageMethod
from soundwhere.methods.two_encoders import TwoEncoders, TwoEncodersConfig, same_width
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from soundwhere.config import Config
    from soundwhere.methods.method import Given
    from soundwhere.types import Batch


@dataclass(frozen=True)
class DMCConfig(TwoEncodersConfig):
    """The defaults are the solo setting as published; `dmc-duet` is the other."""

    family: Literal["dmc"] = "dmc"
    name: str = "dmc"
    visual_weights: str = "none"
    """Weights the visual encoder starts from: `imagenet`, a file, or `none`."""
    fine_grid: bool = True
    spectrogram: str = "dsol"
    augment: str = "crop-flip-colour"
    batch_size: int = 32
    weight_decay: float = 1e-4
    sound_clusters: int = 1
    """How many things sound in a scene."""
    picture_clusters: int = 2
    """How many things are seen, the background among them."""
    hardness: float = 30.0
    """Of assignments: how fast they fall with the distance to a centre, which is not normalised."""
    iterations: int = 4
    """Rounds of clustering."""
    margin: float = 5.0
    """The distance from which on pairs that do not match are left alone."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {"margin"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(1, self, "sound_clusters", "picture_clusters", "iterations")
        require_positive(self, "hardness", "margin")


class Clusters(NamedTuple):
    """Centres (B, K, D), and how far each of n cells belongs to each, (B, K, n)."""

    centres: Tensor
    assignment: Tensor


def soft_clusters(cells: Tensor, count: int, hardness: float = 30.0, iterations: int = 4) -> Clusters:
    """Soft k-means, begun from every n/K-th cell; where there are fewer cells than clusters, all from the first.

    Args:
        cells: Shape (B, n, D).
        count: K.
        hardness: The assignment is a softmax over centres of minus this times the distance.
        iterations: Rounds.
    """
    centres = cells[:, torch.arange(count, device=cells.device) * (cells.shape[1] // count)]
    assignment = cells.new_zeros(0)
    for _ in range(iterations):
        assignment = (-hardness * distances(centres, cells)).softmax(1)
        centres = assignment @ cells / assignment.sum(2, keepdim=True)
    return Clusters(centres, assignment)


def distances(these: Tensor, those: Tensor) -> Tensor:
    """Between all of (B, K, D) and (B, n, D), shape (B, K, n); no less than 1e-5."""
    # not by way of inner products, whose differences of large numbers lose what the softmax then magnifies
    return (these[:, :, None] - those[:, None]).square().sum(-1).clamp_min(1e-10).sqrt()


class DMC(TwoEncoders):
    """As many maps as sounds are assumed; what it hears is the audio encoder's map."""

    config: DMCConfig
    published: ClassVar[Mapping[str, str]] = {
        **two_stem_resnets("visual_net.", "audio_net."),
        **{f"{part}.": f"{part}." for part in ("fc_v_1", "fc_a_1")},
        **dict.fromkeys(("fc_v_2.", "fc_a_2.", "fc_av."), DROPPED),
    }

    def __init__(self, config: DMCConfig) -> None:
        super().__init__(config)
        same_width(self)
        width, _ = self.channels
        self.fc_v_1, self.fc_a_1 = nn.Linear(width, width), nn.Linear(width, width)
        self.needs = self.needs or frozenset({"number"})

    @property
    def sources(self) -> int:
        """The sounds that are assumed."""
        return self.config.sound_clusters

    @property
    def note(self) -> str:
        """Where its maps come from."""
        return "solo queries" if "sounds" in self.needs else "cluster of each sound centre"

    def embed(self, spectrogram: Tensor) -> Tensor:
        """Encode spectrograms (B, 1, F, T) into maps (B, C, f, t), which are not pooled."""
        heard: Tensor = self.audio(spectrogram)
        return heard

    def picture_clusters(self, seen: Tensor, count: int) -> Clusters:
        """The clusters of features (B, C, h, w)."""
        return self._clusters(self.fc_v_1(_cells(seen)), count)

    def sound_clusters(self, heard: Tensor, count: int) -> Clusters:
        """The clusters of sound maps (B, C, f, t): each is a set of times and frequencies."""
        return self._clusters(self.fc_a_1(_cells(heard)), count)

    def _clusters(self, cells: Tensor, count: int) -> Clusters:
        return soft_clusters(cells, count, self.config.hardness, self.config.iterations)

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """One map for each of the sounds that are assumed."""
        return self.match(seen, heard, self.config.sound_clusters, self.config.picture_clusters)

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """One map for each of any number of sounds; pictures then have one cluster more, for the background."""
        if "sounds" in self.needs:
            return super().localise(seen, heard, sources, given)
        if sources is None or sources == self.sources:
            return self.answer(seen, heard)
        return self.match(seen, heard, sources, sources + 1)

    def match(self, seen: Tensor, heard: Tensor, sounds: int, things: int) -> Localisation:
        """The assignment, in [0, 1], to the visual cluster nearest to each cluster of sound."""
        pictures, heards = self.picture_clusters(seen, things), self.sound_clusters(heard, sounds)
        nearest = distances(pictures.centres, heards.centres).min(1)
        chosen = nearest.indices[:, :, None].expand(-1, -1, pictures.assignment.shape[2])
        maps = pictures.assignment.gather(1, chosen).reshape(-1, sounds, *seen.shape[-2:])
        return Localisation(maps, (1 - nearest.values / self.config.margin).clamp(0, 1), heards.centres)


def _cells(features: Tensor) -> Tensor:
    """A map (B, C, h, w) as cells (B, h w, C)."""
    return features.flatten(2).transpose(1, 2)


def dmc_loss(seen: Tensor, heard: Tensor, match: Tensor, margin: float = 5.0) -> Tensor:
    """The margin loss of the distance between the centres of pairs.

    Args:
        seen: Visual centres, shape (B, K_v, D).
        heard: Sound centres, shape (B, K_a, D).
        match: Whether a pair matches, shape (B,).
        margin: The distance from which on others are left alone.
    """
    return margin_loss(distances(seen, heard).amin(1).square().sum(1), match, margin)


def loss(network: DMC, batch: Batch) -> dict[str, Tensor]:
    """Clusters of pictures and sounds of one clip, told from those of two."""
    config = network.config
    seen, heard = network.perceive(batch)
    pictures = network.picture_clusters(seen, config.picture_clusters).centres
    sounds = network.sound_clusters(heard, config.sound_clusters).centres
    return {"loss": dmc_loss(*with_strangers(pictures, sounds), config.margin)}


def check(config: Config) -> Config:
    """Frames of a scene must fit their layout."""
    method, data = config.method, config.data
    assert isinstance(method, DMCConfig)
    if method.sound_clusters > 1 and data.source != "synthetic" and data.mixtures == "made":
        check_layouts(data.layouts, method.sound_clusters, data.silent, data.pool, method.freeze_visual)
    return config


DUET = DMCConfig(name="dmc-duet", sound_clusters=2, picture_clusters=3)

METHOD = SingleStageMethod(
    DMCConfig, DMC, loss, lambda config: Needs(sounds=config.sound_clusters), {DUET.name: DUET}, check
)
