"""Who is compared: the controlled configurations, trained with one budget, and models that are taken as they are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from soundwhere.data.clips import Clips
from soundwhere.data.training_scenes import make_clips
from soundwhere.errors import CheckpointError, ConfigError
from soundwhere.evaluation.reading import heard_apart
from soundwhere.methods.catalogue import METHODS, NAMES, find_method, read_config
from soundwhere.methods.files import build, load_model
from soundwhere.training.run import check_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.config import Config, DataConfig, MethodConfig
    from soundwhere.evaluation.task import Task
    from soundwhere.methods.method import Network

REFERENCE: Final = "scav"
"""The row that the others are compared with; it stands last, as in the paper's tables."""
STAND_IN: Final = "scav-wide"
"""The row that they are compared with where the reference has none."""
OWN: Final = "self-supervised"
"""What rows are that were told nothing but clips."""
TOLD_MORE: Final = frozenset({"with labels", "with captions"})
"""What rows are that were told more, which the paper prints in grey."""
SUFFIX: Final = "-controlled.toml"
CAPTIONS: Final = "oa-ssl"
"""The row that needs a file which nobody has by default."""
SHARED: Final = (
    *("visual", "audio", "visual_weights", "audio_weights", "freeze_visual", "fine_grid", "frame_px", "spectrogram"),
    *("blank", "batch_size", "learning_rate", "schedule", "warmup_steps", "clip_norm"),
)
"""What a controlled row takes from the recipe: encoders, front end and schedule."""
_SCENES: Final = ("layouts", "silent", "vary_silent", "interference", "absent")  # what a row makes of the clips
_LOOKED_AT: Final = 16  # scenes, to learn whether a benchmark has what a method must be given


@dataclass(frozen=True)
class Contender:
    """A row of the comparison.

    Attributes:
        name: The method's, such as `ez-vsl`.
        source: What it is trained with, or the model that is taken: its name, its file or the folder of its run.
    """

    name: str
    source: Config | str

    @property
    def origin(self) -> str:
        """What tells it from other rows of its method: the seed, or the model."""
        return self.source if isinstance(self.source, str) else f"seed {self.source.train.seed}"

    @property
    def folder(self) -> str:
        """What the folder of its training is called."""
        return f"{self.name}, {self.origin}".replace(", ", "-").replace(" ", "-")


@dataclass(frozen=True)
class Facts:
    """What a reader must know of a row besides its scores.

    Attributes:
        labels: When it reads labels or captions, in words.
        audioset: Whether its ear knows AudioSet, in words.
        parameters: How many it has.
        trained: For how long, or where it comes from, in words.
        seed: Of its training, if it was trained here.
    """

    labels: str
    audioset: str
    parameters: int
    trained: str = ""
    seed: int | None = None

    @property
    def kind(self) -> str:
        """What it learnt from, in a word or two, by which rows are grouped."""
        if self.labels == "never":
            return OWN if self.audioset == "no" else "knows AudioSet"
        return "with captions" if self.labels.startswith("captions") else "with labels"


def controlled_files(folder: Path, recipe: Path) -> dict[str, Path]:
    """The files of all rows by name, the reference last.

    Raises:
        ConfigError: The folder has none.
    """
    files = {path.name.removesuffix(SUFFIX): path for path in sorted(folder.glob(f"*{SUFFIX}"))}
    if not files:
        raise ConfigError(
            f"{folder} holds no controlled configuration (NAME{SUFFIX}).",
            "Give the folder with --configs, such as configs/rivals of the repository.",
        )
    return files | {REFERENCE: recipe}


def labels_of(contenders: Sequence[Contender]) -> list[str]:
    """What rows are called: their methods, with what tells them apart where a method has several."""
    names = [each.name for each in contenders]
    return [f"{each.name}, {each.origin}" if names.count(each.name) > 1 else each.name for each in contenders]


def total_steps(config: Config) -> int:
    """Optimiser steps of all stages together."""
    return sum(_lengths(config).values())


def read_row(path: Path, recipe: Config, *, steps: int | None, seed: int | None, **given: Any) -> Config:
    """A row's configuration on a recipe, with one budget for all.

    Args:
        path: Its file.
        recipe: What it shares with all rows; see `as_in`.
        steps: Of all stages together, instead of the file's.
        seed: Instead of the file's.
        given: Further settings of whatever section knows them; None leaves the file's.
    """
    config = as_in(recipe, read_config(path))
    if steps is not None:
        config = replace(config, method=config.method.lasting(steps))
    given = {name: value for name, value in {**given, "seed": seed}.items() if value is not None}
    sections = {}
    for name in ("method", "data", "train"):
        section = getattr(config, name)
        known = {field.name for field in fields(section)} & given.keys()
        sections[name] = replace(section, **{key: given[key] for key in known})
    return replace(config, **sections)


