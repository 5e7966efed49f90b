"""Three real videos side by side, two of which are heard: nobody knows where in them the sound is, only in which."""

from __future__ import annotations

from copy import copy
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from soundwhere.constants import FRAME_PX
from soundwhere.data.lazy import Lazy
from soundwhere.data.memory import MEMORY
from soundwhere.errors import DataError
from soundwhere.media.audio import centre_clip, scale_to_rms
from soundwhere.media.image import resize
from soundwhere.types import Scene

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.data.clips import VideoClip
    from soundwhere.types import Image, Waveform

_SEED = 11
_FRAMES = 3


class VideoTrios(Lazy["tuple[NDArray[np.int64], int]", Scene]):
    """Every choice of three videos, each of which is once the silent one, in an order drawn once and for all.

    A scene shows the middle frame of each video, squashed to a square, and hears 3 s around two of them at RMS 0.1. The
    truth of a source is its whole frame. Few videos make many trios, which are not independent: intervals come from
    resampling videos (`made_of`).

    Args:
        videos: At least three.
        frame_px: Side of each frame.
    """

    def __init__(self, videos: Sequence[VideoClip], frame_px: int = FRAME_PX) -> None:
        if len(videos) < _FRAMES:
            raise DataError(
                f"A trio needs {_FRAMES} videos, and there are {len(videos)} of this split.",
                "Give the folder of wide-duet, and --split val.",
            )
        self._videos, self._frame_px, self._media = videos, frame_px, True
        rng = np.random.default_rng(_SEED)
        casts = [
            (rng.permutation(cast), silent) for cast in combinations(range(len(videos)), _FRAMES) for silent in cast
        ]
        super().__init__([casts[place] for place in rng.permutation(len(casts))])

    def make(self, record: tuple[NDArray[np.int64], int]) -> Scene:
        """Join the frames of a trio, and read two of its sounds."""
        cast, silent = record
        side = self._frame_px
        masks = np.zeros((_FRAMES, side, _FRAMES * side), np.bool_)
        for place in range(_FRAMES):
            masks[place, :, place * side : (place + 1) * side] = True
        sounding = cast != silent
        heard = [self._sound(number) for number in cast[sounding]]
        return Scene(
            name=_name(cast, silent),
            image=np.concatenate([self._frame(number) for number in cast], axis=1),
            sounds=np.stack(heard),
            masks=masks[sounding],
            kinds=tuple(self._videos[number].path.stem for number in cast[sounding]),
            silent_masks=masks[~sounding],
        )

    @property
    def names(self) -> tuple[str, ...]:
        """What the scenes are called: the numbers of their videos, the silent one in brackets."""
        return tuple(_name(cast, silent) for cast, silent in self.records)

    def truths(self) -> VideoTrios:
        """The same scenes with black pictures and silence."""
        some = copy(self)
        some._media = False
        return some

    def seen_kinds(self, index: int) -> frozenset[str]:
        """The videos of a scene: every video is a kind of its own."""
        return frozenset(self.made_of(index))

    def made_of(self, index: int) -> tuple[str, ...]:
        """The videos of a scene, which other scenes show, too."""
        return tuple(self._videos[number].path.stem for number in self.records[index][0])

    def _frame(self, number: int) -> Image:
        size = (self._frame_px, self._frame_px)
        if not self._media:
            return np.zeros((*size, 3), np.uint8)
        video = self._videos[number]
        return MEMORY.get(("video frame", video.key, size), lambda: resize(video.image(), size))

    def _sound(self, number: int) -> Waveform:
        video = self._videos[number]
        sound = MEMORY.get(("video sound", video.key), lambda: centre_clip(scale_to_rms(video.recording())))
        return sound if self._media else np.zeros_like(sound)


def _name(cast: NDArray[np.int64], silent: int) -> str:
    return "-".join(f"({number})" if number == silent else str(number) for number in cast)
