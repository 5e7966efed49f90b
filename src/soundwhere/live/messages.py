"""What travels over the WebSocket between the page and the server, as bytes, little-endian.

From the page, frames and sound, each after a head of 16 bytes: kind (1 frame, 2 sound), then width and height or the
rate in hertz, and the page's time in seconds as a double. After a frame's head comes RGBA, after that of sound float32
samples, mono. Text says only that the page is still there.

To the page, answers: the length of a JSON text, the text, and the bytes of the maps.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.errors import MediaError
from soundwhere.inference.player import as_bytes, warm

if TYPE_CHECKING:
    from soundwhere.inference.live import LiveAnswer
    from soundwhere.types import Image, Waveform

MOST_PIXELS: Final = 640 * 640
"""Of a frame: far more than a network sees."""
MOST_BYTES: Final = 4 * MOST_PIXELS + 16
"""Of a message."""
_HEAD: Final = struct.Struct("<IHHd")
_SOUND_HEAD: Final = struct.Struct("<IId")
_FRAME, _SOUND = 1, 2


@dataclass(frozen=True, eq=False)
class FrameMessage:
    """A picture, RGB, shape (H, W, 3), uint8, and its time."""

    image: Image
    time_s: float


@dataclass(frozen=True, eq=False)
class SoundMessage:
    """Samples, shape (N,), their rate, and the time of the last one."""

    samples: Waveform
    rate_hz: int
    time_s: float


def read_message(content: bytes) -> FrameMessage | SoundMessage:
    """What the page sent.

    Raises:
        MediaError: Something else.
    """
    wrong = MediaError("The page sent something that is neither a frame nor sound.", "Reload the page.")
    if len(content) < _HEAD.size:
        raise wrong
    kind, width, height, time_s = _HEAD.unpack_from(content)
    body = memoryview(content)[_HEAD.size :]
    if not math.isfinite(time_s):
        raise wrong
    if kind == _FRAME and 0 < width * height <= MOST_PIXELS and len(body) == 4 * width * height:
        pixels = np.frombuffer(body, np.uint8).reshape(height, width, 4)
        return FrameMessage(pixels[..., :3], time_s)
    if kind == _SOUND and len(body) % 4 == 0:
        return SoundMessage(np.frombuffer(body, "<f4"), _SOUND_HEAD.unpack_from(content)[1], time_s)
    raise wrong


def write_answer(answer: LiveAnswer) -> bytes:
    """An answer as the page reads it: maps as they are drawn, nothing of a source that does not sound."""
    drawn = warm(answer.maps) * answer.sounding[:, None, None]
    about = {
        "time_s": answer.time_s,
        "sound_s": None if math.isnan(answer.sound_s) else answer.sound_s,
        "latency_s": round(answer.latency_s, 4),
        "dropped": answer.dropped,
        "level_db": None if math.isinf(answer.level_db) else answer.level_db,
        "grid": list(drawn.shape[1:]),
        "sources": [
            {"confidence": round(float(sure), 4), "sounding": bool(sounds), "place": place, "peak": _shares(answer, k)}
            for k, (sure, sounds, place) in enumerate(
                zip(answer.confidence, answer.sounding, answer.places, strict=True)
            )
        ],
    }
    text = json.dumps(about, allow_nan=False).encode("ascii")
    return struct.pack("<I", len(text)) + text + as_bytes(drawn)


def write_problem(error: str, remedy: str) -> str:
    """Why there will be no answers."""
    return json.dumps({"error": error, "remedy": remedy})


def _shares(answer: LiveAnswer, source: int) -> list[float]:
    """Where a map is highest, as shares of width and height."""
    height, width = answer.size
    x, y = answer.peaks[source]
    return [round(float(x) / width, 4), round(float(y) / height, 4)]
