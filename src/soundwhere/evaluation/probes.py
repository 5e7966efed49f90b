"""Who is asked about every scene: a model, also with its senses taken away, answers without input, files of maps."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch

from soundwhere.config import to_dict
from soundwhere.constants import SOURCES
from soundwhere.data.controls import partner
from soundwhere.errors import DataError
from soundwhere.evaluation.answers import model_scale, random_answer, scene_batch, stage_one_similarity
from soundwhere.media.image import resize
from soundwhere.methods.scav.peeling import peel
from soundwhere.metrics.baselines import constant_cells, everything_on, feature_norm
from soundwhere.metrics.frames import Grid, cut
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from soundwhere.evaluation.constant import Constant
    from soundwhere.evaluation.predictions import Predictions
    from soundwhere.methods.scav.model import SCAV
    from soundwhere.types import Scene

Kind = Literal["method", "training-free", "deaf", "blind", "image-only", "input-free", "negative", "solo"]


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        name: What answers.
        kind: A method as it is meant to be used, a rival made of its first stage, or which kind of control; `negative`
            is sound of absent classes, which has no truth and is only asked how much it lights; `solo` has a map for
            each source's sound alone, in the order of the truth, and is only asked where its peak lies.
        method: Label of the method a control belongs to; empty for answers without input.
        variant: One of several like it that was not chosen: shown in the main table only.
    """

    name: str
    kind: Kind
    method: str = ""
    variant: bool = False


class View:
    """Some scenes of one size, and what is needed of others to mislead a method about them.

    Args:
        listed: All scenes.
        numbers: Numbers of the scenes looked at.
        scenes: Those scenes.
        absent: For each of all scenes, one whose classes are not seen in it.
    """

    def __init__(
        self,
        listed: Sequence[Scene],
        numbers: Sequence[int],
        scenes: Sequence[Scene],
        absent: Sequence[int | None] = (),
    ) -> None:
        self.scenes = scenes
        self._listed = listed
        self._numbers = numbers
        self._absent = absent

    @cached_property
    def others(self) -> list[Scene]:
        """For each scene the one half the list away, its picture brought to the same size."""
        height, width = self.scenes[0].image.shape[:2]
        found = [self._listed[partner(number, len(self._listed))] for number in self._numbers]
        return [replace(other, image=resize(other.image, (height, width))) for other in found]

    @cached_property
    def negatives(self) -> list[Scene | None]:
        """For each scene one with no class in common, if there is one."""
        chosen = [self._absent[number] if self._absent else None for number in self._numbers]
        return [None if number is None else self._listed[number] for number in chosen]


def heard_apart(scene: Scene) -> bool:
    """Whether each of at least two sources can be heard alone."""
    return 2 <= len(scene.sounds) == len(scene.masks)


