"""Pictures and sounds as bytes in memory, which is how shards hold them. Same input, same libraries, same bytes."""

from __future__ import annotations

from fractions import Fraction
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Literal

import av
import numpy as np
from av.error import FFmpegError
from PIL import Image as Pillow

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.errors import MediaError

if TYPE_CHECKING:
    from soundwhere.types import Image, Waveform

SoundFormat = Literal["flac", "opus"]

OPUS_RATES_HZ: Final = (8_000, 12_000, 16_000, 24_000, 48_000)
_OPUS_BITS_PER_S: Final = 64_000
_FULL_SCALE: Final = 32_768
_PIECE: Final = 1 << 16  # samples handed to an encoder at a time


def encode_jpeg(image: Image, quality: int) -> bytes:
    """A picture (H, W, 3) as a JPEG file."""
    file = BytesIO()
    Pillow.fromarray(image).save(file, "JPEG", quality=quality, optimize=False)
    return file.getvalue()


def decode_jpeg(data: bytes | memoryview) -> Image:
    """The picture of a JPEG file, RGB (H, W, 3).

    Raises:
        MediaError: It is damaged.
    """
    try:
        with Pillow.open(BytesIO(data)) as file:
            return np.array(file.convert("RGB"))
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise MediaError(f"A picture is damaged ({error}).") from error


def encode_sound(waveform: Waveform, rate_hz: int, form: SoundFormat | Literal["ogg"]) -> bytes:
    """A waveform (N,) as FLAC (16 bits; in an Ogg file for `ogg`) or Opus (64 kbit/s), clipped at full scale."""
    samples = np.clip(np.rint(waveform * np.float32(_FULL_SCALE)), -_FULL_SCALE, _FULL_SCALE - 1).astype(np.int16)
    file = BytesIO()
    codec, container_format = "libopus" if form == "opus" else "flac", "flac" if form == "flac" else "ogg"
    # bitexact: no version, no time, no random serial number
    options = {"fflags": "+bitexact"}
    with av.open(file, "w", format=container_format, options=options) as container:
        stream: Any = container.add_stream(codec, rate=rate_hz, layout="mono", options={"flags": "+bitexact"})
        if form == "opus":
            stream.bit_rate = _OPUS_BITS_PER_S
        for start in range(0, len(samples), _PIECE):
            frame = av.AudioFrame.from_ndarray(samples[None, start : start + _PIECE], format="s16", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = rate_hz, start, Fraction(1, rate_hz)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def decode_sound(data: bytes | memoryview) -> Waveform:
    """The sound of a FLAC or Opus file, mono, float32, at 22 050 Hz, shape (N,).

    Raises:
        MediaError: It is damaged.
    """
    try:
        with av.open(BytesIO(data), "r") as container:
            stream = container.streams.audio[0]
            if stream.codec_context.sample_rate == SAMPLE_RATE_HZ and stream.codec_context.format.name == "s16":
                pieces = [frame.to_ndarray()[0] for frame in container.decode(stream)]
                joined = np.concatenate(pieces) if pieces else np.zeros(0, np.int16)
                return joined.astype(np.float32) / np.float32(_FULL_SCALE)
            resampler = av.AudioResampler(format="fltp", layout="mono", rate=SAMPLE_RATE_HZ)
            blocks = [block for frame in container.decode(stream) for block in resampler.resample(frame)]
            blocks += resampler.resample(None)
            return np.concatenate([np.zeros(0, np.float32), *(block.to_ndarray()[0] for block in blocks)])
    except (FFmpegError, OSError, ValueError, IndexError) as error:
        raise MediaError(f"A sound is damaged ({error}).") from error
