"""EZ-VSL: the best cell of a picture against the sounds of the batch, and the other way round.

Mo and Morgado, Localizing Visual Sounds the Easy Way, ECCV 2022 (github.com/stoneMo/EZ-VSL). At test the audio-visual
map (AVL) is averaged with an object prior (OGL) that does not listen. Deviations: pictures are squashed to the frame
and then cropped, not cropped in their own shape; maps are combined on the grid, before they are enlarged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from soundwhere.losses.max_cell import both_ways, max_cell_logits
from soundwhere.methods.projected import Projected, ProjectedConfig
from soundwhere.methods.single_stage import SingleStageMethod

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.types import Batch


@dataclass(frozen=True)
class EZVSLConfig(ProjectedConfig):
    """The defaults are as published: 20 epochs of 144,000 clips."""

    family: Literal["ez-vsl"] = "ez-vsl"
    name: str = "ez-vsl"
    steps: int = 22_500
    batch_size: int = 128


def loss(network: Projected, batch: Batch) -> dict[str, Tensor]:
    """The contrast of best cells, both ways."""
    seen, heard = network.perceive(batch)
    logits = max_cell_logits(network.cells(seen), network.sounds(heard), network.config.temperature)
    return {"loss": both_ways(logits)}


METHOD = SingleStageMethod(EZVSLConfig, Projected, loss)
