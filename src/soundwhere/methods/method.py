"""What a method is: a network that localises, stages that train it, and what both need.

`Localises` is all that inference and evaluation may use of a network, `Stage` all that training may use, and `Method`
what the catalogue holds. `Network` is a torch module that does most of `Localises` by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Protocol

import torch
from torch import nn

from soundwhere.errors import ConfigError
from soundwhere.methods.files import HubFormat
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from soundwhere.config import Config, MethodConfig
    from soundwhere.data.features import Eye
    from soundwhere.data.training_scenes import Needs
    from soundwhere.types import Batch

    Progress = Callable[[int, int], None]  # what is done, and what there is

Extra = Literal["labels", "sounds", "number"]
"""What a network may ask for besides picture and mixture: the classes that sound, their separate sounds, or only how
many there are, as `sources` of `localise`."""


@dataclass(frozen=True)
class Given:
    """What a network is told besides picture and mixture, if it `needs` to be.

    Attributes:
        labels: Names of the classes that sound, for each of B scenes.
        sounds: Separate sounds, shape (B, K, N).
    """

    labels: Sequence[Sequence[str]] | None = None
    sounds: Tensor | None = None


class Localises(Protocol):
    """Answers where sounds come from."""

    @property
    def config(self) -> MethodConfig:
        """Its configuration."""

    @property
    def sources(self) -> int:
        """K, how many maps it gives."""

    @property
    def stride_px(self) -> int:
        """Pixels of a picture per cell; sides of pictures are multiples of it."""

    @property
    def device(self) -> torch.device:
        """Where it takes pictures and sounds."""

    @property
    def needs(self) -> frozenset[Extra]:
        """What it must be given besides picture and sound; rows of a table that used it say so."""

    def see(self, image: Tensor) -> Tensor:
        """What it makes of normalised pictures (B, 3, H, W), its own business but for the first size, B."""

    def hear(self, sound: Tensor) -> Tensor:
        """What it makes of waveforms (B, N) at 22 050 Hz, its own business but for the first size, B."""

    def sharpen(self, maps: Tensor, image: Tensor) -> Tensor:
        """Maps (B, K, h, w) with the edges of the pictures they belong to (B, 3, H, W), as finely as it can."""

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The maps of each scene's sources, shape (B, K, h, w).

        Args:
            seen: From `see`.
            heard: From `hear`.
            sources: K, if not the network's own number.
            given: What it `needs`.
        """


@dataclass(frozen=True)
class Control:
    """A further answer of a method, scored beside its own, such as one that does without the last stage.

    Attributes:
        name: What it is called in tables.
        kind: `training-free` for a rival to the answer; `solo` for a map of one sound heard alone, of which only the
            place of the peak is asked.
        answer: From a network, what it has seen and heard, and the grid of frames in the picture to maps (B, K, h, w).
        sharp: Whether its maps are given the edges of the picture, as the network's own are.
    """

    name: str
    kind: Literal["training-free", "solo"]
    answer: Callable[[Any, Tensor, Tensor, tuple[int, int]], Tensor]
    sharp: bool = False


class Step(NamedTuple):
    """A step of a forward pass that other runtimes can compute: a method of the network, and its values by name.

    Attributes:
        method: What is called.
        inputs: Names of its arguments.
        outputs: Names of the tensors it gives.
        gives: Puts those tensors together again; by default one tensor as it is.
    """

    method: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    gives: Callable[..., Any] = lambda tensor: tensor


ANSWERS: Final = ("similarity", "confidence", "embeddings")
"""The values of a `Localisation`, in their order."""
EMBED: Final = Step("embed", ("spectrogram",), ("heard",))
SEE: Final = Step("see", ("image",), ("features",))
ANSWER: Final = Step("answer", ("features", "heard"), ANSWERS, Localisation)


SHARPEN: Final = Step("sharpen", ("similarity", "image"), ("sharpened",))