class Probe(Protocol):
    """Answers about scenes, in one or several rows."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """What it answers as."""

    @property
    def identity(self) -> dict[str, Any]:
        """What its answers depend on besides the scenes, as JSON values."""

    def answer(self, view: View) -> dict[str, Tensor]:
        """Maps by the name of the row, shape (B, K, h, w), or (B, K, F, h, w) for one map per frame."""


class Method(Probe, Protocol):
    """A probe that stands for a method, whose maps can be drawn."""

    @property
    def label(self) -> str:
        """What it is called in tables."""

    def own(self, scenes: Sequence[Scene]) -> Tensor:
        """Its maps of scenes of one size as they are meant, shape (B, K, h, w)."""


class ModelProbe:
    """A model: as it is, with the sound of another scene, in silence, with another picture, and its eye alone.

    Its first stage is asked too: for two maps without any second stage (`peel`), and where it points when it hears each
    source alone.

    Args:
        label: What it is called in tables.
        model: In eval mode.
        grid: Rows and columns of frames in the pictures.
        maps: How many maps the norm of its visual features is cut into.
        single_frames: Show it one frame at a time, with the mixed sound.
        negatives: Also play it sounds of absent classes.
    """

    def __init__(
        self,
        label: str,
        model: SCAV,
        grid: Grid = (1, 1),
        *,
        maps: int = 2,
        single_frames: bool = False,
        negatives: bool = False,
    ) -> None:
        self.label = label
        self.model = model
        self._grid = grid
        self._maps = maps
        self._single = single_frames
        self._negatives = negatives
        self._device = next(model.parameters()).device

    @property
    def rows(self) -> tuple[Row, ...]:
        """The model and its controls."""
        own = Row(self.label, "method", self.label)
        controls = (
            Row(f"{self.label}, audio-shuffled", "deaf", self.label),
            Row(f"{self.label}, silence", "deaf", self.label),
            Row(f"{self.label}, picture-shuffled", "blind", self.label),
            Row(f"{self.label}, feature norm", "image-only", self.label),
        )
        negative = (Row(f"{self.label}, absent sound", "negative", self.label),)
        first = (
            Row(f"{self.label}, peel", "training-free", self.label),
            Row(f"{self.label}, peel, audio-shuffled", "deaf", self.label),
            Row(f"{self.label}, solo sounds", "solo", self.label),
        )
        return (own, *controls, *(() if self._single else first), *(negative if self._negatives else ()))

    @property
    def identity(self) -> dict[str, Any]:
        """Its configuration and a digest of its weights."""
        return {
            "label": self.label,
            "model": to_dict(self.model.config),
            "weights": weights_digest(self.model),
            "maps": self._maps,
            "single_frames": self._single,
            "rows": [row.name for row in self.rows],
        }

    @torch.inference_mode()
    def answer(self, view: View) -> dict[str, Tensor]:
        """Its maps of each row; the pictures are encoded once for all that share them."""
        scenes = view.scenes
        scale = model_scale(self.model, scenes[0], self._grid)
        batch = scene_batch(scenes, self._device, scale)
        seen = self._see(batch)
        other = scene_batch(view.others, self._device, scale)
        height, width = scenes[0].image.shape[:2]
        whole = self.model.features(batch) if self._single else seen
        answers = {
            self.label: self._localise(seen, batch.mixture),
            f"{self.label}, audio-shuffled": self._localise(seen, other.mixture),
            f"{self.label}, silence": self._localise(seen, torch.zeros_like(batch.mixture)),
            f"{self.label}, picture-shuffled": self._localise(self._see(other), batch.mixture),
            f"{self.label}, feature norm": feature_norm(whole, height, width, self._grid, self._maps).cpu(),
        }
        if not self._single:
            first, misled = (stage_one_similarity(self.model, seen, each.mixture) for each in (batch, other))
            answers |= {
                f"{self.label}, peel": peel(first, seen, SOURCES, self._grid).float().cpu(),
                f"{self.label}, peel, audio-shuffled": peel(misled, seen, SOURCES, self._grid).float().cpu(),
                f"{self.label}, solo sounds": self._solos(seen, scenes),
            }
        if self._negatives:
            sounds = [scene if found is None else found for scene, found in zip(scenes, view.negatives, strict=True)]
            mixture = torch.stack([torch.from_numpy(scene.mixture) for scene in sounds]).to(self._device)
            answers[f"{self.label}, absent sound"] = self._localise(seen, mixture)
        return answers

    @torch.inference_mode()
    def own(self, scenes: Sequence[Scene]) -> Tensor:
        """Its maps of the scenes as they are, shape (B, K, h, w); maps of single frames are joined."""
        batch = scene_batch(scenes, self._device, model_scale(self.model, scenes[0], self._grid))
        maps = self._localise(self._see(batch), batch.mixture)
        if maps.ndim == 4:
            return maps
        lines = maps.chunk(self._grid[0], dim=2)
        return torch.cat([torch.cat(line.unbind(2), dim=-1) for line in lines], dim=-2)

    def _solos(self, features: Tensor, scenes: Sequence[Scene]) -> Tensor:
        """Stage 1's map of each source's sound alone, shape (B, S, h, w), on the CPU; 0 where sounds are not apart."""
        maps = torch.zeros(len(scenes), len(scenes[0].masks), *features.shape[-2:])
        for place, scene in enumerate(scenes):
            if heard_apart(scene):
                sounds = torch.from_numpy(scene.sounds).to(self._device)
                seen = features[place].expand(len(sounds), -1, -1, -1)
                maps[place] = stage_one_similarity(self.model, seen, sounds).float().cpu()
        return maps

    def _see(self, batch: Batch) -> Tensor:
        """Visual features, (B, C, h, w) or of every single frame (B x F, C, h, w)."""
        if not self._single:
            return self.model.features(batch)
        assert batch.image is not None
        frames = cut(batch.image, self._grid).movedim(2, 1).flatten(0, 1)
        return self.model.features(Batch(batch.mixture, frames))

    def _localise(self, features: Tensor, mixture: Tensor) -> Tensor:
        """The maps, on the CPU."""
        scenes, frames = len(mixture), len(features) // len(mixture)
        heard = mixture.repeat_interleave(frames, dim=0)
        maps = self.model.localise(Batch(heard, features=features)).similarity
        if maps.ndim != 4 or len(maps) != len(heard) or 0 in maps.shape:
            raise DataError(
                f"The model {self.label} answers {len(heard)} scenes with maps of shape {tuple(maps.shape)}.",
                "A method answers with maps of shape (scenes, sources, height, width).",
            )
        maps = maps.float().cpu()
        return maps.reshape(scenes, frames, *maps.shape[1:]).movedim(1, 2) if self._single else maps


class InputFreeProbe:
    """Answers that neither look nor listen.

    Args:
        constant: Where the constant blobs are.
        maps: How many maps the others give.
        seed: Of the random maps.
    """

    def __init__(self, constant: Constant, maps: int, seed: int = 0) -> None:
        self._constant = constant
        self._maps = maps
        self._seed = seed
        self._random = random_answer(maps, seed)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Constant blobs of every width, everything on, random smooth maps."""
        constant = (Row(name, "input-free", variant=name != self._constant.best) for name in self._constant.rows)
        return (*constant, Row("everything on", "input-free"), Row("random smooth maps", "input-free"))

    @property
    def identity(self) -> dict[str, Any]:
        """The places of the blobs, and the seed."""
        return {"input-free": self._constant.identity, "maps": self._maps, "seed": self._seed}

    def answer(self, view: View) -> dict[str, Tensor]:
        """The same maps for every scene, but for the random ones."""
        height, width = view.scenes[0].image.shape[:2]
        constant = self._constant
        fixed = {
            name: constant_cells(height, width, constant.grid, sigma, constant.cells)
            for name, sigma in constant.rows.items()
        }
        fixed["everything on"] = everything_on(height, width, self._maps)
        answers = {name: maps.expand(len(view.scenes), -1, -1, -1) for name, maps in fixed.items()}
        return {**answers, "random smooth maps": self._random(view.scenes)}


