from __future__ import annotations

import numpy as np
import pytest

from soundwhere.data.controls import silence, swap_pictures, swap_sounds
from soundwhere.types import Scene


def scenes(count: int) -> list[Scene]:
    return [
        Scene(
            f"s{n}",
            np.full((2, 3, 3), n, np.uint8),
            np.full((2, 4), n + 1, np.float32),
            np.full((2, 2, 3), n % 2, np.bool_),
            ("a", "b"),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_every_scene_hears_another_and_each_is_heard_once(count: int) -> None:
    plain, swapped = scenes(count), swap_sounds(scenes(count))
    heard = [int(scene.sounds[0, 0]) - 1 for scene in swapped]
    assert sorted(heard) == list(range(count))
    assert all(other != own for own, other in enumerate(heard))
    for before, after in zip(plain, swapped, strict=True):
        assert before.name == after.name
        assert np.array_equal(before.image, after.image)
        assert np.array_equal(before.masks, after.masks)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_every_scene_sees_another(count: int) -> None:
    plain, swapped = scenes(count), swap_pictures(scenes(count))
    seen = [int(scene.image[0, 0, 0]) for scene in swapped]
    assert sorted(seen) == list(range(count))
    assert all(other != own for own, other in enumerate(seen))
    for before, after in zip(plain, swapped, strict=True):
        assert np.array_equal(before.sounds, after.sounds)
        assert np.array_equal(before.masks, after.masks)


def test_silence_is_digital() -> None:
    quiet = silence(scenes(3))
    assert all(not scene.mixture.any() and scene.sounds.shape == (2, 4) for scene in quiet)
    assert [scene.name for scene in quiet] == ["s0", "s1", "s2"]


def test_it_is_a_sequence() -> None:
    swapped = swap_sounds(scenes(4))
    assert len(swapped) == 4
    assert swapped[-1].name == "s3"
    assert [scene.name for scene in swapped[1:3]] == ["s1", "s2"]
    with pytest.raises(IndexError):
        swapped[4]


def test_scenes_are_made_only_when_asked_for() -> None:
    class Counting(list[Scene]):
        asked = 0

        def __getitem__(self, index: int) -> Scene:  # type: ignore[override]
            self.asked += 1
            return super().__getitem__(index)

    source = Counting(scenes(10))
    swapped = swap_sounds(source)
    assert source.asked == 0
    assert swapped[0].name == "s0"
    assert source.asked == 2