class Network(HubFormat, nn.Module, ABC):
    """A torch module that `Localises`. A method writes `visual`, `spectrogram`, `embed` and `answer`; the rest follows.

    Args:
        config: Kept as `config`.
    """

    needs: frozenset[Extra] = frozenset()
    controls: ClassVar[tuple[Control, ...]] = ()
    published: ClassVar[Mapping[str, str]] = {}
    """Beginnings of the names in the published checkpoints, with what stands here in their place."""
    unpublished: ClassVar[tuple[str, ...]] = ()
    """Beginnings of the names of what published checkpoints lack."""
    visual: nn.Module
    """From pictures (B, 3, H, W) to features (B, C, h, w), with `stride`, the pixels per cell."""

    def __init__(self, config: MethodConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def offers(self) -> tuple[Control, ...]:
        """The controls that this network, as it is configured, can be asked for."""
        return self.controls

    @property
    def sources(self) -> int:
        """K, how many maps it gives."""
        return 1

    @property
    def steps(self) -> tuple[Step, ...]:
        """The forward pass, step by step, as it is exported: `image` and `spectrogram` go in, `ANSWERS` come out."""
        return EMBED, SEE, ANSWER

    @property
    def parts(self) -> tuple[Step, ...]:
        """The methods that another runtime takes over, each with the values that go in and come out."""
        return EMBED, SEE, ANSWER

    @property
    def finish(self) -> tuple[Step, ...]:
        """What follows the forward pass where maps get the edges of the picture; exported with it."""
        return () if type(self).sharpen is Network.sharpen else (SHARPEN,)

    @property
    def front_end(self) -> str:
        """What makes its spectrograms, by the name that runtimes without torch know it by; empty if none does."""
        return ""

    @property
    def stride_px(self) -> int:
        """Pixels of a picture per cell."""
        return int(self.visual.stride)  # type: ignore[arg-type] # every visual encoder knows it

    @property
    def note(self) -> str:
        """What a row of a table has to say about its answer, such as `same map twice`."""
        return ""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    @property
    def eye(self) -> Eye | None:
        """Its visual encoder, if that is frozen, so that what it sees can be kept."""
        return None

    def load_pretrained(self, download: bool) -> None:
        """Load the weights that training starts from; nothing is fetched unless `download` is set."""

    def complete(self, download: bool) -> None:
        """Load the weights of what a published checkpoint lacks; nothing is fetched unless `download` is set."""

    def start_from(self, other: Network) -> None:
        """Begin training with the weights of another network of the method, as far as both have them."""
        self.load_state_dict(other.state_dict())

    def see(self, image: Tensor) -> Tensor:
        """V, shape (B, C, h, w), of pictures (B, 3, H, W). Through a frozen encoder no gradient ever flows."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.eye is None):
            seen: Tensor = self.visual(image)
        return seen

    def seen(self, batch: Batch) -> Tensor:
        """What is seen in a batch: its cached features if it has them, else those of its pictures."""
        if batch.features is not None:
            return batch.features
        if batch.image is None:
            raise ValueError("a batch needs pictures or their features")
        return self.see(batch.image)

    def hear(self, sound: Tensor) -> Tensor:
        """What is heard in waveforms (B, N)."""
        return self.embed(self.spectrogram(sound))

    @abstractmethod
    def spectrogram(self, sound: Tensor) -> Tensor:
        """Turn waveforms (B, N) into the spectrograms (B, 1, F, T) the network was made for."""

    @abstractmethod
    def embed(self, spectrogram: Tensor) -> Tensor:
        """Encode spectrograms once for any number of pictures, first size B."""

    @abstractmethod
    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The maps of the network's own number of sources."""

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The maps of some number of sources; a method with one map repeats it."""
        found = self.answer(seen, heard)
        return found if sources is None else found.of(sources)

    def visual_features(self, seen: Tensor) -> Tensor:
        """Of what is seen, the features of cells (B, C, h, w), whose norm is an answer that does not listen."""
        return seen

    def sharpen(self, maps: Tensor, image: Tensor) -> Tensor:
        """Maps (B, K, h, w) with the edges of normalised pictures (B, 3, H, W); as they are, unless a method can."""
        return maps

    def views(self, seen: Tensor, heard: Tensor) -> dict[str, Tensor]:
        """Maps (B, 1, h, w) worth looking at beside the answer while training, by name."""
        return {}

    def forward(self, image: Tensor, spectrogram: Tensor) -> Localisation:
        """From pictures (B, 3, H, W) and spectrograms (B, 1, F, T) to maps in one pass."""
        return self.answer(self.see(image), self.embed(spectrogram))


@dataclass(frozen=True)
class Schedule:
    """For how long and how fast a stage trains.

    Attributes:
        batch_size: Scenes per optimiser step, over all processes.
        learning_rate: Highest rate.
        decay: Rate over the steps: `constant`, or half a `cosine` down to 0.
        warmup_steps: Steps over which the rate rises from 0.
        fall: What the rate is multiplied by, again and again.
        fall_every: After so many steps; 0 for never.
        clip_norm: Largest norm of the gradient; 0 leaves it as it is.
        accumulate: Parts a process's batch is cut into.
        weight_decay: Added to the gradient, or with `adamw` taken from the weights.
        betas: Of Adam.
        optimiser: `adam`, `adamw`, or `sgd` with a `momentum`.
        momentum: Of `sgd`.
        factors: How many times as fast parameters learn whose name holds a word.
    """

    batch_size: int
    learning_rate: float
    decay: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = 0
    fall: float = 1.0
    fall_every: int = 0
    clip_norm: float = 0.0
    accumulate: int = 1
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    optimiser: Literal["adam", "adamw", "sgd"] = "adam"
    momentum: float = 0.0
    factors: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Any) -> Schedule:
        """What a configuration says under these names, and as `schedule`, which is the decay."""
        told = {each.name: getattr(config, each.name) for each in fields(cls) if hasattr(config, each.name)}
        return cls(decay=config.schedule, **told)


@dataclass(frozen=True)
class Phase:
    """A part of a stage that trains on one kind of scene, up to a step."""

    until: int
    needs: Needs


class Stage(Protocol):
    """What training knows of a stage."""

    @property
    def name(self) -> str:
        """Of the stage, such as `one`."""

    @property
    def follows(self) -> str | None:
        """The stage that must have been trained before, if any."""

    @property
    def schedule(self) -> Schedule:
        """How long and how fast."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What it trains on; the last phase ends the stage."""

    def objective(self, network: Any) -> nn.Module:
        """From a `Batch` to losses by name: `loss` is minimised, the rest (detached) is shown.

        It decides what trains: what is not to train takes no gradient and stays in eval mode.
        """

    def prepare(self, network: Any, config: Config, progress: Progress) -> None:
        """Work to be done once before the first step, in every process alike; not done again on resume."""

    def finish(self, network: Any) -> Network | None:
        """Work after the last step; a network that is returned is kept as `stage-NAME.safetensors`."""


class Method(Protocol):
    """A method, as the catalogue knows it. Its module imports torch only when a network is built."""

    config: type[Any]
    """Class of its configuration, a `MethodConfig` whose defaults are the published ones."""
    named: Mapping[str, Any]
    """Configurations that have a name."""

    def build(self, config: Any) -> Network:
        """A network with random weights."""

    def stages(self, config: Any) -> tuple[Stage, ...]:
        """What is trained, in order."""

    def check(self, config: Config) -> Config:
        """The configuration with what follows from it, or a `ConfigError` where it contradicts itself."""


def check_frame(config: MethodConfig, stride_px: int) -> None:
    """Refuse frames that a visual encoder cannot cut into cells."""
    if config.frame_px % stride_px:
        raise ConfigError(
            f"frame_px is {config.frame_px}.", f"It must be a multiple of {stride_px}, the encoder's stride."
        )


def require_eye(network: Network, name: str) -> Eye:
    """The frozen visual encoder of the network of that name; one that is trained leaves nothing to be kept."""
    if network.eye is None:
        raise ConfigError(f"The visual encoder of {name} is trained too.", "Choose scav-mobile or scav-r18.")
    return network.eye
