"""How many sources can be told apart: made-up scenes in which one to four things sound, peeled apart by stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from soundwhere.data.synthetic.scenes import SPLIT_SEEDS, WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.evaluation.reading import views
from soundwhere.inference.geometry import find_peaks
from soundwhere.media.image import normalise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.evaluation.reading import View
    from soundwhere.methods.scav.model import SCAV
    from soundwhere.types import Masks

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
        wrong_sound: The same as `both_stages`, with the sound of the scene half the list away: what the picture alone
            gives.
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
        made = WorldScenes(World(SPLIT_SEEDS["test"], size), scenes, sounding, SILENT)
        counts = np.sum([_count(model, alone, view) for view in views(made, ("shuffled",))], axis=0)
        shares: list[float] = (counts / scenes / [*[sounding] * 4, 1]).tolist()
        rows.append(SourceCount(sounding, *shares))
    return rows


@torch.inference_mode()
def _count(model: SCAV, alone: SCAV, view: View) -> list[int]:
    """Of some scenes, how many things are pointed at in each of four ways, and how many of four maps are called."""
    images = normalise(np.stack([scene.image for scene in view.scenes]))
    own, wrong = (
        torch.from_numpy(np.stack([view.reader[number].scene.mixture for number in numbers]))
        for numbers in (view.numbers, view.partners)
    )
    seen, heard, sounding = model.see(images), model.hear(own), view.truth.shape[1]
    answers = (
        model.localise(seen, heard, sounding),
        alone.localise(alone.see(images), alone.hear(own), sounding),
        model.localise(seen, heard, model.sources),
        model.localise(seen, model.hear(wrong), sounding),
    )
    hits = [
        sum(pointed(maps, truth) for maps, truth in zip(each.heatmaps().numpy(), view.truth.numpy(), strict=True))
        for each in answers
    ]
    called = model.localise(seen, heard, ASKED).confidence >= model.config.sounding_threshold
    return [*hits, int(called.sum())]


def pointed(maps: NDArray[np.float32], masks: Masks) -> int:
    """How many masks (N, H, W) have the peak of a map (K, h, w) on them, each map for one mask at most."""
    x, y = find_peaks(maps, masks.shape[1:]).astype(int).T
    on = masks[:, y.clip(0, masks.shape[1] - 1), x.clip(0, masks.shape[2] - 1)]
    return int(on[linear_sum_assignment(on, maximize=True)].sum())
