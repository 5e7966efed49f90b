"""What every segmenter answers, how coarse answers become masks, and how one is chosen by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from PIL import Image as Pillow

from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from soundwhere.types import Image

    Mask = NDArray[np.bool_]  # (H, W)
    Box = tuple[float, float, float, float]  # xyxy, pixels
    Point = tuple[float, float, int]  # x, y in pixels; 1 belongs to the object, 0 does not

CANDIDATES: Final = 3
"""Masks proposed for a box."""


@dataclass(frozen=True)
class Embedding:
    """A picture as a segmenter sees it: arrays that can be stored, and the picture's (height, width)."""

    size: tuple[int, int]
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Candidate:
    """A proposed mask, and how good the segmenter thinks it is, 0 to 1."""

    mask: Mask
    score: float


class Segmenter(Protocol):
    """A way from boxes and points to masks. Several threads may ask at once."""

    name: str
    """Which one it is, with everything that changes its masks; part of every event and of cached files' names."""

    def embed(self, image: Image) -> Embedding:
        """Look at a picture, RGB, shape (H, W, 3), uint8. The slow part."""

    def propose(self, embedding: Embedding, box: Box) -> list[Candidate]:
        """Three masks for a box, in any order: whoever shows them ranks them."""

    def refine(
        self, embedding: Embedding, box: Box | None, points: Sequence[Point], previous: Mask | None = None
    ) -> Mask:
        """One mask for points, perhaps within a box; of several the one most like `previous`."""


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best score first; equals in the segmenter's own order."""
    return sorted(candidates, key=lambda candidate: -candidate.score)


def upscaled(values: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    """Bring logits to a size (height, width) bilinearly."""
    height, width = size
    picture = Pillow.fromarray(np.ascontiguousarray(values, np.float32))
    return np.asarray(picture.resize((width, height), Pillow.Resampling.BILINEAR))


def choose(masks: Sequence[Mask], scores: Sequence[float], previous: Mask | None) -> Mask:
    """The mask most like the one before, so that a click changes it and does not replace it; else the best score."""
    if previous is None or not previous.any():
        return masks[int(np.argmax(scores))]
    overlaps = [(mask & previous).sum() / max(1, (mask | previous).sum()) for mask in masks]
    return masks[int(np.argmax(overlaps))]


def open_segmenter(name: str) -> Segmenter:
    """Open a segmenter.

    Args:
        name: `simple`; `onnx:DIR`, a folder with an encoder and a decoder; `transformers:MODEL`, a model id or folder.

    Raises:
        ConfigError: There is none of that name.
        CheckpointError: Its files are missing.
        MissingExtraError: What it runs on is not installed.
    """
    kind, _, where = name.partition(":")
    if name == "simple":
        from soundwhere.annotate.segmenter.simple import SimpleSegmenter

        return SimpleSegmenter()
    if kind == "onnx" and where:
        from soundwhere.annotate.segmenter.onnx import OnnxSegmenter

        return OnnxSegmenter(Path(where))
    if kind == "transformers" and where:
        from soundwhere.annotate.segmenter.transformers import TransformersSegmenter

        return TransformersSegmenter(where)
    raise ConfigError(f"There is no segmenter {name!r}.", "Choose simple, onnx:DIR or transformers:MODEL.")
