"""Three real videos side by side, two of which are heard."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from soundwhere.data.video_trios import VideoTrios
from soundwhere.errors import DataError
from soundwhere.media.image import resize


class Video:
    """A grey picture and a tone of its own."""

    def __init__(self, number: int) -> None:
        self.path, self.key = Path(f"video-{number}.mp4"), f"test_video_trios {number}"
        self._number = number

    def image(self) -> np.ndarray:
        return np.full((20, 30, 3), 40 * self._number, np.uint8)

    def recording(self) -> np.ndarray:
        return np.full(4 * 22_050, self._number + 1, np.float32)


@pytest.fixture
def trios() -> VideoTrios:
    return VideoTrios([Video(number) for number in range(5)], 32)  # type: ignore[misc]


def test_every_choice_of_three_and_each_is_once_silent(trios: VideoTrios) -> None:
    assert len(trios) == 10 * 3
    assert len(set(trios.names)) == 30
    heard = Counter(kind for scene in trios for kind in scene.kinds)
    assert set(heard.values()) == {12}
    assert trios.names == VideoTrios([Video(n) for n in range(5)], 32).names  # type: ignore[misc]


def test_a_scene_shows_three_and_hears_two(trios: VideoTrios) -> None:
    for number in (0, 7, 29):
        scene = trios[number]
        shown = [int(frame[0, 0, 0]) // 40 for frame in np.split(scene.image, 3, axis=1)]
        assert [f"video-{each}" for each in shown] == list(trios.made_of(number))
        places = [int(mask.any(0).argmax()) // 32 for mask in scene.masks]
        assert [f"video-{shown[place]}" for place in places] == list(scene.kinds)
        assert scene.masks.sum() == 2 * 32 * 32
        np.testing.assert_allclose(scene.sounds, 0.1, rtol=1e-5)
        assert scene.silent_masks is not None
        assert not (scene.masks.any(0) & scene.silent_masks[0]).any()
        dark = trios.truths()[number]
        assert not dark.image.any()
        assert not dark.sounds.any()
        np.testing.assert_array_equal(dark.masks, scene.masks)
    assert resize(Video(1).image(), (32, 32)).shape == (32, 32, 3)


def test_two_videos_are_too_few() -> None:
    with pytest.raises(DataError, match="there are 2 of this split"):
        VideoTrios([Video(0), Video(1)])  # type: ignore[list-item]
