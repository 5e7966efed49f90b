"""Videos to frames, by time and never by index, in constant memory. A photo is a video with one frame."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import VideoReformatter

from soundwhere import cores
from soundwhere.errors import ConfigError, MediaError
from soundwhere.media import container as media
from soundwhere.media.image import IMAGE_SUFFIXES, MOST_PIXELS, read_image
from soundwhere.media.shrink import Undeveloped

T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    from soundwhere.types import Image

    Pictures = Iterator[tuple[float, Callable[[], T]]]  # time, and the picture when it is wanted

_LONG_S = 10.0  # a stretch of time this long is told in whole seconds
_ROUNDING_S = 1e-3  # time stamps of some formats are rounded to the millisecond
_MARGIN_S = 2 * _ROUNDING_S  # by which a picture counts as on display longer than it is, rather than be missed
_FULL_HD_PX = 1920 * 1088
_SEEK_BEYOND_S = 5.0  # to reach a frame further ahead than this, jumping beats decoding what lies between


@dataclass(frozen=True)
class MediaInfo:
    """What a media file holds.

    Attributes:
        path: The file.
        duration_s: Length in seconds; 0 for a photo.
        width: Width of the picture as displayed, in pixels; 0 without a picture.
        height: Height of the picture as displayed.
        fps: Average frame rate; 0 for a photo or without a picture.
        has_video: Whether there is a picture.
        has_audio: Whether there is sound.
        sound: The sound in words, such as `stereo 48 kHz`; empty without.
        streams: The streams in words, as errors quote them.
    """

    path: Path
    duration_s: float
    width: int
    height: int
    fps: float
    has_video: bool
    has_audio: bool
    sound: str
    streams: str

    def describe(self) -> str:
        """One line for people: `0:42, 1280x720, stereo 48 kHz`."""
        size = f"{self.width}x{self.height}" if self.has_video else "no picture"
        return ", ".join([clock(self.duration_s), size, self.sound or "no sound"])


@dataclass(frozen=True, eq=False)
class Frame:
    """A picture, RGB of shape (H, W, 3), uint8, and the time at which it is on display, in seconds."""

    time_s: float
    image: Image


def clock(time_s: float, tenths: bool = False) -> str:
    """A time as people write it, in whole seconds or to a tenth of a second.

    >>> clock(42.3), clock(3725), clock(59.96, tenths=True)
    ('0:42', '1:02:05', '1:00.0')
    """
    if tenths:
        whole, tenth = divmod(round(10 * time_s), 10)
        return f"{clock(whole)}.{tenth}"
    minutes, seconds = divmod(int(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def clock_span(start_s: float, end_s: float, between: str = "-") -> str:
    """A stretch of time as people write it: to a tenth of a second where whole seconds would tell too little.

    >>> clock_span(0, 42.3), clock_span(7.24, 8.4), clock_span(2, 2.03)
    ('0:00-0:42', '0:07.2-0:08.4', '0:02.0-0:02.1')
    """
    if end_s - start_s >= _LONG_S:
        return f"{clock(start_s)}{between}{clock(round(end_s))}"
    return f"{clock(start_s, tenths=True)}{between}{clock(max(end_s, start_s + 0.1), tenths=True)}"


def probe(path: Path | str) -> MediaInfo:
    """Look what a media file holds.

    Raises:
        MediaError: The file cannot be read, or has a picture of which nothing can be decoded.
    """
    path = Path(path)
    if _is_photo(path):
        height, width, _ = read_image(path).shape
        return MediaInfo(path, 0.0, width, height, 0.0, True, False, "", f"picture {width}x{height}")
    with media.open_media(path) as container:
        duration_s = _duration_s(container)
        picture, sound = media.picture_stream(container), media.sound_stream(container)
        words, streams = media.describe_sound(sound) if sound else "", media.describe_streams(container)
        fps = max(0.0, float(picture.average_rate or picture.guessed_rate or 0)) if picture else 0.0
    height = width = 0
    if picture:  # only a decoded frame knows how it is rotated
        height, width, _ = read_frames(path, [0.0])[0].image.shape
    return MediaInfo(path, duration_s, width, height, fps, picture is not None, sound is not None, words, streams)


def require_streams(info: MediaInfo) -> None:
    """Raise a MediaError unless there are both picture and sound."""
    if not info.has_video:
        raise media.no_picture(info.path, info.streams)
    if not info.has_audio:
        raise media.no_sound(info.path, info.streams)


def stream_frames(
    path: Path | str, fps: float | None = None, start_s: float = 0.0, end_s: float | None = None
) -> Iterator[Frame]:
    """Frames in order, in constant memory.

    Args:
        path: Video or photo. Rotation is applied, pixels are made square, transparent parts are black, damaged frames
            are skipped. Where the size changes on the way, as it does in recorded calls, frames are brought to that of
            the beginning.
        fps: With it, the frame on display at start_s, start_s + 1 / fps, ... (the first frame before it appears, the
            last frame after it ended). Without, every frame at its own time.
        start_s: Time to begin at, in seconds on the same clock as `read_audio`.
        end_s: Time before which to stop; by default where the file ends, be it picture or sound. A later time holds
            the last frame.

    Yields:
        Frames with increasing times. Several may share one array: copy before changing it.

    Raises:
        MediaError: The file cannot be read, has no picture, or none of it can be decoded.
    """
    path = Path(path)
    if fps is None:
        for time_s, picture in decode_pictures(path, start_s, to_rgb, read_image):
            if end_s is not None and time_s >= end_s:
                return
            if time_s >= start_s:
                yield Frame(time_s, picture())
        return
    for time_s, image in at_rate(path, fps, start_s, end_s, to_rgb, read_image):
        yield Frame(time_s, image)


def stream_undeveloped(
    path: Path | str, fps: float, start_s: float, end_s: float
) -> Iterator[tuple[float, Undeveloped]]:
    """As `stream_frames` at a rate, for whoever wants pictures smaller: this thread only decodes."""
    yield from at_rate(Path(path), fps, start_s, end_s, to_undeveloped, lambda photo: _undeveloped(read_image(photo)))


def at_rate(
    path: Path,
    fps: float,
    start_s: float,
    end_s: float | None,
    develop: Callable[[VideoReformatter, tuple[int, int], VideoFrame], T],
    read_photo: Callable[[Path], T],
) -> Iterator[tuple[float, T]]:
    """The frame on display at start_s, start_s + 1 / fps, ..."""
    if not fps > 0:
        raise ConfigError(f"{fps} is not a valid number of frames per second.", "Give a number above 0.")
    until_s = length_s(path) if end_s is None else end_s
    if end_s is None and start_s == 0:
        until_s = max(until_s, 1 / fps)  # a photo lasts no time and is still to be seen
    pictures = decode_pictures(path, start_s, develop, read_photo, partial(any_even, start_s, fps))
    yield from on_display(pictures, even_times(fps, start_s, until_s))


def even_times(fps: float, start_s: float, end_s: float) -> Iterator[float]:
    """start_s, start_s + 1 / fps, ... before end_s."""
    return (start_s + index / fps for index in range(math.ceil((end_s - start_s) * fps - 1e-6)))


def read_frames(path: Path | str, times_s: Sequence[float]) -> list[Frame]:
    """The frames on display at given times, in the order asked for; before the first and after the last, those two."""
    path = Path(path)
    ascending = sorted(set(times_s))
    breaks = [i for i, (a, b) in enumerate(pairwise(ascending), 1) if b - a > _SEEK_BEYOND_S]
    found: dict[float, Frame] = {}
    for start, stop in pairwise([0, *breaks, len(ascending)]):
        times = ascending[start:stop]
        if times:
            pictures = decode_pictures(path, times[0], to_rgb, read_image, partial(_any_between, times))
            found.update((time_s, Frame(time_s, image)) for time_s, image in on_display(pictures, times))
    return [found[time_s] for time_s in times_s]


def on_display(pictures: Pictures[T], times_s: Iterable[float]) -> Iterator[tuple[float, T]]:
    """The picture on display at each of the ascending times: the latest that has begun."""
    with closing(pictures):  # type: ignore[type-var]
        following: tuple[float, Callable[[], T]] | None = next(pictures)
        make: Callable[[], T] | None = None
        image: T | None = None
        for time_s in times_s:
            while following is not None and (make is None or following[0] <= time_s + _ROUNDING_S):
                make, image = following[1], None
                following = next(pictures, None)
            if image is None and make is not None:
                image = make()
            if image is not None:
                yield time_s, image


def any_even(start_s: float, fps: float, begin_s: float, end_s: float) -> bool:
    """Whether one of start_s, start_s + 1 / fps, ... lies between two times."""
    return start_s + max(0, math.ceil((begin_s - start_s) * fps)) / fps <= end_s


def _any_between(times_s: Sequence[float], begin_s: float, end_s: float) -> bool:
    """Whether one of the ascending times lies between two others."""
    return bisect_left(times_s, begin_s) < bisect_right(times_s, end_s)


def decode_pictures(
    path: Path,
    start_s: float,
    develop: Callable[[VideoReformatter, tuple[int, int], VideoFrame], T],
    read_photo: Callable[[Path], T],
    due: media.Due | None = None,
) -> Pictures[T]:
    """Pictures from the one on display at `start_s` or some earlier one on, with increasing times.

    All of them, or with `due` at least those on display when it says so.
    """
    if _is_photo(path):
        photo = read_photo(path)
        yield 0.0, lambda: photo
        return
    with media.open_media(path) as container:
        stream = media.picture_stream(container)
        if stream is None:
            raise media.no_picture(path, media.describe_streams(container))
        size = media.displayed_size(stream)
        if size[0] * size[1] > MOST_PIXELS:
            raise MediaError(f"{path} claims to have a picture of {size[0]}x{size[1]}.", "Scale it down first.")
        reformatter = VideoReformatter()
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = media.decoder_threads or decoders(size[0] * size[1])
        zero_s = media.zero_s(container)
        run_up = start_s - media.SEEK_MARGIN_S
        sought = run_up > 0 and _seek(container, stream, run_up + zero_s)
        last_s = -math.inf

        def wanted(begin_s: float, end_s: float) -> bool:
            return due is None or due(begin_s - zero_s - _MARGIN_S, end_s - zero_s + _MARGIN_S)

        for frame in media.decoded(container, stream, wanted):
            time_s = frame.time - zero_s if frame.time is not None else max(last_s, 0) + 1 / (stream.average_rate or 25)
            if sought and last_s == -math.inf and time_s > start_s:
                break  # the jump went too far, as it may in formats without an index
            if time_s > last_s:
                last_s = time_s
                yield time_s, partial(develop, reformatter, size, cast("VideoFrame", frame))
    if last_s == -math.inf:
        if not sought:
            raise MediaError(
                f"{path} has a video track of which no frame can be decoded.", "Download or copy it again."
            )
        yield from decode_pictures(path, 0.0, develop, read_photo, due)


def decoders(pixels: int) -> int:
    """Threads that decode pictures of so many pixels: one is enough up to full HD, and more take turns at a cost."""
    return min(cores.cores(), max(1, math.ceil(pixels / _FULL_HD_PX)))


def _seek(container: InputContainer, stream: VideoStream, time_s: float) -> bool:
    """Jump to the last key frame before a time stamp; whether that was possible."""
    if stream.time_base is None:
        return False
    try:
        container.seek(int(time_s / stream.time_base), stream=stream)
    except FFmpegError:
        return False
    return True


def to_rgb(reformatter: VideoReformatter, size: tuple[int, int], frame: VideoFrame) -> Image:
    """A decoded frame as it is displayed: of the stream's size (width, height), upright, transparent parts black.

    One reformatter serves all frames of a stream: to set one up takes longer than to convert a frame.
    """
    width, height = size if all(size) else (frame.width, frame.height)
    transparent = is_transparent(frame)
    form = "rgba" if transparent else "rgb24"
    pixels = cast("Image", reformatter.reformat(frame, width, height, form, threads=1).to_ndarray())
    if transparent:
        rgba = pixels.astype(np.uint16)
        pixels = ((rgba[..., :3] * rgba[..., 3:] + 127) // 255).astype(np.uint8)
    turns = round(frame.rotation / 90) % 4  # counterclockwise, as numpy's
    return np.ascontiguousarray(np.rot90(pixels, turns)) if turns else pixels


def to_undeveloped(reformatter: VideoReformatter, size: tuple[int, int], frame: VideoFrame) -> Undeveloped:
    """A decoded frame as it is, unless it lies on its side or is transparent in parts."""
    if frame.rotation or is_transparent(frame):
        return _undeveloped(to_rgb(reformatter, size, frame))
    return Undeveloped(frame, size if all(size) else (frame.width, frame.height))


def _undeveloped(image: Image) -> Undeveloped:
    return Undeveloped(image, (image.shape[1], image.shape[0]))


def is_transparent(frame: VideoFrame) -> bool:
    """Whether a frame may be transparent in parts."""
    return frame.format.has_palette or any(component.is_alpha for component in frame.format.components)


def _is_photo(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES


def length_s(path: Path) -> float:
    """When a media file ends, picture or sound, read from its header where that says so; 0 for a photo.

    Raises:
        MediaError: The file cannot be read.
    """
    if _is_photo(path):
        return 0.0
    with media.open_media(path) as container:
        return _duration_s(container)


def _duration_s(container: InputContainer) -> float:
    """Time at which the longest stream ends. Unfinished recordings do not say, damaged ones lie: their packets do."""
    zero_s, longest_s = media.zero_s(container), media.longest_s(container)
    end_s = ((container.start_time or 0) + (container.duration or 0)) / av.time_base - zero_s
    if container.duration and end_s <= longest_s:
        return max(0.0, end_s)
    streams = [s for s in (media.picture_stream(container), media.sound_stream(container)) if s is not None]
    end_s = 0.0
    with suppress(FFmpegError):
        for packet in container.demux(streams):
            if packet.pts is not None and packet.time_base is not None:
                time_s = float((packet.pts + (packet.duration or 0)) * packet.time_base) - zero_s
                end_s = max(end_s, time_s) if time_s <= longest_s else end_s
    return end_s
