"""Pictures at the size a network sees them, straight from a decoder's frames, by FFmpeg's scaler."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import av
import numpy as np
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter

from soundwhere.media.image import resize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from av.video.frame import VideoFrame
    from av.video.plane import VideoPlane
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

        Red, green and blue are shrunk one by one, as if each were grey: in any other way the scaler goes through YUV.
        """
        if not hasattr(_own, "colours"):
            _own.colours, _own.scale = VideoReformatter(), VideoReformatter()
        if self.size[1] < size[0] or self.size[0] < size[1]:
            return resize(self._rgb(), size)  # where the scaler's rounding would darken
        small = np.empty((*size, 3), np.uint8)
        for channel, plane in enumerate(self._planes()):
            grey = av.VideoFrame.from_numpy_buffer(plane, format="gray")
            scaled = _own.scale.reformat(grey, size[1], size[0], "gray", **_SCALED)
            small[..., channel] = scaled.to_ndarray()
        return small

    def _rgb(self) -> Image:
        if isinstance(self.frame, np.ndarray):
            return self.frame
        rgb: Image = _own.colours.reformat(self.frame, *self.size, "rgb24", threads=1).to_ndarray()
        return rgb

    def _planes(self) -> Sequence[NDArray[np.uint8]]:
        """Red, green and blue, each of shape (H, W).

        Where the scaler converts nothing but colours, it makes them apart: the same, in a fifth of the time.
        """
        frame = self.frame
        if isinstance(frame, np.ndarray) or frame.format.name not in _APART or (frame.width, frame.height) != self.size:
            return list(np.ascontiguousarray(np.moveaxis(self._rgb(), 2, 0)))
        green, blue, red = (_pixels(plane) for plane in _own.colours.reformat(frame, format="gbrp", threads=1).planes)
        return red, green, blue


def _pixels(plane: VideoPlane) -> NDArray[np.uint8]:
    """The memory of a plane without the margin of its lines, shape (H, W)."""
    return np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]


_APART: Final = ("yuv420p", "yuvj420p")
_ROUND: Final = 0x40000  # FFmpeg's SWS_ACCURATE_RND
_SCALED: Final = {
    "interpolation": int(Interpolation.BILINEAR) | _ROUND,
    "src_color_range": ColorRange.JPEG,
    "dst_color_range": ColorRange.JPEG,
    "threads": 1,
}
