from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from soundwhere.bench.source_counts import count_sources, pointed
from soundwhere.methods.files import load_model

if TYPE_CHECKING:
    import pytest


def test_a_peak_counts_for_one_thing() -> None:
    masks = np.zeros((3, 40, 40), bool)
    masks[0, :20, :20] = masks[1, :20, 20:] = masks[2, 20:] = True
    maps = np.zeros((3, 4, 4), np.float32)
    maps[0, 0, 0] = maps[1, 1, 1] = 1  # both on the first thing
    maps[2, 3, 2] = 1
    assert pointed(maps, masks) == 2
    assert pointed(maps[:1], masks) == 1
    maps[1] = 0
    maps[1, 0, 3] = 1
    assert pointed(maps, masks) == 3


def test_the_model_of_the_made_up_world_hears() -> None:
    one, two = count_sources(load_model("scav-tiny"), scenes=8, most=2)
    assert (one.sounding, two.sounding) == (1, 2)
    assert two.both_stages == two.two_maps
    assert one.both_stages > one.wrong_sound
    assert one.both_stages > 0.6


def test_the_wrong_sound_is_that_of_the_scene_half_the_list_away(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model("scav-tiny")
    hear, heard = model.hear, []
    monkeypatch.setattr(model, "hear", lambda sound: heard.append(sound) or hear(sound))
    count_sources(model, scenes=4, most=1)
    own, wrong = heard  # of the scenes 0, 2, 1 and 3
    assert torch.equal(wrong, own[[1, 0, 3, 2]])
