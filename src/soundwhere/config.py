"""Settings of a run, as frozen dataclasses; read from TOML and flags, saved in checkpoints.

What a method can be told is in its own room (`methods/`); here is what every run has.

No torch here: the command line builds its `--help` from these classes.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from soundwhere import constants
from soundwhere.errors import ConfigError, reason, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


def require(holds: bool, name: str, value: object, wanted: str) -> None:
    """Refuse a setting that does not hold."""
    if not holds:
        raise ConfigError(f"{name} is {value}.", f"It must be {wanted}.")


def require_least(least: int, settings: object, *names: str) -> None:
    """Refuse settings of these names that are less than a number."""
    for name in names:
        require(getattr(settings, name) >= least, name, getattr(settings, name), f"{least} or more")


def require_positive(settings: object, *names: str) -> None:
    """Refuse settings of these names that are not greater than 0; one that is None is not set."""
    for name in names:
        value = getattr(settings, name)
        require(value is None or value > 0, name, value, "greater than 0")


def require_finite(settings: object) -> None:
    """Refuse numbers that are infinite or none at all: no file of a run could hold them."""
    for name, value in vars(settings).items():
        require(not isinstance(value, float) or math.isfinite(value), name, value, "a finite number")


def positive_multiple(value: int, of: int) -> bool:
    """Whether a value is a positive multiple of another."""
    return value > 0 and value % of == 0


def share_out(steps: int, parts: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Divide steps among the parts of a training in proportion, one at least to each; the last takes what is left.

    Args:
        steps: Of all together.
        parts: By the name of its setting, the steps that a part has now, and how often it comes; the last comes once.

    Returns:
        The steps of each part.

    Raises:
        ConfigError: There are fewer steps than parts.

    >>> share_out(90, {"steps_one": (400, 1), "steps_two": (500, 1)})
    {'steps_one': 40, 'steps_two': 50}
    >>> share_out(900, {"steps_one": (810, 1), "steps_two": (90, 1)})
    {'steps_one': 810, 'steps_two': 90}
    """
    least = sum(times for _, times in parts.values())
    require(steps >= least, "steps", steps, f"{least} or more, one for each part of the training")
    more = sum((length - 1) * times for length, times in parts.values()) or 1
    *others, last = parts
    shares = {name: 1 + (steps - least) * (parts[name][0] - 1) // more for name in others}
    return {**shares, last: steps - sum(share * parts[name][1] for name, share in shares.items())}


@dataclass(frozen=True)
class Thresholds:
    """Differentiable thresholding (Eq. masks)."""

    positive: float = constants.POSITIVE_THRESHOLD
    """Similarity above which a cell counts as sounding."""
    negative: float = constants.NEGATIVE_THRESHOLD
    """Similarity below which a cell counts as background."""
    temperature: float = constants.MASK_TEMPERATURE
    """Softness of both thresholds."""

    def __post_init__(self) -> None:
        require_positive(self, "temperature")


@dataclass(frozen=True)
class MethodConfig:
    """What the configuration of every method has: a method's own class adds its architecture, losses and schedule."""

    family: str = ""
    """Method that the configuration belongs to."""
    name: str = ""
    """Name the configuration is known by."""
    frame_px: int = constants.FRAME_PX
    """Side of one frame, a multiple of the visual encoder's stride."""
    sounding_threshold: float = constants.NEGATIVE_THRESHOLD
    """Confidence from which a source counts as sounding; calibrated once a model is trained."""

    training: ClassVar[frozenset[str]] = frozenset()
    """Settings that say how it is trained, not what it is: losses and schedule."""
    changeable: ClassVar[frozenset[str]] = frozenset()
    """Those of them that may differ when a run is resumed: how long and how fast it trains."""

    def __post_init__(self) -> None:
        require_finite(self)
        require_positive(self, "frame_px")

    @property
    def counts(self) -> bool:
        """Whether confidences say how many things sound, so that a source that does not need not be shown."""
        return False

    def lasting(self, steps: int) -> Self:
        """The same, trained for so many optimiser steps in all, which its stages share as they do now."""
        raise ConfigError(
            f"The method {self.family!r} does not say how its stages share {steps} steps.",
            "Train it by itself, with steps of its own.",
        )

    def trained_like(self, other: MethodConfig) -> Self:
        """The same network, to be trained as another configuration says, if that is one of the same method."""
        if type(other) is not type(self):
            return self
        return dataclasses.replace(self, **{name: getattr(other, name) for name in self.training})


@dataclass(frozen=True)
class DataConfig:
    """What is trained on. Labels are read by the methods that say so, and by no other."""

    source: Literal["synthetic", "real-duet", "wide-duet", "folder", "shards"] = "synthetic"
    """The made-up world, real-duet, wide-duet (with its videos), a folder of videos, or shards of `prepare`."""
    root: Path | None = None
    """Folder of the data set (all but the made-up world); of shards also an address: http(s), s3, gs, ..."""
    shard_cache: Path | None = None
    """Folder for copies of remote shards; by default below the user's cache folder."""
    shard_cache_gb: float = 100.0
    """How much they may take up, in GB."""
    mixtures: Literal["made", "native"] = "made"
    """Make mixtures from single clips, or take videos with several sources as they are."""
    split: Literal["train", "train+val"] = "train"
    """real-duet, wide-duet: the clips to train on; a final model may take those of val too."""
    left_out: Literal["none", "first", "second"] = "none"
    """wide-duet: train without the first or the second collection of the classes that have recordings of two."""
    made_up: int = 0
    """Things of the made-up world, each with its sound, that join the clips."""
    layouts: tuple[Literal["side-by-side", "stacked", "grid", "pasted"], ...] = ("side-by-side",)
    """How frames of a made mixture are put together."""
    pool: int = 0
    """Made mixtures: show this many pictures again and again with other sounds, encoded whole; 0 always shows new ones,
    whose features are joined from those of single frames."""
    silent: int = 0
    """Silent distractors per scene: further objects (made-up world) or frames (made mixtures)."""
    vary_silent: bool = False
    """Made mixtures: draw the number of silent frames for every step, up to `silent`."""
    absent: float = 0.0
    """Share of stage 2's scenes in which one sound is silent or its source not shown (teacher `strength` only)."""
    interference: float = 0.0
    """Share of single clips heard with the quieter sound of another, which is not shown."""
    level: Literal["equal-rms", "as-recorded"] = "equal-rms"
    """Made mixtures of clips: scale every source to one RMS before they are summed, or sum waveforms as they are."""
    gain_db: float = 6.0
    """Each source's level is then changed by a gain drawn within plus or minus this."""
    scenes: int = 4000
    """Made-up world: how many scenes make an epoch."""
    cache: Path | None = None
    """Folder for frozen visual features; by default below the user's cache folder."""
    workers: int = 0
    """Processes that prepare batches; 0 prepares them in the training process."""

    def __post_init__(self) -> None:
        require_finite(self)
        require(len(self.layouts) > 0, "layouts", self.layouts, "at least one")
        require_least(0, self, "silent", "made_up", "pool", "gain_db")
        for name in ("interference", "absent"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "between 0 and 1")
        require_positive(self, "shard_cache_gb")
        require_least(1, self, "scenes")
        require_least(0, self, "workers")


@dataclass(frozen=True)
class TrainConfig:
    """Where and how safely it is trained; what and how long is the method's own."""

    precision: Literal["float32", "bf16"] = "float32"
    """bf16 computes in bfloat16 where digits do not matter (autocast), on a GPU as on the CPU."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    seed: int = 0
    """Decides the initial weights, the order of clips and how they are mixed."""
    checkpoint_every_s: float = 120.0
    """Seconds between checkpoints."""
    log_every: int = 10
    """Steps between lines of metrics.jsonl."""
    keep_every: int = 0
    """Steps between copies of the weights that stay, in `steps/`, to look at how training went; 0 keeps none."""
    average: int = 0
    """A stage ends with the mean of its last so many copies, where it has them: steadier than the last one alone."""

    def __post_init__(self) -> None:
        require_finite(self)
        require_least(1, self, "log_every")
        require_least(0, self, "seed", "checkpoint_every_s", "keep_every", "average")
        require(not self.average or self.keep_every > 0, "average", self.average, "0 without keep_every")


@dataclass(frozen=True)
class Config:
    """Everything a training run depends on."""

    method: MethodConfig = field(default_factory=MethodConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON/TOML values; `None` is left out."""
    return {key: _plain(value) for key, value in vars(config).items() if value is not None}


def from_dict(kind: type[T], values: dict[str, Any], where: str = "configuration", default: T | None = None) -> T:
    """Build a configuration from plain values, checking every key and type.

    Args:
        kind: The dataclass to build.
        values: Nested dictionaries as TOML or JSON gives them.
        where: Named in errors, e.g. the file the values came from.
        default: Values not mentioned are taken from here instead of from the class.
    """
    hints = get_type_hints(kind)
    known = {f.name: hints[f.name] for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if not isinstance(values, dict):
        raise ConfigError(f"{where} holds no settings, but {shown(values)}.", "Write it again.")
    for key in values:
        if key not in known:
            raise ConfigError(f"{where}: unknown setting {key!r}.", f"Known here: {', '.join(known)}.")
    base = default if default is not None else kind()
    changes = {key: _typed(known[key], value, f"{where}: {key}", getattr(base, key)) for key, value in values.items()}
    try:
        return dataclasses.replace(base, **changes)  # type: ignore[type-var]
    except ConfigError as error:  # a value of the right type that makes no sense
        raise ConfigError(f"{where}: {error.message}", error.remedy) from error


def changed_settings(before: Any, after: Any) -> list[str]:
    """The settings in which two configurations of one kind differ, such as `train.seed`; `method` for two methods."""
    names = []
    for key, value in vars(before).items():
        other = getattr(after, key)
        if dataclasses.is_dataclass(value) and type(value) is type(other):
            names += [f"{key}.{name}" for name in changed_settings(value, other)]
        elif value != other:
            names.append(key)
    return names


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; errors name the file, the place in it and what to do."""
    remedy = "Give the path of a TOML file; those of this project are in configs/, in a clone of its repository."
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist.", remedy) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}.", remedy) from error
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:  # numbers and nesting beyond all measure
        raise ConfigError(f"{path} is not valid TOML: {error}.", "Correct that line and run again.") from error


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _typed(hint: Any, value: Any, where: str, base: Any) -> Any:
    """Check `value` against a field's type and convert what TOML writes differently (paths, tuples, whole floats)."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(value, int | float) and abs(value) >= 2**63:
        raise ConfigError(f"{where} is {shown(value)}, which is too large.", "Correct the value and run again.")
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if isinstance(value, dict):
            # a method's own class, where the base is one
            return from_dict(hint if base is None else type(base), value, where, base)
    elif origin is Literal:
        if value in arguments:
            return value
        raise ConfigError(f"{where} is {value!r}.", f"Choose one of: {', '.join(map(str, arguments))}.")
    elif origin in (UnionType, Union):
        return _typed(next(a for a in arguments if a is not type(None)), value, where, base)
    elif origin is tuple:
        if isinstance(value, list):
            return tuple(_typed(arguments[0], item, where, None) for item in value)
    elif hint is Path:
        if isinstance(value, str):
            return Path(value)
    elif hint is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    elif type(value) is hint:
        return value
    expected = getattr(hint, "__name__", str(hint))
    raise ConfigError(f"{where} is {value!r}, which is not of type {expected}.", "Correct the value and run again.")
