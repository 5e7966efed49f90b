"""Heat laid over frames where their pixels already are: in YUV planes, by FFmpeg's own filters, never through RGB."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
from av.filter import Graph
from av.video.format import VideoFormat
from av.video.frame import VideoFrame

from soundwhere.media.draw import heat_layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from av.filter.context import FilterContext
    from numpy.typing import NDArray

    from soundwhere.media.draw import Colour

_TICK: Final = Fraction(1, 1000)  # of a clock that only the filters read
_HD_LINES: Final = 720  # from this height on, players take colours that are not said for those of HD television

# Shares of red and blue in the brightness, by FFmpeg's number of a colour space
_BT709: Final = (0.2126, 0.0722)
_BT601: Final = (0.299, 0.114)
_SHARES: Final = {1: _BT709, 5: _BT601, 6: _BT601, 9: (0.2627, 0.0593)}


class HeatBlender:
    """Lays heat over frames of one size. Not to be shared by threads."""

    def __init__(self) -> None:
        self._shape: tuple[int, ...] = ()
        self._number = 0

    def blend(
        self, frame: VideoFrame, heatmaps: NDArray[np.floating], colours: Sequence[Colour] | None = None
    ) -> VideoFrame:
        """A frame with each source's heat over it, as `draw.overlay` does it to a picture.

        Args:
            frame: `yuv420p`, with the range of television.
            heatmaps: One map per source, shape (K, h, w), in [0, 1], resized to the frame.
            colours: One RGB colour per source; by default those of `draw.overlay`.

        Returns:
            `yuv420p`, of the same size and colour space.
        """
        layer = _planes(heat_layer(heatmaps, colours), _shares(frame))
        self._configure(frame, layer.shape[1:])
        heat = VideoFrame(layer.shape[2], layer.shape[1], "yuva444p")
        for plane, values in zip(heat.planes, layer, strict=True):
            plane.update(np.pad(values, ((0, 0), (0, plane.line_size - values.shape[1]))).tobytes())
        self._number += 1  # filters bring together what has one time
        for source, part in ((self._frames, frame), (self._heat, heat)):
            part.pts, part.time_base = self._number, _TICK
            source.push(part)
        blended = self._sink.pull()
        assert isinstance(blended, VideoFrame)
        blended.colorspace, blended.color_range = frame.colorspace, frame.color_range
        return blended

    def _configure(self, frame: VideoFrame, layer: tuple[int, ...]) -> None:
        """Set the filters up, unless frames and maps have the sizes of those before."""
        shape = (frame.width, frame.height, *layer)
        if shape == self._shape:
            return
        graph = Graph()
        graph.threads = 1  # several frames are drawn at once already
        self._frames = graph.add_buffer(
            width=frame.width, height=frame.height, format=VideoFormat("yuv420p"), time_base=_TICK
        )
        self._heat = graph.add_buffer(width=layer[1], height=layer[0], format=VideoFormat("yuva444p"), time_base=_TICK)
        enlarge = graph.add("scale", f"{frame.width}:{frame.height}:flags=bilinear")
        subsample = graph.add("format", "yuva420p")
        overlay = graph.add("overlay", "format=yuv420:eof_action=pass")
        self._sink: FilterContext = graph.add("buffersink")
        self._heat.link_to(enlarge)
        enlarge.link_to(subsample)
        self._frames.link_to(overlay, 0, 0)
        subsample.link_to(overlay, 0, 1)
        overlay.link_to(self._sink)
        graph.configure()
        self._graph, self._shape, self._number = graph, shape, 0  # the graph is kept: its filters do not keep it


def _shares(frame: VideoFrame) -> tuple[float, float]:
    """What red and blue contribute to a frame's brightness; as players guess where its colour space is not said."""
    guess = _BT709 if frame.height >= _HD_LINES else _BT601
    return _SHARES.get(int(frame.colorspace), guess)


def _planes(layer: NDArray[np.uint8], shares: tuple[float, float]) -> NDArray[np.uint8]:
    """Colour and opacity (h, w, 4), RGBA, as the planes Y, U, V and A, shape (4, h, w)."""
    red, green, blue = (layer[..., channel].astype(np.float32) for channel in range(3))
    of_red, of_blue = shares
    y = of_red * red + (1 - of_red - of_blue) * green + of_blue * blue
    u, v = (blue - y) / (2 * (1 - of_blue)), (red - y) / (2 * (1 - of_red))
    planes = [16 + y * 219 / 255, 128 + u * 224 / 255, 128 + v * 224 / 255, layer[..., 3]]
    rounded: NDArray[np.uint8] = np.rint(np.stack(planes)).astype(np.uint8)
    return rounded
