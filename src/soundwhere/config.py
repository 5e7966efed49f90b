"""Every setting, as frozen dataclasses whose defaults are the paper's; read from TOML and flags, saved in checkpoints.

No torch here: the command line builds its `--help` from these classes.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from soundwhere import constants
from soundwhere.errors import ConfigError, shown

T = TypeVar("T")


def _require(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value}.", f"It must be {wanted}.")


def _positive_multiple(value: int, of: int) -> bool:
    return value > 0 and value % of == 0


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
        _require(self.temperature > 0, "temperature", self.temperature, "greater than 0")


@dataclass(frozen=True)
class ModelConfig:
    """The architecture. The defaults are `scav-r18`, the paper's model."""

    name: str = "scav-r18"
    """Name the configuration is known by."""
    visual: Literal["resnet18", "mobilenet_v2", "tiny"] = "resnet18"
    """Visual encoder."""
    audio: Literal["resnet18", "mobilenet_v2", "compact", "tiny"] = "resnet18"
    """Audio encoder."""
    visual_weights: str = "imagenet"
    """Weights the visual encoder starts from: `imagenet`, a file, or `none`."""
    audio_weights: str = "none"
    """Weights the audio encoder starts from: `none`, `imagenet`, a file, or `visual`, those of the visual encoder."""
    freeze_visual: bool = True
    """Keep the visual encoder as it is: no gradients, BatchNorm statistics that do not move."""
    fine_grid: bool = False
    """MobileNetV2 only: a 14 x 14 grid instead of 7 x 7 for a frame of 224."""
    frame_px: int = constants.FRAME_PX
    """Side of one frame, a multiple of 32."""
    spectrogram: Literal["paper", "peers", "mel"] = "paper"
    """Log-spectrogram preset."""
    pooling: Literal["average", "max"] = "average"
    """Pooling of the audio encoder's map into one embedding."""
    similarity: Literal["cosine", "dot"] = "cosine"
    """How an audio embedding is compared with a cell."""
    thresholds: Thresholds = Thresholds()
    """Thresholds of both stages' losses and of Algorithm 1."""
    prior: Literal["algorithm1", "minmax", "uniform"] = "algorithm1"
    """Spatial prior: Algorithm 1, min-max of the similarity (without Algorithm 1), or 0.5 everywhere (ablation a)."""
    prior_features: Literal["normalised", "raw"] = "normalised"
    """Features V' that Algorithm 1 compares."""
    dimension: int = 512
    """Embedding size D of stage 2."""
    decoupler_layers: int = constants.DECOUPLER_LAYERS
    """Layers of the visual decoupler."""
    decoupler_heads: int = constants.DECOUPLER_HEADS
    """Attention heads of both decouplers."""
    share_decoupler: bool = True
    """One visual decoupler for both branches."""
    maps: Literal["similarity", "presence", "shaped"] = "similarity"
    """What the maps of both stages show: the raw similarity; how surely a cell belongs to the source, which is what the
    loss `distil` reads from the similarity; or that, shaped by the strength of the visual features."""
    sounding_threshold: float = constants.NEGATIVE_THRESHOLD
    """Confidence from which on a source counts as sounding; calibrated once a model is trained."""
    decouple: bool = True
    """Localise with both stages; without (ablation b) stage 1's one map is the answer."""
    second_audio_encoder: bool = False
    """Give stage 2 an audio encoder of its own, so that it can train while stage 1's prior stays."""

    def __post_init__(self) -> None:
        _require(
            not self.fine_grid or self.visual == "mobilenet_v2", "visual", self.visual, "mobilenet_v2 if fine_grid"
        )
        stride, heads = constants.ENCODER_STRIDE_PX, self.decoupler_heads
        _require(_positive_multiple(self.frame_px, stride), "frame_px", self.frame_px, f"a multiple of {stride}")
        _require(self.decoupler_layers >= 1, "decoupler_layers", self.decoupler_layers, "1 or more")
        _require(heads >= 1, "decoupler_heads", heads, "1 or more")
        fits = _positive_multiple(self.dimension, 4) and _positive_multiple(self.dimension, heads)
        _require(fits, "dimension", self.dimension, f"a multiple of 4 and of the {heads} attention heads")


