"""Numbered draws: what a training step sees is a function of the seed and the step, so a run resumes exactly.

Draw number n is the same scene whoever asks for it and whenever: step s of a run with batch size B takes draws
s*B .. s*B + B - 1, and process r of W takes its contiguous share of them. There is no sampler state to store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from soundwhere.distributed import rank, world_size
from soundwhere.media.image import normalise
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from soundwhere.types import Image


class Example(NamedTuple):
    """One training scene: a picture or its cached features, and its separate sounds (one row if it came mixed)."""

    sounds: NDArray[np.float32]  # (K, N)
    image: Image | None = None  # (H, W, 3), uint8
    features: NDArray[np.float16] | None = None  # (C, h, w)
    targets: NDArray[np.float32] | None = None  # (K, h, w), what a map of each sound's frame is taught
    moments: NDArray[np.float32] | None = None  # (M - 1, K, N), the same sources at other moments
    labels: NDArray[np.int64] | None = None  # (K,), numbers of their classes
    captions: NDArray[np.float32] | None = None  # (K, captions, D), what is said of their pictures


class Draws(Protocol):
    """A source of training scenes."""

    native: bool
    """Whether scenes come already mixed, so that there are no separate sounds."""

    def __len__(self) -> int:
        """How many draws make an epoch."""

    def draw(self, number: int, pictures: bool = False) -> Example:
        """Draw `number`, which may exceed the length of an epoch; with `pictures`, never cached features."""


def collate(examples: list[Example], native: bool) -> Batch:
    """Stack examples into a batch; the mixture is the sum of the separate sounds."""
    stacked = {
        name: np.stack(values)
        for name in Example._fields
        if (values := [getattr(example, name) for example in examples])[0] is not None
    }
    image = stacked.pop("image", None)
    tensors = {name: torch.from_numpy(values) for name, values in stacked.items()}
    sounds = tensors.pop("sounds")
    if "features" in tensors:
        tensors["features"] = tensors["features"].float()
    picture = None if image is None else normalise(image)
    return Batch(sounds.sum(1), picture, solos=None if native else sounds, **tensors)


def batches(draws: Draws, steps: range, batch_size: int, workers: int = 0) -> Iterator[Batch]:
    """This process's share of the batch of every step in `steps`.

    Args:
        draws: Where scenes come from.
        steps: Optimiser steps, e.g. range(120, 1000) to go on after step 120.
        batch_size: Scenes per step over all processes; a multiple of their number.
        workers: Processes that prepare batches.
    """
    share = batch_size // world_size()
    starts = (step * batch_size + rank() * share for step in steps)
    dataset = _Numbered(draws)
    loader = DataLoader(
        dataset,
        batch_sampler=(list(range(start, start + share)) for start in starts),
        collate_fn=dataset.collate,
        num_workers=workers,
        # of its own: beginning to iterate draws a number, and the global state is part of what a run resumes
        generator=torch.Generator(),
    )
    yield from loader


class _Numbered(Dataset[Example]):
    """A map-style view of draws, as DataLoader wants it."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws

    def __getitem__(self, number: int) -> Example:
        return self._draws.draw(number)

    def collate(self, examples: list[Example]) -> Batch:
        return collate(examples, self._draws.native)
