"""SLAVC: two heads for each modality, one that localises and one that attends, against their own slow copies.

Mo and Morgado, A Closer Look at Weakly-Supervised Audio-Visual Source Localization, NeurIPS 2022
(github.com/stoneMo/SLAVC). Deviations: pictures are squashed to the frame and then cropped; where the visual encoder is
frozen it is its own slow copy.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import torch
from torch import nn

from soundwhere.config import require, require_positive
from soundwhere.distributed import world_size
from soundwhere.losses.cell_attention import TwoHeads, slavc_loss
from soundwhere.methods.projected import start_projections
from soundwhere.methods.single_stage import SingleStageMethod
from soundwhere.methods.two_encoders import TwoEncoders, TwoEncodersConfig, one_map, pool
from soundwhere.models.similarity import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from soundwhere.types import Batch, Localisation


@dataclass(frozen=True)
class SLAVCConfig(TwoEncodersConfig):
    """The defaults are as published: 20 epochs of 144,000 clips."""

    family: Literal["slavc"] = "slavc"
    name: str = "slavc"
    steps: int = 22_500
    batch_size: int = 128
    augment: str = "crop-flip"
    temperature: float = 0.03
    """Of every softmax."""
    dropout: float = 0.9
    """Share of the visual features that are dropped before they are projected, while training."""
    slowness: float = 0.999
    """Share of itself that the slow copy keeps at every step."""
    slow_maps: bool = True
    """Answer with the slow copy, as in the published command."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {"temperature", "dropout", "slowness"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "temperature")
        require(0 <= self.dropout < 1, "dropout", self.dropout, "at least 0 and less than 1")
        require(0 <= self.slowness <= 1, "slowness", self.slowness, "between 0 and 1")

    def lasting(self, steps: int) -> Self:
        """See `MethodConfig`; the slow copy lags behind by the same share of the steps."""
        return replace(self, steps=steps, slowness=max(0.0, 1 - (1 - self.slowness) * self.steps / steps))


class Heads(nn.Module):
    """The projections of both modalities for both heads."""

    def __init__(self, channels: tuple[int, int], dimension: int) -> None:
        super().__init__()
        seen, heard = channels
        self.visual1, self.visual2 = nn.Conv2d(seen, dimension, 1), nn.Conv2d(seen, dimension, 1)
        self.audio1, self.audio2 = nn.Linear(heard, dimension), nn.Linear(heard, dimension)
        start_projections(*self.children())

    def forward(self, seen: Tensor, heard: Tensor) -> TwoHeads:
        """Unit cells and unit sounds of features (B, C, h, w) and pooled sounds (B, C')."""
        layers = ((self.visual1, seen), (self.visual2, seen), (self.audio1, heard), (self.audio2, heard))
        return TwoHeads(*(prepare(layer(features), "cosine") for layer, features in layers))


class SLAVC(TwoEncoders):
    """The mean of two cosine maps, of the slow copy if so configured.

    The slow copy (`slow`) takes no gradient and follows the rest: w_slow <- m w_slow + (1 - m) w, before it is used.
    """

    config: SLAVCConfig
    published: ClassVar[Mapping[str, str]] = {
        f"{theirs}{part}.": f"{ours}{name}."
        for theirs, ours in (("", ""), ("momentum_", "slow."))
        for part, name in (
            ("imgnet", "visual"),
            ("audnet", "audio"),
            ("img_proj1", "heads.visual1"),
            ("img_proj2", "heads.visual2"),
            ("aud_proj1", "heads.audio1"),
            ("aud_proj2", "heads.audio2"),
        )
    }

    def __init__(self, config: SLAVCConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.dropout)
        self.heads = Heads(self.channels, config.dimension)
        copied = ("audio", "heads") if config.freeze_visual else ("visual", "audio", "heads")
        self.slow = nn.ModuleDict({name: deepcopy(self.get_submodule(name)) for name in copied}).requires_grad_(False)

    def load_pretrained(self, download: bool) -> None:
        """Load the weights that both encoders, and their slow copies, start from."""
        super().load_pretrained(download)
        for name, copy in self.slow.items():
            copy.load_state_dict(self.get_submodule(name).state_dict())

    @torch.no_grad()
    def follow(self, slowness: float) -> None:
        """Let the slow copy take a step towards the rest."""
        for name, copy in self.slow.items():
            for slow, fast in zip(copy.parameters(), self.get_submodule(name).parameters(), strict=True):
                slow.lerp_(fast, 1 - slowness)

    @property
    def _answers_slowly(self) -> bool:
        return self.config.slow_maps and not self.training

    def _slow_eye(self) -> nn.Module:
        return self.visual if self.config.freeze_visual else self.slow["visual"]

    def see(self, image: Tensor) -> Tensor:
        """The features of pictures (B, 3, H, W), of the slow copy when it answers."""
        if not self._answers_slowly:
            return super().see(image)
        seen: Tensor = self._slow_eye()(image)
        return seen

    def embed(self, spectrogram: Tensor) -> Tensor:
        """The pooled features of spectrograms (B, 1, F, T), of the slow copy when it answers."""
        ear = self.slow["audio"] if self._answers_slowly else self.audio
        return pool(ear(spectrogram), self.config.pooling)

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The mean of both heads' cosine maps."""
        found: TwoHeads = (self.slow["heads"] if self._answers_slowly else self.heads)(seen, heard)
        return one_map(mean_map(found), torch.cat([found.sounds1, found.sounds2], dim=1))

    def target(self, batch: Batch, picture: Tensor | None, spectrogram: Tensor) -> TwoHeads:
        """What the slow copy makes of the same pictures and sounds; dropout acts on it, too."""
        with torch.no_grad():
            seen = self.seen(batch) if picture is None else self._slow_eye()(picture)
            heard = pool(self.slow["audio"](spectrogram), self.config.pooling)
            found: TwoHeads = self.slow["heads"](self.dropout(seen), heard)
        return found


def mean_map(found: TwoHeads) -> Tensor:
    """The mean of both heads' own cosine maps, shape (B, h, w)."""
    first, second = (
        torch.einsum("bdhw,bd->bhw", cells, sounds)
        for cells, sounds in ((found.cells1, found.sounds1), (found.cells2, found.sounds2))
    )
    return (first + second) / 2


def loss(network: SLAVC, batch: Batch) -> dict[str, Tensor]:
    """Move the slow copy, and contrast both with each other."""
    config = network.config
    if network.training:
        # the parts of a batch move it by as much as the whole
        network.follow(config.slowness ** (len(batch) * world_size() / config.batch_size))
    picture, spectrogram = network.look(batch), network.listen(batch.mixture)
    seen = network.seen(batch) if picture is None else TwoEncoders.see(network, picture)
    heard = pool(network.audio(spectrogram), config.pooling)
    online: TwoHeads = network.heads(network.dropout(seen), heard)
    return {"loss": slavc_loss(online, network.target(batch, picture, spectrogram), config.temperature)}


METHOD = SingleStageMethod(SLAVCConfig, SLAVC, loss)
