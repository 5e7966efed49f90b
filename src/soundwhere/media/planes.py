"""Videos as they are stored, to be drawn on and written again; at a second rate beside it, to be looked at.

A frame that is decoded for both is decoded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import merge
from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from soundwhere.media.image import read_image
from soundwhere.media.video import (
    any_even,
    at_rate,
    decode_pictures,
    even_times,
    is_transparent,
    on_display,
    to_rgb,
    to_undeveloped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.video.frame import VideoFrame

    from soundwhere.media.shrink import Undeveloped
    from soundwhere.types import Image


def stream_planes(path: Path | str, fps: float, start_s: float, end_s: float) -> Iterator[tuple[float, VideoFrame]]:
    """As `stream_frames` at a rate, for whoever draws on frames and writes them again: as `yuv420p`, of even size.

    Frames that are stored like that keep their very pixels and their colour space; others come in that of BT.709.
    Every frame is the taker's own.
    """
    last: VideoFrame | None = None
    for time_s, frame in at_rate(
        Path(path), fps, start_s, end_s, _to_planes, lambda photo: as_planes(read_image(photo))
    ):
        yield time_s, _copied(frame) if frame is last else frame
        last = frame


def _copied(frame: VideoFrame) -> VideoFrame:
    copy = av.VideoFrame.from_ndarray(frame.to_ndarray(), format=frame.format.name)
    copy.colorspace, copy.color_range = frame.colorspace, frame.color_range
    return copy


def stream_both(
    path: Path | str, fps: float, drawn_fps: float, start_s: float, end_s: float
) -> Iterator[tuple[float, Undeveloped | VideoFrame]]:
    """What `stream_undeveloped` gives at one rate and `stream_planes` at another, of a video that is decoded once.

    Yields:
        Times that never fall, each with an `Undeveloped` to be looked at, or a frame to be drawn on; of one time the
        former first.
    """
    looked = ((time_s, False) for time_s in even_times(fps, start_s, end_s))
    drawn = ((time_s, True) for time_s in even_times(drawn_fps, start_s, end_s))
    marks = list(merge(looked, drawn))

    def due(begin_s: float, end_s: float) -> bool:
        return any_even(start_s, drawn_fps, begin_s, end_s) or any_even(start_s, fps, begin_s, end_s)

    shots = decode_pictures(Path(path), start_s, _Shot, _of_photo, due)
    last: VideoFrame | None = None
    for (time_s, to_draw), (_, shot) in zip(marks, on_display(shots, (mark[0] for mark in marks)), strict=True):
        if not to_draw:
            yield time_s, shot.undeveloped
            continue
        frame = shot.planes
        yield time_s, _copied(frame) if frame is last else frame
        last = frame


@dataclass(frozen=True, eq=False)
class _Shot:
    """A decoded frame that is yet to become what is wanted of it."""

    reformatter: VideoReformatter
    size: tuple[int, int]
    frame: VideoFrame

    @cached_property
    def undeveloped(self) -> Undeveloped:
        return to_undeveloped(self.reformatter, self.size, self.frame)

    @cached_property
    def planes(self) -> VideoFrame:
        return _to_planes(self.reformatter, self.size, self.frame)


def _of_photo(path: Path) -> _Shot:
    image = read_image(path)
    return _Shot(VideoReformatter(), (image.shape[1], image.shape[0]), av.VideoFrame.from_ndarray(image, "rgb24"))


def _to_planes(reformatter: VideoReformatter, size: tuple[int, int], frame: VideoFrame) -> VideoFrame:
    """A decoded frame as it is displayed, as `yuv420p`; the frame itself if it is that already."""
    width, height = size if all(size) else (frame.width, frame.height)
    odd = width % 2 or height % 2
    if odd or frame.rotation or is_transparent(frame):
        return as_planes(to_rgb(reformatter, size, frame))
    if (frame.format.name, frame.width, frame.height) == ("yuv420p", width, height):
        return frame
    return reformatter.reformat(
        frame, width, height, "yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG, threads=1
    )


def as_planes(image: Image) -> VideoFrame:
    """A picture, RGB of shape (H, W, 3), as `yuv420p` of BT.709; an odd side is extended by a line."""
    planes = even_frame(image).reformat(format="yuv420p", dst_colorspace=Colorspace.ITU709)
    planes.colorspace, planes.color_range = Colorspace.ITU709, ColorRange.MPEG
    return planes


def even_frame(image: Image) -> VideoFrame:
    """A picture, RGB of shape (H, W, 3), as a frame of even size: an odd side is extended by a line."""
    odd = image.shape[0] % 2, image.shape[1] % 2
    even = np.pad(image, ((0, odd[0]), (0, odd[1]), (0, 0)), mode="edge") if any(odd) else image
    return av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")
