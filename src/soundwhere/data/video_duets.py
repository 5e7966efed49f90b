"""Two real videos side by side that both move, one of which is heard: motion may tell which, where a picture cannot."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.constants import CLIP_S, CLIP_SAMPLES, FRAME_PX
from soundwhere.data.lazy import Lazy
from soundwhere.errors import DataError
from soundwhere.media.audio import centre_clip, read_audio, scale_to_rms
from soundwhere.media.image import resize
from soundwhere.media.video import stream_frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.data.clips import VideoClip
    from soundwhere.types import Image, Waveform

_SEED: Final = 13
_FPS: Final = 15  # frames a second
_STEPS: Final = round(CLIP_S * _FPS)
_SHIFTS: Final = (0.25, 0.5, 0.75)  # by how much of a video its twin is ahead


@dataclass(frozen=True, eq=False)
class MovingDuet:
    """Two videos side by side, and the sound of one.

    Attributes:
        frames: RGB, T + 1 frames from the beginning to the end of the sound, shape (T + 1, H, 2 H, 3), uint8.
        sound: 3 s, shape (66150,).
        place: Which half sounds: 0 left, 1 right.
    """

    frames: NDArray[np.uint8]
    sound: Waveform
    place: int

    @property
    def image(self) -> Image:
        """The frame in the middle."""
        middle: Image = self.frames[len(self.frames) // 2]
        return middle


class VideoDuets(Lazy["tuple[int, int, float, int]", MovingDuet]):
    """Every ordered pair of videos, or every video beside itself at another time.

    Frames are squashed to squares, sounds have RMS 0.1. A twin is the same video, begun later and continued from its
    start: it looks alike and moves as much, but not with the sound. Halves are drawn once and for all for pairs; a twin
    is once on either side.

    Args:
        videos: At least three, of 3 s or more.
        alike: Twins instead of pairs.
        frame_px: Side of each half.

    Raises:
        DataError: There are too few videos.
    """

    def __init__(self, videos: Sequence[VideoClip], *, alike: bool = False, frame_px: int = FRAME_PX) -> None:
        if len(videos) < 3:
            raise DataError(
                f"Duets need 3 videos, and there are {len(videos)} of this split and label.",
                "Give the folder of wide-duet, --split train or val, and a --label that several have.",
            )
        self._videos, self._frame_px = videos, frame_px
        self._read: dict[int, tuple[NDArray[np.uint8], Waveform]] = {}
        rng = np.random.default_rng(_SEED)
        numbers = range(len(videos))
        super().__init__(
            [(number, number, shift, place) for number in numbers for shift in _SHIFTS for place in (0, 1)]
            if alike
            else [(heard, mute, 0.0, int(rng.integers(2))) for heard, mute in permutations(numbers, 2)]
        )

    def make(self, record: tuple[int, int, float, int]) -> MovingDuet:
        """Read both videos, and join them."""
        heard, mute, shift, place = record
        (own, sound), (other, _) = self._video(heard), self._video(mute)
        first = (len(own) - _STEPS) // 2
        halves = [own[first:], np.roll(other, -round(shift * len(other)), axis=0)[(len(other) - _STEPS) // 2 :]]
        halves = [half[: _STEPS + 1] for half in halves]
        joined = np.concatenate(halves[::-1] if place else halves, axis=2)
        return MovingDuet(joined, sound, place)

    def made_of(self, index: int) -> tuple[str, ...]:
        """The videos of a duet, which other duets show, too; one if they are twins."""
        return tuple(dict.fromkeys(self._videos[number].path.stem for number in self.records[index][:2]))

    def _video(self, number: int) -> tuple[NDArray[np.uint8], Waveform]:
        """All frames (N, H, H, 3), and the sound from the first frame that a duet shows on, shape (66150,)."""
        if number not in self._read:
            video, size = self._videos[number], (self._frame_px, self._frame_px)
            shown = stream_frames(video.path, _FPS, video.start_s, max(video.end_s, video.start_s + CLIP_S + 1))
            frames = np.stack([resize(frame.image, size) for frame in shown])
            start_s = video.start_s + (len(frames) - _STEPS) // 2 / _FPS
            sound = read_audio(video.path, start_s, start_s + CLIP_S)
            self._read[number] = frames, scale_to_rms(centre_clip(np.pad(sound, (0, CLIP_SAMPLES - len(sound)))))
        return self._read[number]
