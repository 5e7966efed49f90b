"""Who is asked about every scene, and two who need no network: answers without input, and files of maps."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from zlib import crc32

import torch

from soundwhere.evaluation.rows import Kind, Row
from soundwhere.metrics.baselines import everything_on, random_smooth

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from torch import Tensor

    from soundwhere.evaluation.constant import Blobs
    from soundwhere.evaluation.predictions import Predictions
    from soundwhere.evaluation.reading import View
    from soundwhere.types import Scene

EVERYTHING, RANDOM = Row(answer="everything on"), Row(answer="random smooth maps")
_SEED = 0  # of the random maps


class Answer(NamedTuple):
    """What is answered about B scenes.

    Attributes:
        maps: Shape (B, K, h, w), or (B, K, F, h, w) for one map per frame, on the CPU.
        confidence: How surely each map shows a sounding source, shape (B, K), where the answer says so itself.
    """

    maps: Tensor
    confidence: Tensor | None = None


class Answerer(Protocol):
    """Answers about scenes, in one or several rows."""

    @property
    def rows(self) -> Mapping[Row, Kind]:
        """What it answers as, in the order of the table."""

    @property
    def identity(self) -> dict[str, Any]:
        """What its answers depend on besides the scenes, as JSON values."""

    def answer(self, view: View) -> dict[Row, Answer]:
        """What it says of each row."""


class Method(Answerer, Protocol):
    """An answerer that stands for a method, whose maps can be drawn."""

    @property
    def label(self) -> str:
        """What it is called in tables."""

    def own(self, scenes: Sequence[Scene]) -> Tensor:
        """Its maps of scenes of one size as they are meant, shape (B, K, h, w)."""


class InputFreeAnswerer:
    """Answers that neither look nor listen.

    Args:
        blobs: Constant ones, by their rows.
        maps: How many maps the others give.
        others: Which others there are.
    """

    def __init__(self, blobs: Mapping[Row, Blobs], maps: int, others: Sequence[Row] = (EVERYTHING, RANDOM)) -> None:
        self._blobs = blobs
        self._maps = maps
        self.rows: dict[Row, Kind] = dict.fromkeys((*blobs, *others), "input-free")

    @property
    def identity(self) -> dict[str, Any]:
        """Its rows, in which the blobs' frames and widths are, and the seed."""
        grids = sorted({each.grid for each in self._blobs.values()})
        return {"input-free": list(map(str, self.rows)), "grids": grids, "maps": self._maps, "seed": _SEED}

    def answer(self, view: View) -> dict[Row, Answer]:
        """The same maps for every scene, but for the random ones."""
        return {row: Answer(self._answer(row, view)) for row in self.rows}

    def _answer(self, row: Row, view: View) -> Tensor:
        height, width = view.size
        if row.answer == RANDOM.answer:
            # crc32 depends on the name alone, unlike `hash`, which changes from run to run
            seeds = [crc32(f"{_SEED} {scene.name}".encode()) for scene in view.scenes]
            return torch.stack([random_smooth(height, width, self._maps, seed=seed) for seed in seeds])
        blobs = self._blobs.get(row)
        fixed = everything_on(height, width, self._maps) if blobs is None else blobs.maps(height, width)
        return fixed.expand(len(view.scenes), -1, -1, -1)


class FilesAnswerer:
    """Heatmaps that other people's code wrote. Nobody can take the senses of a file away: it has one row.

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
        self.rows: dict[Row, Kind] = {Row(label): "method"}
        self._predictions = predictions
        self._names = names

    @property
    def identity(self) -> dict[str, Any]:
        """A digest of names, sizes and times of the files."""
        stamps = json.dumps([self._predictions.stamp(name) for name in self._names])
        return {"label": self.label, "files": hashlib.sha256(stamps.encode()).hexdigest()}

    def answer(self, view: View) -> dict[Row, Answer]:
        """The maps as they were written."""
        return {Row(self.label): Answer(self.own(view.scenes))}

    def own(self, scenes: Sequence[Scene]) -> Tensor:
        """The maps of scenes for which they have one shape, as they were written."""
        return torch.stack([self._predictions.read(scene.name) for scene in scenes])

    def shape(self, scene: Scene) -> tuple[int, int, int]:
        """Number, height and width of a scene's maps."""
        return self._predictions.shape(scene.name)


def alike(asked: Sequence[Answerer]) -> Callable[[Scene], Hashable]:
    """What scenes have in common that may be asked about together: sizes of the truth, and of maps in files."""
    files = [each for each in asked if isinstance(each, FilesAnswerer)]
    return lambda scene: (scene.masks.shape, *(each.shape(scene) for each in files))
