"""Writing videos that keep their sound: H.264 and AAC in mp4, in constant memory, whole or not at all."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import Colorspace, VideoReformatter

from soundwhere import cores
from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.errors import OutputError
from soundwhere.files import atomic_path, output_error
from soundwhere.media import container as media
from soundwhere.media.audio import timeline
from soundwhere.media.planes import even_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from av.audio.stream import AudioStream
    from av.container import InputContainer, OutputContainer
    from av.packet import Packet as AnyPacket
    from numpy.typing import NDArray

    from soundwhere.types import Image, Waveform

    Packet = AnyPacket[Any]

_TICKS = Fraction(1, 90_000)  # fine enough for every frame rate in use
_COPIED = {"aac", "mp3", "ac3", "eac3", "alac"}  # what players expect in an mp4; anything else becomes AAC
_ENCODED_HZ = 48_000
_RUN_UP_S = 0.1  # sound packets kept before the start, from which a decoder gets going; players do not play them
_BT709 = 1
# `ultrafast` alone makes files 2.4 times as large as `veryfast`. With a little looking ahead, a B-frame, a filter of
# blocks and the better entropy coder they stay near what slower presets give; half the usual care for flat parts does.
_PRESET = {
    "preset": "ultrafast",
    "x264-params": "mbtree=1:rc-lookahead=5:cabac=1:deblock=0,0:bframes=1:aq-mode=1:aq-strength=0.5",
}


class VideoWriter:
    """Writes frames, and the sound that belongs to them, to an mp4 file.

    Times are on the clock of the source (as `stream_frames` and `read_audio` give them); `start_s` becomes time 0 of
    the file. Sound is copied packet by packet where mp4 can hold it and encoded as AAC otherwise. Nothing appears at
    `path` before the `with` block ends, and nothing at all if it ends with an error.

    Args:
        path: The mp4 file to write.
        width: Width of the frames; an odd one is extended by a column, for the codec knows only even sizes.
        height: Height of the frames; likewise.
        fps: Frame rate of frames written without a time.
        audio_from: Media file whose sound is taken, if it has any.
        waveform: Sound to write instead, shape (N,), its first sample at time 0.
        start_s: Time of the source with which the file begins.
        end_s: Time of the source at which the sound ends; by default with the sound itself.
        crf: Quality from 0 (lossless) to 51; 20 is hard to tell from the original.

    Example:
        with VideoWriter(path, 640, 360, fps=25, audio_from=source) as writer:
            for frame in stream_frames(source, fps=25):
                writer.write(draw(frame.image), frame.time_s)
    """

    def __init__(
        self,
        path: Path | str,
        width: int,
        height: int,
        fps: float,
        audio_from: Path | str | None = None,
        waveform: Waveform | None = None,
        start_s: float = 0.0,
        end_s: float | None = None,
        crf: int = 20,
    ) -> None:
        self._path = Path(path)
        self._width, self._height = width, height
        self._fps = fps
        self._audio_from = None if audio_from is None else Path(audio_from)
        self._waveform = waveform
        self._start_s, self._end_s = start_s, end_s
        self._crf = crf
        self._frames = 0
        self._last_tick = -1
        self._converter = VideoReformatter()  # kept, for it makes tables
        self._open = ExitStack()

    def __enter__(self) -> Self:
        try:
            with self._writing():
                temporary = self._open.enter_context(atomic_path(self._path))
                self._container: OutputContainer = self._open.enter_context(
                    # the index goes to the front, so that a browser can play while it loads
                    av.open(str(temporary), "w", format="mp4", options={"movflags": "+faststart"})
                )
                self._add_video()
            self._sound = self._add_sound()
            self._packet = next(self._sound, None)
        except BaseException:
            self._abandon()
            raise
        return self

    def write(self, picture: Image | av.VideoFrame, time_s: float | None = None) -> None:
        """Append a frame.

        Args:
            picture: RGB, shape (height, width, 3), uint8; or `yuv420p` of even size, written as it is: the colour space
                of the file is then that of the first frame.
            time_s: When it appears; by default 1 / fps after the start or the frame before, counted from the start.
        """
        if isinstance(picture, av.VideoFrame):
            frame, even = picture, (self._height + self._height % 2, self._width + self._width % 2)
            if (frame.format.name, frame.height, frame.width) != ("yuv420p", *even):
                raise ValueError(f"a frame of {frame.format.name} {frame.height} x {frame.width} in one of {even}")
            if not self._frames:
                context = self._video.codec_context
                context.colorspace, context.color_range = frame.colorspace, frame.color_range
                context.color_primaries = context.color_trc = frame.colorspace
        else:
            frame = self._converted(picture)
        elapsed_s = self._frames / self._fps if time_s is None else time_s - self._start_s
        self._frames += 1
        self._last_tick = max(round(elapsed_s / _TICKS), self._last_tick + 1)  # no two frames at one time
        frame.pts, frame.time_base = self._last_tick, _TICKS
        with self._writing():
            self._write_sound(elapsed_s)
            self._mux_video(self._video.encode(frame))

    def _converted(self, image: Image) -> av.VideoFrame:
        if image.shape != (self._height, self._width, 3):
            raise ValueError(f"a frame of shape {image.shape} in a video of {self._height} x {self._width}")
        return self._converter.reformat(even_frame(image), format="yuv420p", dst_colorspace=Colorspace.ITU709)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._abandon()
            return
        try:
            with self._writing():
                self._mux_video(self._video.encode(None))
                self._write_sound(None)
                self._open.close()  # writes the index, then renames the file
        except BaseException:
            self._abandon()
            raise

    def _add_video(self) -> None:
        rate = Fraction(self._fps).limit_denominator(1001)
        self._video = self._container.add_stream(
            "libx264",
            rate=rate,
            width=self._width + self._width % 2,
            height=self._height + self._height % 2,
            pix_fmt="yuv420p",
            options={"crf": str(self._crf), **_PRESET},
        )
        context = self._video.codec_context
        context.time_base = _TICKS
        context.thread_count = 1 + cores.cores()
        context.thread_type = "FRAME"  # encodes while the next frame is drawn; slices would make it wait
        context.gop_size = max(1, round(2 * self._fps))  # a key frame every two seconds, for those who jump about
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = 1  # as television has it: 16 to 235

    def _add_sound(self) -> Iterator[Packet]:
        """Add the sound's stream, if there is sound, and return its packets."""
        if self._waveform is not None:
            return self._encoded(_blocks(self._waveform, self._start_s), SAMPLE_RATE_HZ, 1)
        if self._audio_from is None:
            return iter(())
        source = self._open.enter_context(media.open_media(self._audio_from))
        stream = media.sound_stream(source)
        if stream is None:
            return iter(())
        context = stream.codec_context
        codec = context.codec.canonical_name
        if codec in _COPIED and (codec != "aac" or context.extradata):  # without, it is framed for broadcasting
            return self._copied(source, stream)
        channels = 2 if context.channels == 2 else 1
        blocks = timeline(self._audio_from, _ENCODED_HZ, channels, self._start_s)
        return self._encoded(blocks, _ENCODED_HZ, channels)

    def _copied(self, source: InputContainer, stream: AudioStream) -> Iterator[Packet]:
        copy = self._container.add_stream_from_template(stream)
        return _shifted(source, stream, copy, media.zero_s(source) + self._start_s, self._length_s)

    def _encoded(self, blocks: Iterable[NDArray[np.float32]], rate_hz: int, channels: int) -> Iterator[Packet]:
        stream = self._container.add_stream("aac", rate=rate_hz, layout="mono" if channels == 1 else "stereo")
        stream.bit_rate = 96_000 * channels
        left = None if self._length_s is None else round(self._length_s * rate_hz)
        return _encode(blocks, stream, rate_hz, left)

    @property
    def _length_s(self) -> float | None:
        return None if self._end_s is None else max(0.0, self._end_s - self._start_s)

    def _write_sound(self, until_s: float | None) -> None:
        """Write the sound up to a time of the file, or with None all that is left."""
        while self._packet is not None and (until_s is None or _time_s(self._packet) <= until_s):
            self._container.mux(self._packet)
            self._packet = next(self._sound, None)

    def _mux_video(self, packets: list[Packet]) -> None:
        for packet in packets:
            if not packet.duration:
                packet.duration = round(1 / (self._fps * _TICKS))  # else the last frame would last no time
            self._container.mux(packet)

    def _abandon(self) -> None:
        """Close everything and leave no file behind, whatever went wrong before."""
        failed = RuntimeError("abandoned")
        try:
            self._open.__exit__(RuntimeError, failed, None)
        except (FFmpegError, OSError, OutputError):  # the disk may be full for the index, too
            return

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise output_error(self._path, error) from error
        except FFmpegError as error:
            raise OutputError(f"{self._path} cannot be written: {error}.", "Choose another --out.") from error


