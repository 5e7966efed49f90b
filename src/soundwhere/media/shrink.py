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
    from av.video.frame import VideoFrame

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
        image = self.frame
        if not isinstance(image, np.ndarray):
            image = _own.colours.reformat(image, *self.size, "rgb24", threads=1).to_ndarray()
        if image.shape[0] < size[0] or image.shape[1] < size[1]:
            return resize(image, size)  # where the scaler's rounding would darken
        small = np.empty((*size, 3), np.uint8)
        for channel, plane in enumerate(np.ascontiguousarray(np.moveaxis(image, 2, 0))):
            grey = av.VideoFrame.from_numpy_buffer(plane, format="gray")
            scaled = _own.scale.reformat(grey, size[1], size[0], "gray", **_SCALED)
            small[..., channel] = scaled.to_ndarray()
        return small


_ROUND: Final = 0x40000  # FFmpeg's SWS_ACCURATE_RND
_SCALED: Final = {
    "interpolation": int(Interpolation.BILINEAR) | _ROUND,
    "src_color_range": ColorRange.JPEG,
    "dst_color_range": ColorRange.JPEG,
    "threads": 1,
}
