"""Draws from the made-up world: pure functions of seed and number, every scene once an epoch."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from soundwhere.data.synthetic import draws as module
from soundwhere.data.synthetic.draws import Rendered, SyntheticDraws, render
from soundwhere.data.synthetic.scenes import SPLIT_SEEDS, WorldScenes
from soundwhere.data.synthetic.world import World

if TYPE_CHECKING:
    from pathlib import Path

WORLD = World(3, (32, 32), seconds=0.25)


def made(count: int = 6, sounds: int = 2) -> list[Rendered]:
    """Scene n is grey n on the left and black on the right; its sound k is a click of height n + 1 at sample k."""
    scenes = []
    for n in range(count):
        image = np.zeros((4, 4, 3), np.uint8)
        image[:, :2] = n + 1
        clicks = np.zeros((sounds, 50), np.float16)
        clicks[np.arange(sounds), np.arange(sounds)] = n + 1
        scenes.append(Rendered(image, clicks))
    return scenes


def scene_of(draws: SyntheticDraws, number: int) -> int:
    image = draws.draw(number).image
    assert image is not None
    return int(image.max()) - 1


def test_an_epoch_shows_every_scene_once_in_an_order_of_its_own() -> None:
    draws = SyntheticDraws(made(), sources=2, gain_db=6, seed=0)
    epochs = [[scene_of(draws, epoch * 6 + place) for place in range(6)] for epoch in range(4)]
    assert all(sorted(epoch) == list(range(6)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_a_draw_depends_on_seed_and_number_alone() -> None:
    numbers = [40, 3, 17, 3, 0, 40]
    first = SyntheticDraws(made(), sources=2, gain_db=6, seed=5)
    forwards = [first.draw(number) for number in numbers]
    module._order.cache_clear()
    backwards = [SyntheticDraws(made(), sources=2, gain_db=6, seed=5).draw(n, pictures=True) for n in numbers[::-1]]
    for one, other in zip(forwards, backwards[::-1], strict=True):
        assert np.array_equal(one.sounds, other.sounds)
        assert np.array_equal(one.image, other.image)  # type: ignore[arg-type]
    other_seed = SyntheticDraws(made(), sources=2, gain_db=6, seed=6)
    assert any(not np.array_equal(first.draw(n).sounds, other_seed.draw(n).sounds) for n in numbers)


def test_no_two_streams_of_random_numbers_coincide() -> None:
    """numpy pads seeds with zeros: a stream whose tag is 0 would be that of a shorter seed."""
    tags = (module._SCENE, module._ORDER)
    assert len(set(tags)) == len(tags)
    assert 0 not in tags
    states = {
        str(np.random.default_rng([seed, number, tag]).bit_generator.state)
        for seed in range(3)
        for number in range(4)
        for tag in tags
    }
    assert len(states) == 3 * 4 * len(tags)


def test_a_draw_mirrors_shifts_and_scales_within_bounds() -> None:
    draws = SyntheticDraws(made(), sources=2, gain_db=6, seed=0)
    mirrored, shifts, gains = set(), set(), []
    for number in range(60):
        example = draws.draw(number)
        assert example.image is not None
        assert example.image.flags.c_contiguous
        assert example.sounds.dtype == np.float32
        scene = scene_of(draws, number)
        mirrored.add(bool(example.image[0, 0, 0] == 0))
        places, heights = example.sounds.argmax(1), example.sounds.max(1)
        assert abs(int(places[0]) - int(places[1])) in (1, 49)  # both sounds are shifted alike
        shifts.add(int(places[0]))
        gains += list(heights / (scene + 1))
    assert mirrored == {True, False}
    assert len(shifts) > 20
    assert 10 ** (-6 / 20) - 1e-3 <= min(gains) < 0.7
    assert 1.4 < max(gains) <= 10 ** (6 / 20) + 1e-3


def test_with_fewer_sources_than_sounds_any_of_them_is_heard() -> None:
    draws = SyntheticDraws([made(1, sounds=3)[0]], sources=1, gain_db=0, seed=0)
    assert {draws.draw(n).sounds.shape for n in range(5)} == {(1, 50)}
    plain = {tuple(np.flatnonzero(draws.draw(n).sounds[0])) for n in range(40)}
    assert len(plain) > 10


@pytest.mark.parametrize("chunk", [2, 100])
def test_rendering_on_all_cores_is_rendering_one_by_one(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(module, "_CHUNK", chunk)
    told: list[tuple[int, int]] = []
    scenes = render(WORLD, 3, sounding=2, silent=1, progress=lambda done, total: told.append((done, total)))
    assert told == ([(2, 3), (3, 3)] if chunk == 2 else [(3, 3)])
    for number, scene in enumerate(scenes):
        expected = WORLD.scene(number, 2, 1)
        assert np.array_equal(scene.image, expected.image)
        np.testing.assert_allclose(scene.sounds, expected.sounds, atol=1e-3)


INTERRUPTED = """
import os, signal
from soundwhere.data.synthetic import draws
from soundwhere.data.synthetic.world import World
class Late:
    def __getstate__(self):
        return {"sent": 0}
    def __setstate__(self, _):  # runs in the new process, before it has begun to render
        os.killpg(0, signal.SIGINT)
    def scene(self, *arguments):
        return World(0, (64, 64)).scene(*arguments)
def once(number, _):
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
if __name__ == "__main__":
    draws._CHUNK = 1
    signal.signal(signal.SIGINT, once)
    try:
        draws.render(Late(), 4)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_ctrl_c_ends_rendering_without_a_word_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    command = [sys.executable, str(tmp_path / "interrupted.py")]
    ended = subprocess.run(command, capture_output=True, text=True, start_new_session=True, timeout=240, check=False)
    assert (ended.stdout, ended.stderr) == ("interrupted\n", "")


def test_held_out_scenes_are_a_sequence_of_another_world() -> None:
    scenes = WorldScenes(WORLD, 4, sounding=2, silent=0)
    assert len(scenes) == 4
    assert [scene.name for scene in scenes] == [WORLD.scene(n, 2, 0).name for n in range(4)]
    assert scenes[-1].name == scenes[3].name
    assert [scene.name for scene in scenes[1:3]] == [scenes[1].name, scenes[2].name]
    assert len(scenes[0].masks) == 2
    with pytest.raises(IndexError):
        scenes[4]
    assert len(set(SPLIT_SEEDS.values())) == 2
    assert min(SPLIT_SEEDS.values()) > 10**6