def as_in(recipe: Config, row: Config) -> Config:
    """A row on the clips, encoders, front end and schedule of a recipe: only head, loss and inference are its own."""
    known = {field.name for field in fields(row.method)} & {field.name for field in fields(recipe.method)}
    shared: dict[str, Any] = {name: getattr(recipe.method, name) for name in SHARED if name in known}
    scenes: dict[str, Any] = {name: getattr(row.data, name) for name in _SCENES}
    pool = recipe.data.pool if row.data.pool else 0
    return replace(row, method=replace(row.method, **shared), data=replace(recipe.data, **scenes, pool=pool))


def data_digest(data: DataConfig) -> str:
    """Names the content of the clips that are trained on; that of the made-up world is in its settings."""
    if data.source == "synthetic":
        return "made-up"
    clips = make_clips(data)
    digest = hashlib.sha256()
    for index in range(len(clips)):
        digest.update(clips.key(index).encode())
        if isinstance(clips, Clips):
            digest.update(clips[index].recording_key.encode())
    return digest.hexdigest()


def take(name: str, model: str) -> Network:
    """A model that is taken for a row.

    Raises:
        CheckpointError: It is a model of another method.
    """
    known = {*METHODS, *NAMES}
    if name not in known:
        raise ConfigError(f"There is no method {name!r} to take a model for.", f"Choose among {', '.join(known)}.")
    network = load_model(model)
    wanted, found = NAMES.get(name, name), network.config.family
    if found != wanted or (found != REFERENCE and network.config.name != name):
        right = found if found == REFERENCE else network.config.name
        raise CheckpointError(
            f"{model} holds a model of the method {right!r}, not of {name!r}.", f"Give it with --take {right}={model}."
        )
    return network


def preview(config: Config) -> Network:
    """What a configuration will train, without weights: it tells what must be given, or refuses.

    Raises:
        ConfigError: The method cannot be trained like this.
    """
    with torch.device("meta"):
        return build(check_config(config).method)


def check_given(label: str, network: Network, task: Task) -> None:
    """Refuse a benchmark that lacks what a method must be given, before hours of training.

    Raises:
        ConfigError: Its scenes have no labels, others than the method knows, or no separate sounds.
    """
    if not network.needs:
        return
    classes: Sequence[str] = getattr(network.config, "classes", ())
    for place in range(min(_LOOKED_AT, len(task.truths))):
        scene = task.truths[place]
        remedy = f"Leave it out (--methods), or choose another benchmark than {task.benchmark.name}."
        if "sounds" in network.needs and not heard_apart(scene):
            raise ConfigError(f"{label} must be given separate sounds, which the scene {scene.name} lacks.", remedy)
        if "labels" not in network.needs:
            continue
        if not scene.kinds:
            raise ConfigError(f"{label} must be given labels, and the scene {scene.name} has none.", remedy)
        unknown = sorted(set(scene.kinds) - set(classes))
        if unknown:
            raise ConfigError(
                f"{label} must be given labels, and does not know the class {unknown[0]!r} of the scene {scene.name}; "
                f"it knows {', '.join(classes)}.",
                remedy,
            )


def facts_of(network: Network, trained: str = "", seed: int | None = None) -> Facts:
    """What a network was told, and how large it is."""
    config = network.config
    needs = [phase.needs for stage in find_method(config.family).stages(config) for phase in stage.phases]
    when = [
        *(["in training"] if any(each.labels for each in needs) else []),
        *(["at test"] if "labels" in network.needs else []),
    ]
    labels = " and ".join(when) or ("captions in training" if any(each.captions for each in needs) else "never")
    return Facts(labels, _audioset(config), sum(weights.numel() for weights in network.parameters()), trained, seed)


def steps_done(config: Config, stage: str, step: int) -> int:
    """Optimiser steps of all stages up to a step of one of them."""
    lengths = _lengths(config)
    return sum(lengths[name] for name in list(lengths)[: list(lengths).index(stage)]) + step


def trained_words(config: Config, stage: str, step: int, seconds: float) -> str:
    """How long a row was trained, in words, from where it ended.

    Args:
        config: Of the row.
        stage: In which it ended.
        step: Of that stage.
        seconds: Of all its steps.
    """
    done, total = steps_done(config, stage, step), total_steps(config)
    words = f"{done} steps" if done >= total else f"stopped after {done} of {total} steps"
    return f"seed {config.train.seed}, {words} in {seconds / 60:.1f} min"


def _lengths(config: Config) -> dict[str, int]:
    """Optimiser steps of each stage, by name."""
    stages = find_method(config.method.family).stages(config.method)
    return {stage.name: stage.phases[-1].until for stage in stages}


def _audioset(config: MethodConfig) -> str:
    """Whether the ear of a network starts from weights that know AudioSet."""
    weights = getattr(config, "audio_weights", None)
    if weights is None:
        return "unknown"
    if weights in ("none", "imagenet", "built-in", "visual"):
        return "no"
    return "yes" if Path(weights).stem.startswith("yamnet") else f"unknown: starts from {Path(weights).name}"
