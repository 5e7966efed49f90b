"""Sound files and sound tracks to waveforms: mono, float32, 22 050 Hz, on the same clock as the picture."""

from __future__ import annotations

import math
import wave
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import av
import numpy as np
from av.error import FFmpegError

from soundwhere.constants import CLIP_S, MIXING_RMS, SAMPLE_RATE_HZ
from soundwhere.files import atomic_path
from soundwhere.media import container as media

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from numpy.typing import NDArray

    from soundwhere.types import Waveform

    Channels = NDArray[np.float32]  # (C, n)

_JUMP_S = 0.015  # less is the jitter of rounded time stamps; a lost packet is longer
_SILENT_RMS = 1e-5  # -100 dB: below the smallest step of 16-bit sound
_SILENCE_SAMPLES = 1 << 16  # silence is written in pieces of this size, so that a long gap needs little memory
_FRAMES_TOGETHER = 16  # that are resampled at once: a third of a second of AAC
_INDEXED = {"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "wav"}  # formats whose time stamps stay exact after a jump


def read_audio(
    path: Path | str, start_s: float = 0.0, end_s: float | None = None, rate_hz: int = SAMPLE_RATE_HZ
) -> Waveform:
    """Read the sound of a media file.

    Sample i belongs to time start_s + i / rate_hz, where time 0 is the zero of the container and so of the video
    frames. Sound that begins late is preceded by silence, sound before time 0 (a codec's run-up) is cut off, missing
    packets become silence, channels are averaged.

    Args:
        path: Sound file or video, of any rate, format and number of channels.
        start_s: Time of the first sample, in seconds; before 0 there is silence.
        end_s: Time before which to stop; by default, and at the latest, where the sound ends.
        rate_hz: Samples per second.

    Returns:
        Shape (N,), float32; empty if the sound ends before `start_s`.

    Raises:
        MediaError: The file cannot be read or has no sound track.
    """
    wanted = None if end_s is None else max(0, round((end_s - start_s) * rate_hz))
    blocks = [np.zeros(0, np.float32)]
    total = 0
    for block in timeline(path, rate_hz, start_s=start_s):
        if wanted is not None and total >= wanted:
            break
        blocks.append(block[0])
        total += block.shape[1]
    return np.concatenate(blocks)[:wanted]


def window(waveform: Waveform, centre_s: float, length_s: float = CLIP_S) -> Waveform:
    """The part of a waveform around a time, with silence outside of it.

    Args:
        waveform: Shape (N,), from time 0.
        centre_s: Time of the middle, in seconds; may lie outside.
        length_s: Length, in seconds.

    Returns:
        Exactly round(length_s * 22 050) samples, a copy.
    """
    size = round(length_s * SAMPLE_RATE_HZ)
    start = round(centre_s * SAMPLE_RATE_HZ) - size // 2
    part = np.zeros(size, np.float32)
    low, high = np.clip([start, start + size], 0, len(waveform))
    part[low - start : high - start] = waveform[low:high]
    return part


def centre_clip(waveform: Waveform, length_s: float = CLIP_S) -> Waveform:
    """The middle of a waveform; one that is too short is repeated, an empty one gives silence.

    Returns:
        Exactly round(length_s * 22 050) samples, a copy.
    """
    size = round(length_s * SAMPLE_RATE_HZ)
    if len(waveform) == 0:
        return np.zeros(size, np.float32)
    if len(waveform) < size:
        return np.resize(waveform, size)  # repeats
    start = (len(waveform) - size) // 2
    return waveform[start : start + size].copy()


def scale_to_rms(waveform: Waveform, rms: float = MIXING_RMS) -> Waveform:
    """Scale a waveform to a root mean square; silence (below -100 dB) stays as it is.

    Returns:
        Shape (N,), float32, a copy.
    """
    level = float(np.sqrt(np.mean(np.square(waveform, dtype=np.float64)))) if len(waveform) else 0.0
    return (waveform * (rms / level if level > _SILENT_RMS else 1.0)).astype(np.float32)


def write_wav(path: Path | str, waveform: Waveform) -> None:
    """Write a 16-bit mono WAV file atomically; what is louder than full scale is clipped, NaN becomes silence."""
    samples = np.clip(np.nan_to_num(waveform), -1.0, 1.0) * 32767
    with atomic_path(Path(path)) as temporary, wave.open(str(temporary), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE_HZ)
        file.writeframes(samples.round().astype("<i2").tobytes())


def timeline(path: Path | str, rate_hz: int, channels: int = 1, start_s: float = 0.0) -> Iterator[Channels]:
    """The sound of a media file as consecutive samples on the container's clock, with neither gap nor overlap.

    Args:
        path: Media file.
        rate_hz: Rate to resample to.
        channels: 1 for the mean of all channels; 2 where the file is known to have two.
        start_s: Time of the first sample, in seconds.

    Yields:
        Shape (channels, n), float32, always finite.
    """
    path = Path(path)
    with media.open_media(path) as container:
        stream = media.sound_stream(container)
        if stream is None:
            raise media.no_sound(path, media.describe_streams(container))
        zero_s = media.zero_s(container)
        run_up = start_s - media.SEEK_MARGIN_S
        if run_up > 0 and container.format.name in _INDEXED and stream.time_base:
            with suppress(FFmpegError):  # a broken index: then all that lies before is read
                container.seek(int((run_up + zero_s) / stream.time_base), stream=stream)
        yield from _placed(_resampled(container, stream, zero_s, rate_hz, channels), channels, round(start_s * rate_hz))


def _placed(blocks: Iterator[tuple[int, Channels]], channels: int, position: int) -> Iterator[Channels]:
    """Join blocks that know their place: silence where one begins late, a cut where it begins early."""
    for index, block in blocks:
        while position < index:
            gap = min(index - position, _SILENCE_SAMPLES)
            yield np.zeros((channels, gap), np.float32)
            position += gap
        block = block[:, position - index :]
        if block.size:
            yield block
            position += block.shape[1]


def _resampled(
    container: InputContainer, stream: AudioStream, zero_s: float, rate_hz: int, channels: int
) -> Iterator[tuple[int, Channels]]:
    """Decode and resample; each block comes with the index its first sample has at `rate_hz`."""
    run: _Run | None = None
    for frame in media.decoded(container, stream):
        frame = cast("AudioFrame", frame)
        if not media.is_audible(frame.sample_rate):
            continue
        expected_s = run.end_s if run else 0.0
        time_s = expected_s if frame.time is None else frame.time - zero_s
        if run is None or run.source_hz != frame.sample_rate or abs(time_s - expected_s) > _JUMP_S:
            if run is not None:
                yield from run.end()
            run = _Run(time_s, frame.sample_rate, rate_hz, channels)
        yield from run.add(frame)
    if run is not None:
        yield from run.end()


class _Run:
    """A stretch of sound without a gap, resampled as one, many frames at a time: calls cost more than samples.

    It begins with some samples of silence, at a moment at which the samples of both rates coincide, so that the
    result does not depend on where reading started.
    """

    def __init__(self, start_s: float, source_hz: int, target_hz: int, channels: int) -> None:
        step = source_hz // math.gcd(source_hz, target_hz)
        start = round(start_s * source_hz)
        self.source_hz = source_hz
        self._lead = start % step
        self._read = start  # in samples of the source
        self._written = (start - self._lead) * target_hz // source_hz  # in samples of the target
        self._channels, self._layout = channels, "mono" if channels == 1 else "stereo"
        self._resampler = av.AudioResampler(format="fltp", layout=self._layout, rate=target_hz)
        self._nothing: Channels = np.zeros((channels, 0), np.float32)
        self._waiting: list[AudioFrame] = []

    @property
    def end_s(self) -> float:
        """Time at which the next sample is expected."""
        return self._read / self.source_hz

    def add(self, frame: AudioFrame) -> Iterator[tuple[int, Channels]]:
        """Take the frame that follows; yields what is resampled by now, and its index."""
        if self._waiting and (len(self._waiting) == _FRAMES_TOGETHER or _form(self._waiting[0]) != _form(frame)):
            yield self._resample(self._joined())
        self._waiting.append(frame)
        self._read += frame.samples

    def end(self) -> Iterator[tuple[int, Channels]]:
        """What is left, and its index."""
        yield self._resample(self._joined())
        yield self._resample(None)

    def _joined(self) -> Channels:
        """The samples that wait, after the silence if they are the first."""
        samples = np.pad(_samples(self._waiting, self._channels), ((0, 0), (self._lead, 0)))
        self._waiting, self._lead = [], 0
        return samples

    def _resample(self, samples: Channels | None) -> tuple[int, Channels]:
        frame = None
        if samples is not None:
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout=self._layout)
            frame.sample_rate = self.source_hz
        pieces = [piece.to_ndarray() for piece in self._resampler.resample(frame) if piece is not None]
        block = np.concatenate([self._nothing, *pieces], axis=1)
        index = self._written
        self._written += block.shape[1]
        return index, block


def _form(frame: AudioFrame) -> tuple[str, int]:
    """How a frame holds its samples."""
    return frame.format.name, frame.layout.nb_channels


def _samples(frames: list[AudioFrame], channels: int) -> Channels:
    """The samples of frames of one form in [-1, 1], shape (channels, n); what is not finite becomes silence."""
    data = np.concatenate([frame.to_ndarray() for frame in frames], axis=1)
    if not frames[0].format.is_planar:
        data = data.reshape(-1, frames[0].layout.nb_channels).T
    samples: Channels = data.astype(np.float32)
    if data.dtype == np.uint8:
        samples -= 128
    if data.dtype.kind in "iu":  # full scale is half the range of the integers
        samples /= np.float32(256.0**data.dtype.itemsize / 2)
    samples = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)
    return samples.mean(0, keepdims=True) if channels == 1 else samples