class FilesProbe:
    """Heatmaps that other people's code wrote.

    Args:
        label: What they are called in tables.
        predictions: Where they are.
        names: The scenes to be scored.
        any_number: Whether scenes may have different numbers of maps.

    Attributes:
        maps: How many maps a scene has at most.

    Raises:
        DataError: Scenes have different numbers of maps and may not, or files are damaged.
    """

    def __init__(self, label: str, predictions: Predictions, names: Sequence[str], any_number: bool = False) -> None:
        self.label = label
        self.maps = predictions.map_count(names, any_number)
        self._predictions = predictions
        self._names = names

    @property
    def rows(self) -> tuple[Row, ...]:
        """One row: nobody can take the senses of a file away."""
        return (Row(self.label, "method", self.label),)

    @property
    def identity(self) -> dict[str, Any]:
        """A digest of names, sizes and times of the files."""
        stamps = json.dumps([self._predictions.stamp(name) for name in self._names])
        return {"label": self.label, "files": hashlib.sha256(stamps.encode()).hexdigest()}

    def answer(self, view: View) -> dict[str, Tensor]:
        """The maps as they were written."""
        return {self.label: self.own(view.scenes)}

    def shape(self, scene: Scene) -> tuple[int, int, int]:
        """Number, height and width of a scene's maps; only scenes with equal ones are asked about together."""
        return self._predictions.shape(scene.name)

    def own(self, scenes: Sequence[Scene]) -> Tensor:
        """The maps as they were written; those of one batch must be of one shape."""
        maps = [self._predictions.read(scene.name) for scene in scenes]
        if len({each.shape for each in maps}) > 1:
            shapes = ", ".join(sorted({str(tuple(each.shape)) for each in maps}))
            raise DataError(
                f"{self._predictions.folder} holds maps of several shapes for scenes of one size: {shapes}.",
                "Write as many maps of the same size for every scene.",
            )
        return torch.stack(maps)


class OwnProbe:
    """A method as it is, without its controls.

    Args:
        method: Whose maps.
    """

    def __init__(self, method: Method) -> None:
        self._method = method

    @property
    def rows(self) -> tuple[Row, ...]:
        """The method's own row."""
        return (Row(self._method.label, "method", self._method.label),)

    @property
    def identity(self) -> dict[str, Any]:
        """That of the method."""
        return {"own": self._method.identity}

    def answer(self, view: View) -> dict[str, Tensor]:
        """The method's maps."""
        return {self._method.label: self._method.own(view.scenes)}


def weights_digest(model: SCAV) -> str:
    """A digest of a model's weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
