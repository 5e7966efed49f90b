from __future__ import annotations

import re

import numpy as np
import torch

from soundwhere.data.synthetic.world import World
from soundwhere.methods.files import load_model
from soundwhere.methods.scav.model import SCAV
from soundwhere.reproduction.figures import algorithm_one, both_protocols
from soundwhere.types import Scene


def test_algorithm_one_marks_the_peak_of_the_similarity() -> None:
    network = load_model("scav-tiny")
    assert isinstance(network, SCAV)
    side = network.config.frame_px
    scenes = [World(0, (side, side)).scene(index) for index in range(2)]
    figure = algorithm_one(network, scenes, (1, 1))
    assert len(figure.axes) == 2 * 6
    for row in range(2):
        axes = figure.axes[6 * row + 1]
        shown = np.asarray(axes.images[0].get_array())
        (x,), (y,) = axes.lines[0].get_data()
        assert shown[int(y), int(x)] == shown.max()
        prior = np.asarray(figure.axes[6 * row + 5].images[0].get_array())
        assert 0 <= prior.min() <= prior.max() <= 1


def test_what_lies_in_the_other_frame_costs_frame_wise_only() -> None:
    masks = np.zeros((2, 16, 32), dtype=np.bool_)
    masks[0, 4:12, 4:12] = masks[1, 4:12, 20:28] = True
    scene = Scene("s", np.zeros((16, 32, 3), np.uint8), np.zeros((2, 8), np.float32), masks)
    both = torch.from_numpy(masks.any(0).astype(np.float32))
    figure = both_protocols(scene, torch.stack([both, both]), (1, 2))
    titles = [axes.get_title() for axes in figure.axes]
    assert [re.findall(r"IoU ([\d.]+)", title) for title in titles] == [[], ["0.50"], ["1.00"]]