def _time_s(packet: Packet) -> float:
    return float((packet.pts or 0) * packet.time_base)


def _blocks(waveform: Waveform, start_s: float) -> Iterator[NDArray[np.float32]]:
    """A waveform from a time on, in pieces of a second, shape (1, n); before its beginning there is silence."""
    start = round(start_s * SAMPLE_RATE_HZ)
    if start < 0:
        yield np.zeros((1, -start), np.float32)
    for index in range(max(start, 0), len(waveform), SAMPLE_RATE_HZ):
        yield waveform[None, index : index + SAMPLE_RATE_HZ]


def _shifted(
    source: InputContainer, stream: AudioStream, copy: AudioStream, shift_s: float, length_s: float | None
) -> Iterator[Packet]:
    """The packets of a stream, moved to begin at `shift_s`; those that end well before it are left out."""
    try:
        for packet in source.demux(stream):
            if packet.pts is None or packet.size == 0:
                continue
            packet.pts -= round(shift_s / packet.time_base)
            packet.dts = packet.pts
            time_s = _time_s(packet)
            if length_s is not None and time_s >= length_s:
                return
            if time_s >= -_RUN_UP_S:
                packet.stream = copy
                yield packet
    except FFmpegError:  # the source is cut short: so is the copy
        return


def _encode(
    blocks: Iterable[NDArray[np.float32]], stream: AudioStream, rate_hz: int, left: int | None
) -> Iterator[Packet]:
    """Encode blocks of shape (channels, n) that follow each other, `left` samples at most."""
    position = 0
    for block in blocks:
        block = block[:, : None if left is None else left - position]
        if block.shape[1] == 0:
            break
        samples = np.ascontiguousarray(np.nan_to_num(block).clip(-1, 1), dtype=np.float32)
        frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout=stream.codec_context.layout.name)
        frame.sample_rate, frame.pts, frame.time_base = rate_hz, position, Fraction(1, rate_hz)
        position += block.shape[1]
        yield from stream.encode(frame)
    yield from stream.encode(None)
