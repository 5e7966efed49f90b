"""Methods that train in one stage: a network and a loss are all that is left to write."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

from torch import nn

from soundwhere import constants
from soundwhere.config import MethodConfig, require_least, require_positive
from soundwhere.data.training_scenes import Needs
from soundwhere.methods.method import Phase, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from soundwhere.config import Config
    from soundwhere.methods.method import Network, Progress
    from soundwhere.types import Batch

    Loss = Callable[[Any, Batch], dict[str, Tensor]]  # of a network and a batch: `loss`, and what else is shown


@dataclass(frozen=True)
class SingleStageConfig(MethodConfig):
    """For how long and how fast one stage trains. Adam 1e-4 is what most of the field uses."""

    steps: int = 20_000
    """Optimiser steps."""
    batch_size: int = constants.BATCH_SIZE
    """Scenes per optimiser step, over all processes."""
    accumulate: int = 1
    """Parts a process's batch is cut into; saves memory, and leaves fewer contrastive negatives for each part."""
    learning_rate: float = constants.LEARNING_RATE
    """Initial learning rate."""
    weight_decay: float = 0.0
    """Weight decay: added to the gradient, or with adamw taken from the weights."""
    optimiser: Literal["adam", "adamw", "sgd"] = "adam"
    """What steps."""
    momentum: float = 0.0
    """Of sgd."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Learning rate over the steps."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises from 0."""
    clip_norm: float = 0.0
    """Largest norm of the gradient; 0 leaves it as it is."""

    training: ClassVar[frozenset[str]] = frozenset(
        {
            *("steps", "batch_size", "accumulate", "learning_rate", "weight_decay", "schedule", "warmup_steps"),
            *("clip_norm", "optimiser", "momentum"),
        }
    )
    changeable: ClassVar[frozenset[str]] = frozenset({"steps", "learning_rate", "clip_norm"})

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(1, self, "steps", "batch_size", "accumulate")
        require_least(0, self, "weight_decay", "warmup_steps", "clip_norm", "momentum")
        require_positive(self, "learning_rate")

    def lasting(self, steps: int) -> Self:
        """See `MethodConfig`."""
        return replace(self, steps=steps)


class Objective(nn.Module):
    """A network and its loss; everything trains that is not frozen."""

    def __init__(self, network: Network, loss: Loss) -> None:
        super().__init__()
        self.network = network
        self._loss = loss
        self.train()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of a batch, and (detached) what else is shown."""
        values = self._loss(self.network, batch)
        return {name: value if name == "loss" else value.detach() for name, value in values.items()}


@dataclass(frozen=True)
class SingleStage:
    """The one stage of a method; see `Stage`."""

    config: SingleStageConfig
    loss: Loss
    needs: Needs
    name: str = "one"
    follows: str | None = None

    @property
    def schedule(self) -> Schedule:
        """How long and how fast."""
        return Schedule.of(self.config)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """One kind of scene from beginning to end."""
        return (Phase(self.config.steps, self.needs),)

    def objective(self, network: Network) -> Objective:
        """What is minimised."""
        return Objective(network, self.loss)

    def prepare(self, network: Network, config: Config, progress: Progress) -> None:
        """Nothing."""

    def finish(self, network: Network) -> None:
        """Nothing is left behind."""


C = TypeVar("C", bound=SingleStageConfig)


@dataclass(frozen=True)
class SingleStageMethod(Generic[C]):
    """A method of one stage; see `Method`.

    Attributes:
        config: Class of its configuration.
        network: Makes a network of a configuration.
        loss: What is minimised.
        needs: What a configuration trains on: single clips, unless it says otherwise.
        others: Further configurations that have a name, beside the class's own defaults.
        check: As in `Method`; most have nothing to check beyond their settings.
        stage: What trains it.
    """

    config: type[C]
    network: Callable[[C], Network]
    loss: Loss
    needs: Callable[[C], Needs] = lambda _: Needs(sounds=1)
    others: Mapping[str, C] = field(default_factory=dict)
    check: Callable[[Config], Config] = lambda config: config
    stage: type[SingleStage] = SingleStage

    @property
    def named(self) -> Mapping[str, C]:
        """Configurations by name."""
        own = self.config()
        return {own.name: own, **self.others}

    def build(self, config: C) -> Network:
        """A network with random weights."""
        return self.network(config)

    def stages(self, config: C) -> tuple[SingleStage, ...]:
        """The one stage."""
        return (self.stage(config, self.loss, self.needs(config)),)
