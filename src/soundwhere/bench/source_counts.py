"""How many sources can be told apart: made-up scenes in which one to four things sound, peeled apart by stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from soundwhere.data.synthetic.scenes import SPLIT_SEEDS, WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.inference.geometry import find_peaks
from soundwhere.media.image import normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.methods.scav.model import SCAV
    from soundwhere.types import Localisation, Masks, Scene

SILENT = 1  # things in a scene that are seen only
ASKED = 4  # sources that are looked for when the number that sounds is to be told


@dataclass(frozen=True)
class SourceCount:
    """What was found in scenes in which so many things sound.

    Attributes:
        sounding: How many things sound, N.
        both_stages: Share of them on which a peak of N peeled maps lies, with both stages.
        stage_one: The same with stage 1 alone, peaks grown and taken away.
        two_maps: The same with the two maps of the model as it is.
        wrong_sound: The same with both stages and the sound of another scene: what the picture alone gives.
        called: Of four maps, how many are called sounding.
    """

    sounding: int
    both_stages: float
    stage_one: float
    two_maps: float
    wrong_sound: float
    called: float


def count_sources(model: SCAV, scenes: int = 200, most: int = 4) -> list[SourceCount]:
    """Localise made-up test scenes in which 1 to `most` things sound and one more is silent."""
    size = (model.config.frame_px, model.config.frame_px)
    alone = model.without_stage_two().eval()
    rows = []
    for sounding in range(1, most + 1):
        found = list(WorldScenes(World(SPLIT_SEEDS["test"], size), scenes, sounding, SILENT))
        right, wrong = [scene.mixture for scene in found], [scene.mixture for scene in [*found[1:], found[0]]]
        asked = _localise(model, found, right, ASKED)
        rows.append(
            SourceCount(
                sounding=sounding,
                both_stages=_hits(_localise(model, found, right, sounding), found),
                stage_one=_hits(_localise(alone, found, right, sounding), found),
                two_maps=_hits(_localise(model, found, right, model.sources), found),
                wrong_sound=_hits(_localise(model, found, wrong, sounding), found),
                called=float((asked.confidence >= model.config.sounding_threshold).sum(1).float().mean()),
            )
        )
    return rows


@torch.inference_mode()
def _localise(
    model: SCAV, scenes: Sequence[Scene], sounds: Sequence[NDArray[np.float32]], sources: int
) -> Localisation:
    from soundwhere.types import Localisation

    parts = []
    for start in range(0, len(scenes), 32):
        part = slice(start, start + 32)
        images = normalise(np.stack([scene.image for scene in scenes[part]]))
        heard = model.hear(torch.from_numpy(np.stack(sounds[part])))
        parts.append(model.localise(model.see(images), heard, sources))
    return Localisation(
        torch.cat([part.similarity for part in parts]),
        torch.cat([part.confidence for part in parts]),
        torch.cat([part.embeddings for part in parts]),
    )


def _hits(found: Localisation, scenes: Sequence[Scene]) -> float:
    """Share of the sounding things on which a peak lies, each peak counted for one thing at most."""
    maps = found.heatmaps().numpy()
    pairs = [pointed(peaks, scene.masks) for peaks, scene in zip(maps, scenes, strict=True)]
    return sum(pairs) / sum(len(scene.masks) for scene in scenes)


def pointed(maps: NDArray[np.float32], masks: Masks) -> int:
    """How many masks (N, H, W) have the peak of a map (K, h, w) on them, each map for one mask at most."""
    x, y = find_peaks(maps, masks.shape[1:]).astype(int).T
    on = masks[:, y.clip(0, masks.shape[1] - 1), x.clip(0, masks.shape[2] - 1)]
    return int(on[linear_sum_assignment(on, maximize=True)].sum())
