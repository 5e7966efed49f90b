"""Answers to "where does it sound?": a model's, and those of a picture or of nothing. Each gives maps for scenes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import torch
from torch.nn import functional as F

from soundwhere.constants import ENCODER_STRIDE_PX
from soundwhere.media.image import normalise, resize
from soundwhere.metrics.baselines import random_smooth
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from soundwhere.methods.scav.model import SCAV
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Scene

    Answer = Callable[[Sequence[Scene]], Tensor]  # scenes of one size -> maps (B, K, H, W) over their pictures


def scene_batch(scenes: Sequence[Scene], device: torch.device | str = "cpu", scale: float = 1.0) -> Batch:
    """Scenes of one size as a batch.

    Args:
        scenes: The scenes.
        device: Where the batch goes.
        scale: By which pictures are resized, for a model whose frames are not those of the scenes; the sides stay
            multiples of 32.
    """
    mixture = torch.from_numpy(np.stack([scene.mixture for scene in scenes]))
    images = [scene.image for scene in scenes]
    if scale != 1:
        height, width = (
            max(1, round(side * scale / ENCODER_STRIDE_PX)) * ENCODER_STRIDE_PX for side in images[0].shape[:2]
        )
        images = [resize(image, (height, width)) for image in images]
    return Batch(mixture, normalise(np.stack(images))).to(device)


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


def model_scale(model: SCAV, scene: Scene, grid: Grid) -> float:
    """How much a scene's picture is to be resized so that its frames have the size of the model's.

    Args:
        model: Whose frames are `frame_px` wide.
        scene: The scene.
        grid: Rows and columns of frames in its picture.
    """
    height, width = scene.image.shape[:2]
    return model.config.frame_px / float(min(height / grid[0], width / grid[1]))


def stage_one_similarity(model: SCAV, features: Tensor, sound: Tensor) -> Tensor:
    """S, shape (B, h, w): stage 1's one map of visual features (B, C, h, w) and waveforms (B, N)."""
    return model.similarity(features, model.audio(model.hear(sound)))


def stage_one_answer(model: SCAV, grid: Grid | None = None) -> Answer:
    """Stage 1's one similarity map, upsampled, shape (B, 1, H, W).

    Args:
        model: In eval mode.
        grid: Rows and columns of frames, if these are to be resized to the model's.
    """
    device = next(model.parameters()).device

    @torch.inference_mode()
    def answer(scenes: Sequence[Scene]) -> Tensor:
        scale = 1.0 if grid is None else model_scale(model, scenes[0], grid)
        batch = scene_batch(scenes, device, scale)
        similarity = stage_one_similarity(model, model.features(batch), batch.mixture)
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
