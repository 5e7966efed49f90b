"""What each stage of CoarseToFine trains, and the method for the catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from soundwhere.data.training_scenes import Needs
from soundwhere.methods.classes import several_hot, with_classes
from soundwhere.methods.coarse_to_fine.model import CoarseToFine, CoarseToFineConfig
from soundwhere.methods.single_stage import Objective, SingleStage, SingleStageMethod

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.methods.method import Network
    from soundwhere.types import Batch

NEEDS = Needs(sounds=2, separate=True, labels=True)


def coarse(network: CoarseToFine, batch: Batch) -> dict[str, Tensor]:
    """The loss of stage 1."""
    seen, heard = network.perceive(batch)
    return {"loss": _coarse(network, batch, seen, heard)}


def fine(network: CoarseToFine, batch: Batch) -> dict[str, Tensor]:
    """The loss of stage 2."""
    seen, heard = network.perceive(batch)
    first, second = _coarse(network, batch, seen, heard), network.fine_loss(seen, heard)
    return {"loss": first + second, "coarse": first, "fine": second}


def _coarse(network: CoarseToFine, batch: Batch, seen: Tensor, heard: Tensor) -> Tensor:
    assert batch.labels is not None
    labels = several_hot(batch.labels, len(network.config.classes))  # what is seen is what sounds
    return network.coarse_loss(seen, heard, labels, labels)


class CoarseToFineStage(SingleStage):
    """In stage 1 the projections of class vectors wait; in stage 2 everything trains."""

    def objective(self, network: Network) -> Objective:
        """What is minimised."""
        assert isinstance(network, CoarseToFine)
        for vectors in (network.seen_classes, network.heard_classes):
            vectors.project.requires_grad_(self.name == "two")
        return super().objective(network)


class CoarseToFineMethod(SingleStageMethod[CoarseToFineConfig]):
    """See `Method`."""

    def stages(self, config: CoarseToFineConfig) -> tuple[SingleStage, ...]:
        """Coarse, then fine."""
        second = replace(config, steps=config.steps_two, learning_rate=config.learning_rate_two)
        stages = {
            "one": CoarseToFineStage(config, coarse, NEEDS, name="one"),
            "two": CoarseToFineStage(second, fine, NEEDS, name="two", follows="one"),
        }
        return tuple(stages.values()) if config.stage == "both" else (stages[config.stage],)


METHOD = CoarseToFineMethod(CoarseToFineConfig, CoarseToFine, fine, check=with_classes)