@dataclass(frozen=True)
class LossConfig:
    """What is minimised."""

    stage_one: Literal["infonce", "paper"] = "infonce"
    """Form of the stage-1 loss."""
    stage_two: Literal["distil", "paper"] = "distil"
    """Stage-2 loss: distillation of the solo sounds' stage-1 maps, or the paper's source-specific contrast."""
    teacher: Literal["grow", "algorithm1", "strength"] = "grow"
    """What `distil` teaches: a solo sound's stage-1 map, its peak grown over alike cells with strong features or shaped
    by Algorithm 1; or the feature strength of the frame that each sound came with (clips only)."""
    softness: float = 0.1
    """Width of the step from background to source in what `distil` teaches; a wide one keeps grades of strength."""
    cross_sample_negatives: bool = False
    """Add cross-sample negatives to stage 2 (ablation d)."""
    prior_gradient: bool = False
    """Let stage 2's gradient flow through the spatial prior (joint training only)."""
    blank: int = 0
    """Bands, and as many spans of time, that are blanked in each spectrogram trained on (SpecAugment)."""

    def __post_init__(self) -> None:
        _require(self.softness > 0, "softness", self.softness, "greater than 0")
        _require(self.blank >= 0, "blank", self.blank, "0 or more")


@dataclass(frozen=True)
class DataConfig:
    """What is trained on. Labels are never read."""

    source: Literal["synthetic", "real-duet", "folder"] = "synthetic"
    """The made-up world, the real-duet set, or a folder of videos."""
    root: Path | None = None
    """Folder of the data set (real-duet, folder)."""
    mixtures: Literal["made", "native"] = "made"
    """Make mixtures from single clips, or take videos with several sources as they are."""
    split: Literal["train", "train+val"] = "train"
    """real-duet: the clips to train on; a final model may take those of val too."""
    made_up: int = 0
    """Things of the made-up world, each with its sound, that join the clips."""
    layouts: tuple[Literal["side-by-side", "stacked", "grid", "pasted"], ...] = ("side-by-side",)
    """How frames of a made mixture are put together."""
    pool: int = 0
    """Made mixtures: show this many pictures again and again with other sounds, encoded whole; 0 shows ever new ones,
    whose features are joined from those of single frames."""
    silent: int = 0
    """Silent distractors per scene: further objects (made-up world) or frames (made mixtures)."""
    vary_silent: bool = False
    """Made mixtures: draw the number of silent frames for every step, up to `silent`."""
    absent: float = 0.0
    """Share of stage 2's scenes in which one sound is silent or its source not shown (teacher `strength` only)."""
    interference: float = 0.0
    """Share of single clips heard with the quieter sound of another, which is not shown."""
    gain_db: float = 6.0
    """Each source's level is drawn within plus or minus this, after every source was scaled to one RMS."""
    single_fraction: float = 0.0
    """Share of stage 1's steps, at its start, that train on single clips before mixtures (a curriculum)."""
    scenes: int = 4000
    """Made-up world: how many scenes make an epoch."""
    cache: Path | None = None
    """Folder for frozen visual features; by default below the user's cache folder."""
    workers: int = 0
    """Processes that prepare batches; 0 prepares them in the training process."""

    def __post_init__(self) -> None:
        _require(len(self.layouts) > 0, "layouts", self.layouts, "at least one")
        for name in ("silent", "made_up", "pool"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        _require(self.gain_db >= 0, "gain_db", self.gain_db, "0 or more")
        for name in ("single_fraction", "interference", "absent"):
            _require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "between 0 and 1")
        _require(self.scenes >= 1, "scenes", self.scenes, "1 or more")
        _require(self.workers >= 0, "workers", self.workers, "0 or more")


