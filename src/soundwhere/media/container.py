"""Opening media files: one zero of time for picture and sound, errors a user can act on, damage stepped over."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import av
from av.error import FFmpegError

from soundwhere.errors import MediaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    Due = Callable[[float, float], bool]  # whether a picture on display between two times is to be seen

VIDEO_SUFFIXES: Final = frozenset(
    {".3gp", ".avi", ".flv", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm", ".wmv"}
)
_REMEDY = "Give a video that plays, such as an mp4, mov, mkv, webm or gif, or a sound file."
SEEK_MARGIN_S: Final = 1.0  # decoders need a run-up: reordered frames, overlapping sound packets
_REORDERED = 16  # pictures by which decoding may run ahead of display: more is allowed by no format in use
_LEAST_BYTES_PER_S = 20  # a time beyond what a file has bytes for, at this rate after a minute, is damage
_PIXEL_SHAPES = (1.01, 4)  # pixels less wide or high than this count as square, those more as damage
decoder_threads = 0  # of a video; 0 is as many as there are cores, processes that share a machine take 1
_RATES_HZ = (1_000, 1_000_000)  # sound outside of this range is damage, too


def left_out(name: str) -> bool:
    """Whether a folder or file is not looked at when a folder is searched: it is hidden, or a result of ours."""
    return name.startswith(".") or name.endswith(".soundwhere")


@contextmanager
def open_media(path: Path) -> Iterator[InputContainer]:
    """Open a media file for reading.

    Raises:
        MediaError: The file is missing, a folder, empty, cut short or no media file.
    """
    path = Path(path)
    check_file(path)
    try:
        # "file:" keeps a name with a colon from being taken for an address; the whitelist keeps a playlist offline.
        # A title in another encoding than UTF-8 is no reason to refuse a file.
        container = av.open(f"file:{path}", options={"protocol_whitelist": "file"}, metadata_errors="replace")
    except (FFmpegError, OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    with container:
        if container.format.name == "tty":  # FFmpeg is willing to film a text file
            raise MediaError(f"{path} is a text file.", _REMEDY)
        yield container


def zero_s(container: InputContainer) -> float:
    """Time stamp that counts as time 0 for picture and sound alike.

    Some formats begin far from 0 (MPEG-TS at 1.4 s): the earliest stream then begins at time 0. A negative start is
    the run-up of a sound codec, or what an editor cut away: it stays before time 0.
    """
    return max(0.0, (container.start_time or 0) / av.time_base)


def longest_s(container: InputContainer) -> float:
    """The longest that a file of this size can last: damaged ones claim to last for years, and would be waited for."""
    return 60.0 + container.size / _LEAST_BYTES_PER_S


def picture_stream(container: InputContainer) -> VideoStream | None:
    """The first video stream that has a decoder, or none; the cover of an album is no video."""
    streams = (stream for stream in container.streams.video if stream.codec_context is not None)
    return next((s for s in streams if not s.disposition & s.disposition.attached_pic), None)


def sound_stream(container: InputContainer) -> AudioStream | None:
    """The first audio stream that has a decoder, or none."""
    return next((stream for stream in container.streams.audio if stream.codec_context is not None), None)


def displayed_size(stream: VideoStream) -> tuple[int, int]:
    """Width and height of the picture in square pixels, before it is rotated.

    Television and discs store pixels that are not square: the side that comes out too short is lengthened.
    """
    width, height = stream.codec_context.width, stream.codec_context.height
    ratio = float(stream.sample_aspect_ratio or 1)
    if not _PIXEL_SHAPES[0] < max(ratio, 1 / ratio) <= _PIXEL_SHAPES[1]:
        return width, height
    return (round(width * ratio), height) if ratio > 1 else (width, round(height / ratio))


def is_audible(rate_hz: int) -> bool:
    """Whether a sampling rate is one that sound can have."""
    return _RATES_HZ[0] <= rate_hz <= _RATES_HZ[1]


def decoded(
    container: InputContainer, stream: AudioStream | VideoStream, due: Due | None = None
) -> Iterator[AudioFrame | VideoFrame]:
    """Every frame that decodes, in order of display: damaged ones are skipped, a file cut short ends early.

    Args:
        container: An open file.
        stream: One of its streams.
        due: Which pictures are to be seen. Others may be left out, where the decoder can do without them.
    """
    last_s = zero_s(container) + longest_s(container)
    packets = _packets(container, stream)
    for frame in _decoded(stream, packets if due is None else _marked(packets, stream, due)):
        if not frame.is_corrupt and (frame.time is None or frame.time <= last_s):
            yield frame


def _packets(container: InputContainer, stream: AudioStream | VideoStream) -> Iterator[Packet[Any]]:
    """The packets of a stream; after an error in the container once more, as long as there still are any."""
    progress = True
    while progress:
        progress = False
        try:
            for packet in container.demux(stream):
                progress = True
                yield packet
            return
        except FFmpegError:
            continue


def _marked(packets: Iterable[Packet[Any]], stream: AudioStream | VideoStream, due: Due) -> Iterator[Packet[Any]]:
    """The same packets; with each, the decoder is told whether it may skip the picture if no other picture needs it.

    A picture is on display until the next one, whose packet may come some packets before or after its own.
    """
    waiting: deque[Packet[Any]] = deque()
    near: deque[int] = deque(maxlen=3 * _REORDERED)  # when pictures begin, of packets before and after the next to go

    def marked(packet: Packet[Any]) -> Packet[Any]:
        seen = True
        if packet.pts is not None and packet.time_base is not None:
            end = min((other for other in near if other > packet.pts), default=None)
            tick_s = float(packet.time_base)  # fractions would take longer than some pictures
            seen = end is None or due(packet.pts * tick_s, end * tick_s)
        stream.codec_context.skip_frame = "DEFAULT" if seen else "NONREF"
        return packet

    for packet in packets:
        waiting.append(packet)
        if packet.pts is not None:
            near.append(packet.pts)
        if len(waiting) > _REORDERED:
            yield marked(waiting.popleft())
    yield from map(marked, waiting)


def _decoded(stream: AudioStream | VideoStream, packets: Iterable[Packet[Any]]) -> Iterator[AudioFrame | VideoFrame]:
    for packet in packets:
        try:
            frames = packet.decode()
        except FFmpegError:
            continue
        yield from frames
    try:
        yield from stream.codec_context.decode(None)  # what a file that was cut short has left in the decoder
    except FFmpegError:
        return


def describe_streams(container: InputContainer) -> str:
    """The streams in words: `video h264 1280x720, audio aac stereo 48 kHz`."""
    words = []
    if (picture := picture_stream(container)) is not None:
        context = picture.codec_context
        words.append(f"video {context.codec.canonical_name} {context.width}x{context.height}")
    if (sound := sound_stream(container)) is not None:
        words.append(f"audio {sound.codec_context.codec.canonical_name} {describe_sound(sound)}")
    return ", ".join(words) or "none"


def describe_sound(stream: AudioStream) -> str:
    """Channels and rate in words: `stereo 48 kHz`."""
    channels = stream.codec_context.channels
    words = {1: "mono", 2: "stereo"}.get(channels, f"{channels} channels")
    return f"{words} {stream.codec_context.sample_rate / 1000:g} kHz"


def no_sound(path: Path, streams: str) -> MediaError:
    """The error for a picture without sound."""
    return MediaError(
        f"{path} has a picture but no sound track (streams: {streams}).",
        f"Localisation needs both. To use a separate recording: soundwhere {path} --audio recording.wav",
    )


def no_picture(path: Path, streams: str) -> MediaError:
    """The error for a sound without picture."""
    return MediaError(
        f"{path} has no picture (streams: {streams}).",
        f"Localisation needs both. To use a photo with this sound: soundwhere photo.jpg --audio {path}",
    )


def check_file(path: Path) -> None:
    """Raise a MediaError unless `path` is a file with something in it."""
    if path.is_dir():
        raise MediaError(f"{path} is a folder, not a file.", "Give one media file.")
    if not path.exists():
        raise MediaError(f"{path} does not exist.", "Check the spelling and the folder.")
    if not path.is_file():
        raise MediaError(f"{path} is not a regular file.", "Copy it to a file first: it has to be read in any order.")
    if path.stat().st_size == 0:
        raise MediaError(f"{path} is empty (0 bytes).", "Download or copy it again.")


def _unreadable(path: Path, error: Exception) -> MediaError:
    if isinstance(error, PermissionError):
        return MediaError(f"{path} cannot be read: permission denied.", "Ask its owner for permission.")
    with path.open("rb") as file:
        begins_as_mp4 = file.read(8)[4:] == b"ftyp"
    if begins_as_mp4:
        return MediaError(f"{path} is cut short or damaged: its index is missing.", "Download or copy it again.")
    return MediaError(f"{path} is not a media file that can be read.", _REMEDY)
