"""A clip as the localiser sees it: pictures at times, and the 3 s of sound around each of them.

Both are read as streams, so a long clip needs no more memory than a short one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from soundwhere.constants import CLIP_S, CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.errors import ConfigError, MediaError
from soundwhere.media.audio import timeline
from soundwhere.media.planes import stream_both, stream_planes
from soundwhere.media.video import MediaInfo, clock, probe, require_streams, stream_frames, stream_undeveloped

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from av.video.frame import VideoFrame

    from soundwhere.media.shrink import Undeveloped
    from soundwhere.media.video import Frame
    from soundwhere.types import Waveform

_PHOTO_FPS = 10.0  # rate of the overlay of a photo, which has none of its own
_FASTEST_FPS = 60.0  # rate above which an overlay leaves frames out; some files claim thousands
_SHORTEST_S = 1e-3  # a clip that says it lasts no time still has one frame
_NEAR_S = 1.0  # how much of a window's middle decides whether it is silent


@dataclass(frozen=True)
class Footage:
    """The part of a video, or of a photo with a recording, that is to be localised.

    Attributes:
        info: What the file with the picture holds.
        name: What people call the clip: for them to read, never a path.
        sound: The file with the sound, which may be the same.
        sound_words: That sound in words, such as `stereo 48 kHz`.
        start_s: Where the part begins, in seconds.
        end_s: Where it ends, after `start_s`.
    """

    info: MediaInfo
    name: str
    sound: Path
    sound_words: str
    start_s: float
    end_s: float

    @classmethod
    def open(
        cls,
        path: Path | str,
        audio: Path | str | None = None,
        start_s: float = 0.0,
        end_s: float | None = None,
        name: str | None = None,
    ) -> Self:
        """Look at a clip and make sure that there are a picture and a sound.

        Args:
            path: A video, or a photo.
            audio: Another file to take the sound from; a photo needs one and lasts as long.
            start_s: Where to begin.
            end_s: Where to end; by default, and at the latest, where the video (or the recording of a photo) ends.
            name: What people call the clip; by default the name of its file.

        Raises:
            MediaError: A file cannot be read or lacks a stream.
            ConfigError: The times leave nothing.
        """
        info = probe(path)
        heard = info if audio is None else probe(audio)
        if audio is None and not info.has_video and not info.has_audio:
            raise MediaError(
                f"{path} holds neither pictures nor sound that can be read.",
                "Give a video that plays, such as an mp4, mov, mkv or webm, or a photo with --audio.",
            )
        if audio is None:
            require_streams(info)
        elif not info.has_video:
            raise MediaError(f"{path} has no picture (streams: {info.streams}).", "Give a video or a photo.")
        elif not heard.has_audio:
            raise MediaError(f"{audio} has no sound (streams: {heard.streams}).", "Give a sound file with --audio.")
        length_s = info.duration_s or heard.duration_s
        stop_s = length_s if end_s is None else min(end_s, max(length_s, _SHORTEST_S))
        stop_s = max(stop_s, _SHORTEST_S) if end_s is None else stop_s
        if not 0 <= start_s < stop_s:
            until = "the end" if end_s is None else f"{end_s:g} s"
            raise ConfigError(
                f"{path} has nothing from {start_s:g} s to {until}: it lasts {length_s:.1f} s.",
                "Give --start and --end within the clip, the start first.",
            )
        return cls(info, name or info.path.name, heard.path, heard.sound, start_s, stop_s)

    @property
    def path(self) -> Path:
        """The file with the picture."""
        return self.info.path

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the picture in pixels."""
        return self.info.height, self.info.width

    @property
    def own_fps(self) -> float:
        """The rate of the video itself, at which an overlay is drawn."""
        return min(self.info.fps, _FASTEST_FPS) or _PHOTO_FPS

    def count(self, fps: float) -> int:
        """How many frames `frames` gives."""
        return max(1, math.ceil((self.end_s - self.start_s) * fps - 1e-6))

    def frames(self, fps: float) -> Generator[Frame, None, None]:
        """The frames on display at start_s, start_s + 1 / fps, ...; those of a photo share one array."""
        yield from stream_frames(self.path, fps, self.start_s, self.end_s)

    def undeveloped(self, fps: float) -> Generator[tuple[float, Undeveloped], None, None]:
        """Times and frames likewise, to be seen smaller: see `stream_undeveloped`."""
        yield from stream_undeveloped(self.path, fps, self.start_s, self.end_s)

    def planes(self, fps: float) -> Generator[tuple[float, VideoFrame], None, None]:
        """Times and frames likewise, to be drawn on and written again: see `stream_planes`."""
        yield from stream_planes(self.path, fps, self.start_s, self.end_s)

    def both(self, fps: float) -> Generator[tuple[float, Undeveloped | VideoFrame], None, None]:
        """Those of `undeveloped` at a rate and of `planes` at the video's own, decoded once: see `stream_both`."""
        yield from stream_both(self.path, fps, self.own_fps, self.start_s, self.end_s)

    def describe(self) -> str:
        """One line for people: `0:42, 1280x720, stereo 48 kHz`."""
        size = f"{self.info.width}x{self.info.height}"
        return f"{clock(self.info.duration_s or self.end_s)}, {size}, {self.sound_words}"


class SoundWindows:
    """The 3 s of sound around ascending times, with silence outside of the recording; only 3 s are held.

    Args:
        path: Where the sound is.
        start_s: No window will be centred before this.
    """

    def __init__(self, path: Path, start_s: float) -> None:
        self._first = round((start_s - CLIP_S / 2) * SAMPLE_RATE_HZ) - 1  # index of the first sample that is held
        self._blocks = timeline(path, SAMPLE_RATE_HZ, start_s=self._first / SAMPLE_RATE_HZ)
        self._held: Waveform = np.zeros(0, np.float32)

    def at(self, centre_s: float) -> Waveform:
        """The window around a time that is not before the last one asked for, shape (66150,)."""
        begin = round(centre_s * SAMPLE_RATE_HZ) - CLIP_SAMPLES // 2
        blocks, missing = [self._held], begin + CLIP_SAMPLES - self._first - len(self._held)
        while missing > 0 and (block := next(self._blocks, None)) is not None:
            blocks.append(block[0])
            missing -= block.shape[1]
        self._held = np.concatenate(blocks)[begin - self._first :]
        self._first = begin
        part = np.zeros(CLIP_SAMPLES, np.float32)
        part[: len(self._held)] = self._held[:CLIP_SAMPLES]
        return part


def level_db(window: Waveform) -> float:
    """Root mean square of the second in the middle of a window, in decibels below full scale; -inf for none at all.

    The middle, because a window that still reaches back into sound does not mean that there is any now.

    >>> level_db(np.full(66_150, 0.1, np.float32))
    -20.0
    """
    margin = max(0, len(window) - round(_NEAR_S * SAMPLE_RATE_HZ)) // 2
    near = window[margin : len(window) - margin]
    power = float(np.mean(np.square(near, dtype=np.float64))) if len(near) else 0.0
    return round(10 * math.log10(power), 3) if power > 0 else -math.inf
