"""Two videos side by side, one of which is heard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest

from soundwhere.constants import CLIP_SAMPLES
from soundwhere.data.clips import VideoClip
from soundwhere.data.video_duets import VideoDuets
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path


def video(path: Path, grey: int) -> VideoClip:
    """4 s of a brightness that rises by one level a frame, with a tone whose pitch tells its brightness."""
    with av.open(path, "w") as container:
        pictures, sounds = container.add_stream("mpeg4", rate=15), container.add_stream("pcm_s16le", rate=22_050)
        pictures.width, pictures.height, pictures.pix_fmt, pictures.bit_rate = 32, 32, "yuv420p", 4_000_000
        sounds.layout = "mono"
        for number in range(60):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), grey + number, np.uint8), format="rgb24")
            container.mux(pictures.encode(frame))
        tone = 8000 * np.sin(2 * np.pi * 10 * grey * np.arange(4 * 22_050) / 22_050)
        samples = av.AudioFrame.from_ndarray(tone.astype(np.int16)[None], format="s16", layout="mono")
        samples.sample_rate = 22_050
        container.mux(sounds.encode(samples))
        container.mux(pictures.encode())
        container.mux(sounds.encode())
    return VideoClip(path, 0.0, 4.0, path.name)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[VideoClip]:
    folder = tmp_path_factory.mktemp("videos")
    return [video(folder / f"v{grey}.mkv", grey) for grey in (20, 90, 160)]


def pitch(sound: np.ndarray) -> float:
    """The strongest of ten hertz."""
    return float(np.abs(np.fft.rfft(sound)).argmax()) / 3 / 10


def test_every_ordered_pair_and_the_half_that_sounds(videos: list[VideoClip]) -> None:
    duets = VideoDuets(videos, frame_px=32)
    assert len({duets.made_of(number) for number in range(len(duets))}) == len(duets) == 6
    for number, duet in enumerate(duets):
        assert duet.frames.shape == (46, 32, 64, 3)
        assert duet.sound.shape == (CLIP_SAMPLES,)
        sounding = duet.image[16, 16 if duet.place == 0 else 48, 0]
        assert abs(pitch(duet.sound) - (float(sounding) - 30)) < 3  # the middle frame is the thirtieth
        assert duets.made_of(number)[0] == f"v{round(pitch(duet.sound))}"


def test_a_twin_is_the_same_video_at_another_time(videos: list[VideoClip]) -> None:
    duets = VideoDuets(videos, alike=True, frame_px=32)
    assert len(duets) == 3 * 3 * 2
    for number, ahead in ((0, 15), (2, 30), (4, 45)):
        left, right = (duets[number + place] for place in (0, 1))
        assert duets.made_of(number) == duets.made_of(number + 1) == ("v20",)
        assert (left.place, right.place) == (0, 1)
        shown = np.arange(7, 53)  # of 60 frames, the 46 in the middle
        for column, numbers in ((16, shown), (48, (shown + ahead) % 60)):
            assert np.abs(left.frames[:, 16, column, 0] - (20.0 + numbers)).max() <= 3  # as mpeg4 keeps them
        np.testing.assert_array_equal(left.frames[:, :, :32], right.frames[:, :, 32:])


def test_some_of_them(videos: list[VideoClip]) -> None:
    duets = VideoDuets(videos, frame_px=32)
    some = duets[1::2]
    assert [some.made_of(number) for number in range(len(some))] == [duets.made_of(number) for number in (1, 3, 5)]
    np.testing.assert_array_equal(some[0].frames, duets[1].frames)


def test_two_videos_are_too_few() -> None:
    with pytest.raises(DataError, match="there are 2 of this split and label"):
        VideoDuets([SimpleNamespace(), SimpleNamespace()])  # type: ignore[list-item]