@dataclass(frozen=True)
class TrainConfig:
    """How it is trained. Adam 1e-4 and batch 256 are the paper's."""

    stage: Literal["one", "two", "both", "joint"] = "both"
    """Stage 1, stage 2 (from a stage-1 checkpoint), one after the other, or both losses at once (ablation c)."""
    steps_one: int = 20_000
    """Optimiser steps of stage 1."""
    steps_two: int = 20_000
    """Optimiser steps of stage 2 (and of joint training)."""
    batch_size: int = constants.BATCH_SIZE
    """Scenes per optimiser step, over all processes."""
    batch_size_two: int | None = None
    """The same for stage 2, if it differs."""
    accumulate: int = 1
    """Parts a process's batch is cut into; saves memory, and leaves fewer contrastive negatives for each part."""
    learning_rate: float = constants.LEARNING_RATE
    """Initial learning rate of Adam."""
    learning_rate_two: float | None = None
    """The same for stage 2, if it differs."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Learning rate over the steps of a stage."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises from 0."""
    clip_norm: float = 0.0
    """Largest norm of the gradient; 0 leaves it as it is."""
    trainable: Literal["heads", "full"] = "heads"
    """Stage 2 trains its projections and decouplers, or (`full`) its audio encoder too."""
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

    def __post_init__(self) -> None:
        for name in ("steps_one", "steps_two", "batch_size", "accumulate", "log_every"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        for name in ("warmup_steps", "clip_norm", "seed", "checkpoint_every_s", "keep_every"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("learning_rate_two", "batch_size_two"):
            value = getattr(self, name)
            _require(value is None or value > 0, name, value, "greater than 0")
        _require(self.learning_rate > 0, "learning_rate", self.learning_rate, "greater than 0")

    def of_stage(self, stage: str) -> TrainConfig:
        """The same with the learning rate and the batch size of one stage."""
        if stage != "two":
            return self
        return dataclasses.replace(
            self,
            learning_rate=self.learning_rate_two or self.learning_rate,
            batch_size=self.batch_size_two or self.batch_size,
        )


CONFIGS: dict[str, ModelConfig] = {
    # The paper: ResNet-18 for both, D 512.
    "scav-r18": ModelConfig(),
    # Small and quick on a CPU. Both encoders start from photographs: hearing takes far fewer sounds then.
    "scav-mobile": ModelConfig(
        name="scav-mobile",
        visual="mobilenet_v2",
        audio="mobilenet_v2",
        audio_weights="visual",
        spectrogram="mel",
        prior_features="raw",
        dimension=256,
        decoupler_layers=2,
        maps="shaped",
    ),
    # For the made-up world: small CNNs trained from scratch, the visual one included.
    "scav-tiny": ModelConfig(
        name="scav-tiny",
        visual="tiny",
        audio="tiny",
        visual_weights="none",
        freeze_visual=False,
        frame_px=128,
        dimension=128,
        decoupler_layers=2,
    ),
}
"""The named models."""


@dataclass(frozen=True)
class Config:
    """Everything a training run depends on."""

    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
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
    """The settings in which two configurations of one kind differ, such as `train.seed`."""
    names = []
    for key, value in vars(before).items():
        other = getattr(after, key)
        if dataclasses.is_dataclass(value):
            names += [f"{key}.{name}" for name in changed_settings(value, other)]
        elif value != other:
            names.append(key)
    return names


def model_config(name: str, where: str = "") -> ModelConfig:
    """The configuration of a named model; `where` says in errors which file asked for it."""
    if name not in CONFIGS:
        place = f"{where}: there" if where else "There"
        raise ConfigError(f"{place} is no model named {name!r}.", f"Choose one of: {', '.join(CONFIGS)}.")
    return CONFIGS[name]


def read_config(path: Path) -> Config:
    """Read a TOML file with sections [model], [loss], [data] and [train]; `model.name` picks what the rest changes."""
    values = read_toml(path)
    model = values.get("model")
    name = model.get("name") if isinstance(model, dict) else None
    named = model_config(name, str(path)) if isinstance(name, str) else ModelConfig()
    return from_dict(Config, values, str(path), Config(model=named))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; errors name the file, the place in it and what to do."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} does not exist.", "Give the path of a TOML file, such as configs/paper.toml."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.", "Give the path of a TOML file.") from error
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
            return from_dict(hint, value, where, base)
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
    raise ConfigError(f"{where} is {value!r}, which is no {expected}.", "Correct the value and run again.")
