import numpy as np

from soundwhere.data.clips import Together
from soundwhere.data.synthetic.clips import WorldClips
from soundwhere.data.synthetic.world import World


def test_a_clip_is_one_thing_and_its_sound():
    world = World(5, (64, 64))
    clips = WorldClips(world, 3)
    assert len(clips) == 3
    assert len({clips.key(index) for index in range(3)}) == 3
    scene = world.scene(1, sounding=1, silent=0)
    assert np.array_equal(clips.image(1), scene.image)
    assert np.allclose(clips.sound(1), scene.sounds[0], atol=1e-3)
    turned = clips.sound(1, np.random.default_rng(0))
    assert np.allclose(np.sort(turned), np.sort(clips.sound(1)))
    assert not np.allclose(turned, clips.sound(1))


def test_two_sets_one_after_the_other():
    first, second = WorldClips(World(5, (64, 64)), 2), WorldClips(World(6, (64, 64)), 3)
    both = Together(first, second)
    assert [both.key(index) for index in range(len(both))] == [
        *(first.key(index) for index in range(2)),
        *(second.key(index) for index in range(3)),
    ]
    assert np.array_equal(both.image(3), second.image(1))
    assert np.array_equal(both.sound(1), first.sound(1))
