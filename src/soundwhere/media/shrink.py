"""Pictures at the size a network sees them, straight from a decoder's frames, by FFmpeg's scaler."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import av
import numpy as np
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.video.frame import VideoFrame
    from numpy.typing import NDArray

    from soundwhere.types import Image

_own = threading.local()  # scalers keep tables, and must not be shared by threads


@dataclass(frozen=True, eq=False)
class Undeveloped:
    """A decoded picture whose colours are yet to be converted, which any thread may do.

    Attributes:
        frame: As decoded, upright and without transparency; or RGB, shape (H, W, 3), uint8.
        size: Width and height as displayed.
    """

    frame: VideoFrame | Image
    size: tuple[int, int]

    def at(self, size: tuple[int, int]) -> Image:
        """The picture at a height and width, RGB, shape (H, W, 3): as `media.image.resize` makes it, but for rounding.

        Red, green and blue are scaled one by one, as if each were grey: in any other way the scaler goes through YUV.
        """
        if not hasattr(_own, "colours"):
            _own.colours, _own.scale = VideoReformatter(), VideoReformatter()
        small = np.empty((*size, 3), np.uint8)
        for channel, plane in self._planes():
            grey = av.VideoFrame.from_numpy_buffer(plane, format="gray")
            scaled = _own.scale.reformat(grey, size[1], size[0], "gray", interpolation=Interpolation.BILINEAR, **_FULL)
            small[..., channel] = scaled.to_ndarray()
        return small

    def _planes(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Red, green and blue by their numbers, each of shape (H, W)."""
        if isinstance(self.frame, np.ndarray):
            yield from enumerate(np.ascontiguousarray(np.moveaxis(self.frame, 2, 0)))
            return
        frame = _own.colours.reformat(self.frame, *self.size, "gbrp", threads=1)
        for channel, plane in zip((1, 2, 0), frame.planes, strict=True):
            lines = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
            yield channel, np.ascontiguousarray(lines[:, : plane.width])


_FULL: Final = {"src_color_range": ColorRange.JPEG, "dst_color_range": ColorRange.JPEG, "threads": 1}
