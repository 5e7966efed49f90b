"""LVS: hard cells of a picture as negatives of its own sound.

Chen, Xie, Afouras, Nagrani, Vedaldi and Zisserman, Localizing Visual Sounds the Hard Way, CVPR 2021
(github.com/hche11/Localizing-Visual-Sounds-the-Hard-Way). The map is the cosine of unit cells with the unit maximum of
the sound map; two soft thresholds cut it into source, background and uncertain cells. Deviations: masks are normalised
in log space; pictures are squashed, not cropped; sounds of 3 s are repeated to 10 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from soundwhere.config import Thresholds
from soundwhere.losses.lvs import lvs_loss
from soundwhere.methods.published import two_stem_resnets
from soundwhere.methods.single_stage import SingleStageMethod
from soundwhere.methods.two_encoders import CosineMap, TwoEncodersConfig
from soundwhere.models.similarity import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from soundwhere.types import Batch


@dataclass(frozen=True)
class LVSConfig(TwoEncodersConfig):
    """The defaults are as published: the release trains vision from scratch; its schedule is only in the paper."""

    family: Literal["lvs"] = "lvs"
    name: str = "lvs"
    visual_weights: str = "none"
    """Weights the visual encoder starts from: `imagenet`, a file, or `none`."""
    fine_grid: bool = True
    spectrogram: str = "lvs"
    augment: str = "crop-flip"
    thresholds: Thresholds = Thresholds()  # noqa: RUF009 - frozen
    """Of source and background."""
    trimap: bool = True
    """Leave the cells between the thresholds out; without, all that is not source is background."""
    hard_negative: bool = True
    """Let the background of a picture be a negative of its sound."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {"thresholds", "trimap", "hard_negative"}


class LVS(CosineMap):
    """Two encoders are all it has."""

    config: LVSConfig
    published: ClassVar[Mapping[str, str]] = two_stem_resnets("imgnet.", "audnet.")


def loss(network: LVS, batch: Batch) -> dict[str, Tensor]:
    """The contrast of own cells with other sounds and with own background."""
    config = network.config
    thresholds = config.thresholds
    if not config.trimap:
        thresholds = Thresholds(thresholds.positive, thresholds.positive, thresholds.temperature)
    seen, heard = network.perceive(batch)
    return {"loss": lvs_loss(prepare(seen, "cosine"), prepare(heard, "cosine"), thresholds, config.hard_negative)}


METHOD = SingleStageMethod(LVSConfig, LVS, loss)
