"""Mix-and-Localize: as many heads as sources, and a walk between pictures and mixtures that must return to its head.

Hu, Chen and Owens, Mix and Localize: Localizing Sound Sources in Mixtures, CVPR 2022
(github.com/hxixixh/mix-and-localize). Neighbours in a batch form a group; their sounds are mixed, once now and once at
another moment. Each head gives one source of a mixture. From a head of the second mixture one walks to a picture of
the group, whose best cell counts, and from there to a head of the first: the same one.

Deviations: sounds of a group are summed, as in the scenes that are localised, not averaged; they are brought to one
level over 3 s, of which 0.96 s are heard; the scalar that multiplies published maps is left out, because nothing trains
it and its sign, which is left to chance, may turn maps over.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.config import require, require_least, require_positive
from soundwhere.data.training_scenes import Needs
from soundwhere.errors import ConfigError
from soundwhere.losses.cycle import cycle_accuracy, cycle_loss, log_returns
from soundwhere.methods.published import DROPPED, two_stem_resnets
from soundwhere.methods.several import SeveralMaps
from soundwhere.methods.single_stage import Objective, SingleStage, SingleStageMethod
from soundwhere.methods.two_encoders import TwoEncodersConfig, pool
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from soundwhere.methods.method import Network
    from soundwhere.types import Batch

ALIKE: Final = 0.95  # cosine from which on embeddings say the same
PATIENCE: Final = 100  # steps in a row after which that is called a collapse


@dataclass(frozen=True)
class MixAndLocalizeConfig(TwoEncodersConfig):
    """The defaults are as published: 30 epochs; how many clips an epoch has depends on the set."""

    family: Literal["mix-and-localize"] = "mix-and-localize"
    name: str = "mix-and-localize"
    fine_grid: bool = True
    spectrogram: str = "mix_and_localize"
    dimension: int = 128
    """Size of the space in which cells and sources are compared."""
    heads: int = 2
    """How many sources a mixture has: clips of a group, heads, and maps."""
    temperature: float = 0.07
    """Of both steps of the walk."""
    augment: str = "resized-crop-flip"
    batch_size: int = 128
    """Clips per optimiser step, over all processes."""
    weight_decay: float = 5e-4
    """Weight decay of Adam."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {"temperature"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(2, self, "heads")
        require_positive(self, "temperature")
        require(
            self.batch_size % self.heads == 0, "batch_size", self.batch_size, f"a multiple of the {self.heads} heads"
        )


class MixAndLocalize(SeveralMaps):
    """Head s gives map s: the cosine of its embedding to every cell. What it hears are the heads, shape (B, K, D)."""

    config: MixAndLocalizeConfig
    published: ClassVar[Mapping[str, str]] = {
        **two_stem_resnets("vision_model.", "aud_model."),
        "stft.": DROPPED,
        "conv_av.": DROPPED,
        "conv_v_1.": "cells.0.",
        "conv_v_2.": "cells.2.",
        "fc_a_1.": "heads.0.",
        "fc_a_2.": "heads.1.",
    }

    def __init__(self, config: MixAndLocalizeConfig) -> None:
        super().__init__(config)
        seen, heard = self.channels
        width = config.dimension
        self.cells = nn.Sequential(nn.Conv2d(seen, width, 1), nn.ReLU(), nn.Conv2d(width, width, 1))
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(heard, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(config.heads)
        )

    @property
    def sources(self) -> int:
        """One for each head."""
        return self.config.heads

    @property
    def note(self) -> str:
        """Where maps come from."""
        return "head s gives map s"

    def embed(self, spectrogram: Tensor) -> Tensor:
        """Encode spectrograms (B, 1, F, T) into unit embeddings of their sources, shape (B, K, D)."""
        return self.separate(pool(self.audio(spectrogram), self.config.pooling))

    def separate(self, heard: Tensor) -> Tensor:
        """Pooled sounds (B, C') as unit embeddings of their sources, shape (B, K, D)."""
        return F.normalize(torch.stack([head(heard) for head in self.heads], dim=1), dim=-1)

    def project(self, seen: Tensor) -> Tensor:
        """Unit cells, shape (B, D, h, w)."""
        return F.normalize(self.cells(seen), dim=1)

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The cosine of each head's embedding to every cell."""
        maps = torch.einsum("bdhw,bkd->bkhw", self.project(seen), heard)
        return Localisation.peaked(maps, heard)


def loss(network: MixAndLocalize, batch: Batch) -> dict[str, Tensor]:
    """The walk's, and whether heads or mixtures have become alike."""
    groups, count = divmod(len(batch), network.config.heads)[0], network.config.heads
    if not groups or batch.moments is None:
        raise ConfigError(
            f"A group of {count} clips, each at two moments, is needed, and a part of a batch has {len(batch)}.",
            "Raise --batch-size, or lower --accumulate.",
        )
    clips = slice(groups * count)
    pictures = network.project(network.watch(batch)[clips])
    pictures = pictures.reshape(groups, count, *pictures.shape[1:])
    now, later = (sounds[clips].reshape(groups, count, -1).sum(1) for sounds in (batch.mixture, batch.moments[:, 0, 0]))
    first, second = network.embed(network.listen(torch.cat([now, later]))).chunk(2)
    returns = log_returns(pictures, second, first, network.config.temperature)
    return {"loss": cycle_loss(returns), "accuracy": cycle_accuracy(returns), **likeness(first)}


def likeness(heads: Tensor) -> dict[str, Tensor]:
    """How alike the heads of one mixture are, and what one head says of different mixtures: mean cosines.

    Args:
        heads: Unit embeddings, shape (G, K, D).
    """
    groups, count = heads.shape[:2]
    between = (heads.sum(1).square().sum(-1) - count) / (count * (count - 1))
    over = (heads.sum(0).square().sum(-1) - groups) / max(1, groups * (groups - 1))
    return {"heads_alike": between.mean(), "mixtures_alike": over.mean()}


class CycleObjective(Objective):
    """The loss, and a warning once the walk has nothing left to tell sources apart by."""

    def __init__(self, network: Network) -> None:
        self._alike = 0
        super().__init__(network, loss)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of a batch, and what else is shown."""
        values = super().forward(batch)
        alike = max(float(values["heads_alike"]), float(values["mixtures_alike"]))
        self._alike = self._alike + 1 if alike > ALIKE and self.training else 0
        if self._alike == PATIENCE:
            warnings.warn(
                f"Mix-and-Localize has collapsed: for {PATIENCE} steps its heads have been alike (cosine "
                f"{values['heads_alike']:.2f}), or have said the same of every mixture "
                f"({values['mixtures_alike']:.2f}). Maps then do not depend on the sound. "
                "Start again with another --seed, a lower --learning-rate, or encoders that start from other weights.",
                stacklevel=2,
            )
        return values


class CycleStage(SingleStage):
    """The one stage, which watches for collapse."""

    def objective(self, network: Network) -> CycleObjective:
        """What is minimised."""
        return CycleObjective(network)


METHOD = SingleStageMethod(
    MixAndLocalizeConfig,
    MixAndLocalize,
    loss,
    needs=lambda _: Needs(sounds=1, separate=True, moments=2),
    stage=CycleStage,
)
