from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.data.controls import absent_partners
from soundwhere.data.real_duet import RealDuet
from soundwhere.data.selection import Selected, Solos
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

SCENES = WorldScenes(World(3, (64, 64), seconds=0.1), 5)


def test_selected_keeps_the_order_asked_for() -> None:
    chosen = Selected(SCENES, [4, 0, 2])
    assert [scene.name for scene in chosen] == ["made-up-3-4", "made-up-3-0", "made-up-3-2"]
    assert [scene.name for scene in chosen[1:]] == ["made-up-3-0", "made-up-3-2"]
    assert chosen.seen_kinds(0) == SCENES.seen_kinds(4)
    assert chosen.mask_kinds(0) == ()  # nobody tells


def test_a_solo_is_one_source_of_the_scene_in_turn() -> None:
    solos = Solos(SCENES, [0, 1])
    for place in (0, 1):
        whole, solo = SCENES[place], solos[place]
        np.testing.assert_array_equal(solo.masks, whole.masks[[place]])
        np.testing.assert_array_equal(solo.sounds, whole.sounds[[place]])
        assert solo.kinds == whole.kinds[place : place + 1]
        assert whole.silent_masks is not None
        assert solo.silent_masks is not None
        np.testing.assert_array_equal(solo.silent_masks, [whole.masks[1 - place], *whole.silent_masks])
    assert solos.seen_kinds(0) == SCENES.seen_kinds(0)


def test_one_source_cannot_be_made_a_solo() -> None:
    with pytest.raises(DataError, match="1 sources"):
        _ = Solos(WorldScenes(World(3, (64, 64), seconds=0.1), 2, sounding=1), [0])[0]


def test_seen_kinds_are_the_scenes_own_and_the_silent_ones() -> None:
    for number, scene in enumerate(SCENES):
        assert set(scene.kinds) < SCENES.seen_kinds(number)
        assert len(SCENES.seen_kinds(number)) == 3


def test_who_made_the_mask_of_a_solo(mini_root: Path) -> None:
    scenes = RealDuet(mini_root).scenes("duets_val")
    solo = Solos(scenes, [0])
    assert scenes.mask_kinds(0) == ("human", "derived")
    assert solo.mask_kinds(0) == ("human",)
    assert scenes.seen_kinds(0) == {"bell", "drum"}


def test_truths_are_the_same_scenes_unseen_and_unheard(mini_root: Path) -> None:
    scenes = RealDuet(mini_root).scenes("duets_val")
    whole, truth = scenes[0], scenes.truths()[:1][0]
    np.testing.assert_array_equal(truth.masks, whole.masks)
    assert (truth.name, truth.kinds) == (whole.name, whole.kinds)
    assert truth.image.shape == whole.image.shape
    assert truth.sounds.shape == whole.sounds.shape
    assert not truth.image.any()
    assert not truth.sounds.any()


@given(st.lists(st.frozensets(st.sampled_from("abcde"), max_size=3), min_size=1, max_size=12))
def test_absent_partners_share_no_class(kinds: list[frozenset[str]]) -> None:
    for own, place in zip(kinds, absent_partners(kinds), strict=True):
        if place is None:
            assert not own or all(not other or own & other for other in kinds)
        else:
            assert own
            assert kinds[place]
            assert not own & kinds[place]
