"""Scenes: reproducible, true to their masks, spread over the picture, and with levels as declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soundwhere.constants import CLIP_SAMPLES, MIXING_RMS
from soundwhere.data.synthetic import KINDS, World, boxes
from soundwhere.data.synthetic.sounds import SOUNDS
from soundwhere.data.synthetic.world import LARGEST, SMALLEST
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from soundwhere.types import Scene

SIZE = (128, 128)


def same(first: Scene, second: Scene) -> bool:
    return (
        first.kinds == second.kinds
        and np.array_equal(first.image, second.image)
        and np.array_equal(first.sounds, second.sounds)
        and np.array_equal(first.masks, second.masks)
        and np.array_equal(first.silent_masks, second.silent_masks)
    )


def test_there_are_fourteen_kinds_each_with_a_sound():
    assert len(KINDS) == len(set(KINDS)) == 14
    assert set(SOUNDS) == set(KINDS)


def test_a_scene_has_the_shapes_it_promises():
    scene = World(size=(96, 160)).scene(7, sounding=3, silent=2)
    assert scene.image.shape == (96, 160, 3)
    assert scene.image.dtype == np.uint8
    assert scene.sounds.shape == (3, CLIP_SAMPLES)
    assert scene.sounds.dtype == np.float32
    assert scene.masks.shape == (3, 96, 160)
    assert scene.silent_masks.shape == (2, 96, 160)
    assert len(scene.kinds) == 3


def test_no_thing_sounds_when_none_should():
    scene = World(size=SIZE).scene(0, sounding=0, silent=2)
    assert scene.sounds.shape == (0, CLIP_SAMPLES)
    assert not scene.mixture.any()
    assert scene.silent_masks.any((1, 2)).all()


@settings(max_examples=30)
@given(seed=st.integers(0, 2**63), index=st.integers(0, 2**40))
def test_a_scene_depends_on_nothing_but_seed_index_and_arguments(seed, index):
    scene = World(seed, SIZE, seconds=0.5).scene(index, gain_db=6)
    np.random.seed(1)  # noqa: NPY002 - the world must not listen to global state
    World(seed, SIZE, seconds=0.5).scene(index + 1)
    assert same(scene, World(seed, SIZE, seconds=0.5).scene(index, gain_db=6))


def test_other_seeds_and_indices_give_other_pictures_and_sounds():
    scenes = [World(seed, SIZE).scene(index) for seed in (0, 1) for index in (0, 1)]
    for first in range(4):
        for second in range(first):
            assert not np.array_equal(scenes[first].image, scenes[second].image)
            assert not np.array_equal(scenes[first].sounds, scenes[second].sounds)


@given(
    index=st.integers(0, 10_000),
    sounding=st.integers(0, 3),
    silent=st.integers(0, 2),
    layout=st.sampled_from(["free", "side-by-side", "stacked"]),
    size=st.sampled_from([(128, 128), (224, 224), (96, 200), (240, 120)]),
)
def test_masks_are_exactly_what_was_drawn(index, sounding, silent, layout, size):
    world = World(5, size)
    things = world.cast(index, sounding, silent, layout)
    image, masks = world.picture(index, things)
    empty, _ = world.picture(index, ())
    drawn = (image != empty).any(-1)
    covered = masks.any(0) if len(masks) else np.zeros(size, bool)
    assert not (drawn & ~covered).any()
    # A thing's pixel may happen to have the colour of the background behind it, but that is rare.
    assert (drawn & covered).sum() >= 0.97 * covered.sum()


@settings(max_examples=50)
@given(index=st.integers(0, 10_000), count=st.integers(1, 6))
def test_things_are_whole_apart_and_of_different_kinds(index, count):
    world = World(2, SIZE)
    things = world.cast(index, 1, count - 1)
    assert len({thing.kind for thing in things}) == count
    _, masks = world.picture(index, things)
    assert (masks.sum(0) <= 1).all()
    for thing, mask, (left, top, right, bottom) in zip(things, masks, boxes(masks), strict=True):
        alone = world.picture(index, (thing,))[1][0]
        assert np.array_equal(mask, alone)
        assert max(right - left, bottom - top) <= 0.4 * 128 + 3
        rows, columns = np.nonzero(mask)
        assert np.hypot(rows + 0.5 - thing.y, columns + 0.5 - thing.x).max() <= thing.radius + 2


def test_sizes_span_what_is_documented():
    cast = [thing for index in range(300) for thing in World(0, SIZE).cast(index, 1, 0)]
    diameters = 2 * np.array([thing.radius for thing in cast]) / 128
    assert SMALLEST <= diameters.min() < SMALLEST + 0.02
    assert LARGEST - 0.02 < diameters.max() <= LARGEST


def test_things_are_found_all_over_the_picture():
    world = World(0, SIZE)
    covered = np.zeros((2, *SIZE))
    for index in range(400):
        _, masks = world.picture(index, world.cast(index, 2, 1))
        covered += masks[1:]  # one that sounds and one that does not
    cells = covered.reshape(2, 4, 32, 4, 32).mean((2, 4)) / 400
    assert (cells > 0.01).all()  # corners included
    assert cells.max() < 0.25  # and nowhere most of the time
    left, right = covered[..., :64].sum(), covered[..., 64:].sum()
    assert left / right == pytest.approx(1, abs=0.2)


@given(index=st.integers(0, 10_000), sounding=st.integers(1, 3), silent=st.integers(0, 2))
def test_layouts_keep_each_thing_in_its_column_or_row(index, sounding, silent):
    world, count = World(3, (120, 180)), sounding + silent
    for layout, axis, length in (("side-by-side", 0, 180), ("stacked", 1, 120)):
        masks = world.picture(index, world.cast(index, sounding, silent, layout))[1]
        found = boxes(masks)
        slots = found[:, axis] * count // length
        assert sorted(slots) == list(range(count))
        assert ((found[:, axis + 2] - 1) * count // length == slots).all()
        assert (np.diff(slots[:sounding]) > 0).all()  # sounding things come in order


def test_silent_things_take_any_column():
    world = World(3, SIZE)
    first = {world.cast(index, 1, 1, "side-by-side")[0].x < 64 for index in range(20)}
    assert first == {True, False}


def test_sounds_have_the_declared_level():
    scene = World().scene(11, sounding=14, silent=0)
    assert np.isfinite(scene.sounds).all()
    assert np.sqrt((scene.sounds.astype(np.float64) ** 2).mean(1)) == pytest.approx(np.full(14, MIXING_RMS), rel=1e-4)
    assert np.array_equal(scene.mixture, scene.sounds.sum(0))


def test_gains_stay_within_their_range_and_fill_it():
    world = World(seconds=0.3, size=SIZE)
    sounds = np.concatenate([world.scene(index, 6, 0, gain_db=6).sounds for index in range(30)])
    gains = 20 * np.log10(np.sqrt((sounds.astype(np.float64) ** 2).mean(1)) / MIXING_RMS)
    assert np.abs(gains).max() <= 6 + 1e-3
    assert gains.min() < -5
    assert gains.max() > 5


def test_boxes_agree_with_a_plain_search():
    masks = np.random.default_rng(0).random((5, 9, 13)) > 0.95
    masks[4] = False
    for mask, box in zip(masks, boxes(masks), strict=True):
        rows, columns = np.nonzero(mask)
        expected = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] if len(rows) else [0, 0, 0, 0]
        assert box.tolist() == expected


@pytest.mark.parametrize("arguments", [{"seed": -1}, {"size": (20, 128)}, {"seconds": 0.0}])
def test_impossible_worlds_are_refused(arguments):
    with pytest.raises(ConfigError, match="cannot be made"):
        World(**arguments)


@pytest.mark.parametrize("arguments", [(-1, 1, 1), (0, 10, 5), (0, -1, 2), (0, 1, -1)])
def test_impossible_scenes_are_refused(arguments):
    with pytest.raises(ConfigError, match="at most 14"):
        World().scene(*arguments)
