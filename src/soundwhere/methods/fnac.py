"""FNAC: EZ-VSL, with false negatives suppressed by how alike sounds are among themselves.

Sun, Zhang, Wang, Liu, Zhong, Feng, Guo, Zhang and Barnes, Learning Audio-Visual Source Localization via False Negative
Aware Contrastive Learning, CVPR 2023 (github.com/OpenNLPLab/FNAC_AVL). Deviations: as EZ-VSL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Self

import torch
from torch.nn import functional as F

from soundwhere.config import require_least
from soundwhere.distributed import gather, world_size
from soundwhere.losses.max_cell import both_ways, max_cell_logits
from soundwhere.methods.projected import Projected, ProjectedConfig
from soundwhere.methods.single_stage import SingleStageMethod

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.types import Batch


@dataclass(frozen=True)
class FNACConfig(ProjectedConfig):
    """The defaults are as published: 30 epochs of 144,000 clips, the first three contrastive only."""

    family: Literal["fnac"] = "fnac"
    name: str = "fnac"
    steps: int = 16_875
    weight_decay: float = 1e-4
    dropout: float = 0.9
    contrastive_steps: int = 1_687
    """Steps at the beginning that are contrastive only."""
    regularisation: float = 100.0
    """Weight of each of the three terms on false and true negatives."""
    foreground: float = 0.6
    """From where on, in the stretched map, a cell is foreground."""

    training: ClassVar[frozenset[str]] = ProjectedConfig.training | {
        "contrastive_steps",
        "regularisation",
        "foreground",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(0, self, "contrastive_steps", "regularisation")

    def lasting(self, steps: int) -> Self:
        """See `MethodConfig`; the same share of the steps is contrastive only."""
        return replace(self, steps=steps, contrastive_steps=round(self.contrastive_steps * steps / self.steps))


class FNACLosses(NamedTuple):
    """The four terms: contrast, false negatives by sound, true negatives by foreground, false negatives by picture."""

    contrastive: Tensor
    fns1: Tensor
    tns: Tensor
    fns2: Tensor


class FNAC(Projected):
    """The network of EZ-VSL, which counts the clips it has been trained on."""

    config: FNACConfig
    unpublished: ClassVar[tuple[str, ...]] = (*Projected.unpublished, "trained_on")

    def __init__(self, config: FNACConfig) -> None:
        super().__init__(config)
        self.trained_on: Tensor
        self.register_buffer("trained_on", torch.zeros((), dtype=torch.int64))


def fnac_losses(cells: Tensor, sounds: Tensor, temperature: float = 0.03, foreground: float = 0.6) -> FNACLosses:
    """The four terms of the loss.

    Sounds that resemble each other should choose each other's pictures (fns1), so should pictures (fns2), and the
    foregrounds of pictures should resemble each other as their sounds do (tns).

    Args:
        cells: Unit cells v, shape (B, D, h, w).
        sounds: Unit sounds a, shape (B, D).
        temperature: Of every softmax.
        foreground: From where on, in the stretched own map, a cell is foreground.
    """
    logits = max_cell_logits(cells, sounds, temperature)
    own = torch.einsum("bdhw,bd->bhw", cells, sounds) / temperature
    low, high = own.amin((1, 2), keepdim=True), own.amax((1, 2), keepdim=True)
    kept = (own - low) / (high - low + 1e-5) > foreground
    chosen = logits.softmax(1)
    by_sound = _affinity(sounds, temperature)
    return FNACLosses(
        contrastive=both_ways(logits),
        fns1=F.l1_loss(by_sound, chosen),
        tns=F.l1_loss(by_sound, _affinity((cells * kept[:, None]).mean((2, 3)), temperature)),
        fns2=F.l1_loss(_affinity(cells.mean((2, 3)), temperature), chosen),
    )


def _affinity(vectors: Tensor, temperature: float) -> Tensor:
    """How alike vectors (B, D) of all processes are, as a softmax over rows, shape (N, N)."""
    every = gather(vectors)
    return (every @ every.T / temperature).softmax(1)


def loss(network: FNAC, batch: Batch) -> dict[str, Tensor]:
    """The contrast, and after the first steps the regularisation."""
    config = network.config
    seen, heard = network.perceive(batch)
    terms = fnac_losses(network.cells(seen), network.sounds(heard), config.temperature, config.foreground)
    begun = network.trained_on * world_size() >= config.contrastive_steps * config.batch_size
    if network.training:
        network.trained_on += len(batch)
    regular = config.regularisation * (terms.fns1 + terms.tns + terms.fns2)
    return {"loss": terms.contrastive + begun * regular, **terms._asdict()}


METHOD = SingleStageMethod(FNACConfig, FNAC, loss)
