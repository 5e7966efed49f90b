"""Scoring answers over scenes: a model's, with and without its ears, beside those that need neither eyes nor ears."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import torch
from torch.nn import functional as F

from soundwhere.data.controls import silence, swap_pictures, swap_sounds
from soundwhere.media.image import normalise
from soundwhere.metrics.baselines import constant_pair, random_smooth
from soundwhere.metrics.pairs import PairScores, concatenate
from soundwhere.metrics.protocols import frame_wise
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from soundwhere.models.scav import SCAV
    from soundwhere.types import Scene

    Answer = Callable[[Sequence[Scene]], Tensor]  # scenes of one size -> maps (B, K, H, W) over their pictures

BATCH = 16


def score(answer: Answer, scenes: Sequence[Scene], tick: Callable[[int], None] | None = None) -> PairScores:
    """Score an answer frame-wise: masks over the full picture, Hungarian matching, `minmax-0.5`.

    Args:
        answer: Gives maps for scenes.
        scenes: With the truth.
        tick: Called with the number of scenes of each finished batch.
    """
    parts = []
    for numbers, group in same_size(scenes):
        truth = torch.from_numpy(np.stack([scene.masks for scene in group]))
        parts.append(frame_wise(answer(group), truth, scenes=torch.tensor(numbers)))
        if tick is not None:
            tick(len(group))
    return concatenate(parts)


def same_size(scenes: Sequence[Scene], batch: int = BATCH) -> Iterator[tuple[list[int], list[Scene]]]:
    """Runs of up to `batch` neighbouring scenes that can be stacked, with their numbers."""
    for start in range(0, len(scenes), batch):
        numbered = list(enumerate(scenes[start : start + batch], start))
        for _, group in groupby(numbered, key=lambda item: item[1].masks.shape):
            numbers, members = zip(*group, strict=True)
            yield list(numbers), list(members)


def scene_batch(scenes: Sequence[Scene], device: torch.device | str = "cpu") -> Batch:
    """Scenes of one size as a batch."""
    mixture = torch.from_numpy(np.stack([scene.mixture for scene in scenes]))
    return Batch(mixture, normalise(np.stack([scene.image for scene in scenes]))).to(device)


def upsample(maps: Tensor, scenes: Sequence[Scene]) -> Tensor:
    """Maps (B, K, h, w) bilinearly to the size of the scenes' pictures, on the CPU."""
    return F.interpolate(maps.float(), size=scenes[0].image.shape[:2], mode="bilinear", align_corners=False).cpu()


def model_answer(model: SCAV) -> Answer:
    """A model's maps: the raw similarity of each source, upsampled."""
    device = next(model.parameters()).device

    @torch.inference_mode()
    def answer(scenes: Sequence[Scene]) -> Tensor:
        return upsample(model.localise(scene_batch(scenes, device)).similarity, scenes)

    return answer


def stage_one_answer(model: SCAV) -> Answer:
    """Stage 1's one similarity map, upsampled, shape (B, 1, H, W)."""
    device = next(model.parameters()).device

    @torch.inference_mode()
    def answer(scenes: Sequence[Scene]) -> Tensor:
        batch = scene_batch(scenes, device)
        similarity = model.similarity(model.features(batch), model.audio(model.hear(batch.mixture)))
        return upsample(similarity[:, None], scenes)

    return answer


def feature_norm_answer(model: SCAV) -> Answer:
    """The norm of the visual features, which sees but does not listen, shape (B, 1, H, W)."""
    device = next(model.parameters()).device

    @torch.inference_mode()
    def answer(scenes: Sequence[Scene]) -> Tensor:
        return upsample(model.features(scene_batch(scenes, device)).norm(dim=1, keepdim=True), scenes)

    return answer


def fixed_answer(make: Callable[[int, int], Tensor]) -> Answer:
    """The same maps for every scene: `make(height, width)` gives (K, H, W)."""

    def answer(scenes: Sequence[Scene]) -> Tensor:
        height, width = scenes[0].image.shape[:2]
        return make(height, width).expand(len(scenes), -1, -1, -1)

    return answer


def random_answer(sources: int, seed: int = 0) -> Answer:
    """Smooth random maps, seeded by each scene's name."""

    def answer(scenes: Sequence[Scene]) -> Tensor:
        height, width = scenes[0].image.shape[:2]
        # crc32 depends on the name alone, unlike `hash`, which changes from run to run
        seeds = [crc32(f"{seed} {scene.name}".encode()) for scene in scenes]
        return torch.stack([random_smooth(height, width, sources, seed=own) for own in seeds])

    return answer


def score_with_controls(model: SCAV, scenes: Sequence[Scene], sigma_px: float) -> dict[str, PairScores]:
    """The model and every control, by name, over the same scenes.

    Args:
        model: In eval mode.
        scenes: Of one size.
        sigma_px: Width of the constant pair's Gaussians.
    """
    answer = model_answer(model)
    return {
        "model": score(answer, scenes),
        "audio-shuffled": score(answer, swap_sounds(scenes)),
        "silence": score(answer, silence(scenes)),
        "picture-shuffled": score(answer, swap_pictures(scenes)),
        "feature norm": score(feature_norm_answer(model), scenes),
        "constant pair": score(fixed_answer(lambda h, w: constant_pair(h, w, sigma_px)), scenes),
        "random maps": score(random_answer(model.sources), scenes),
    }
