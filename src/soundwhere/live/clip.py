"""The last half minute as a file: pictures and sound as the page kept them become an mp4 that plays anywhere."""

from __future__ import annotations

import io
import struct
import wave
from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image as Pillow
from PIL import UnidentifiedImageError
from pydantic import BaseModel, Field, ValidationError

from soundwhere.errors import MediaError
from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.types import Image

MOST_BYTES: Final = 96 << 20
"""Of a clip as the page sends it."""
_MOST_FRAMES = 1000
_MOST_PIXELS = 1920 * 1200
_FPS = 15.0  # of frames without a time, of which there are none
_WRONG = MediaError("This clip cannot be written: it is not as the page makes it.", "Reload the page and record again.")


class _Head(BaseModel):
    """What comes first: times of the frames in seconds and their lengths in bytes, and the rate of the sound."""

    times_s: list[float] = Field(min_length=1, max_length=_MOST_FRAMES)
    lengths: list[int] = Field(max_length=_MOST_FRAMES)
    rate_hz: int = Field(ge=1000, le=400_000)


def write_clip(content: bytes, path: Path) -> None:
    """Write a clip.

    Args:
        content: The length of a JSON text (4 bytes, little-endian), the text (see `_Head`), one JPEG after the other,
            and the sound from the first frame on, float32, mono. Frames of another size than the last one are left out.
        path: The mp4; what it needs meanwhile is put beside it.

    Raises:
        MediaError: The content is something else.
    """
    head, rest = _read_head(content)
    ends = np.cumsum(head.lengths)
    sound = np.frombuffer(rest[int(ends[-1]) :][: (len(rest) - int(ends[-1])) // 4 * 4], "<f4")
    frames = [rest[end - length : end] for end, length in zip(ends.tolist(), head.lengths, strict=True)]
    size = _size(frames[-1])
    recording = path.with_suffix(".wav")
    _write_wav(recording, sound, head.rate_hz)
    with VideoWriter(path, size[0], size[1], _FPS, audio_from=recording if len(sound) else None) as video:
        for time_s, frame in zip(head.times_s, frames, strict=True):
            if _size(frame) == size:
                video.write(_picture(frame), time_s - head.times_s[0])
    recording.unlink()


def _read_head(content: bytes) -> tuple[_Head, memoryview]:
    if len(content) < 4:
        raise _WRONG
    (length,) = struct.unpack_from("<I", content)
    try:
        head = _Head.model_validate_json(content[4 : 4 + length])
    except (ValidationError, UnicodeDecodeError) as error:
        raise _WRONG from error
    rest, times = memoryview(content)[4 + length :], np.array(head.times_s)
    ascending = np.isfinite(times).all() and (np.diff(times) > 0).all() and times[-1] - times[0] < 60
    if len(head.lengths) != len(times) or min(head.lengths) < 1 or sum(head.lengths) > len(rest) or not ascending:
        raise _WRONG
    return head, rest


def _size(frame: memoryview) -> tuple[int, int]:
    """Width and height of a JPEG."""
    try:
        with Pillow.open(io.BytesIO(frame), formats=["JPEG"]) as picture:
            width, height = picture.size
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise _WRONG from error
    if width * height > _MOST_PIXELS:
        raise _WRONG
    return width, height


def _picture(frame: memoryview) -> Image:
    try:
        with Pillow.open(io.BytesIO(frame), formats=["JPEG"]) as picture:
            return np.array(picture.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise _WRONG from error


def _write_wav(path: Path, sound: np.ndarray, rate_hz: int) -> None:
    whole = np.clip(np.nan_to_num(sound), -1, 1) * 32767
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate_hz, 0, "NONE", ""))
        file.writeframes(whole.astype("<i2").tobytes())
