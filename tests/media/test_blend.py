"""Heat blended in YUV planes is the heat that is drawn over pictures, frame by frame and pixel by pixel."""

from __future__ import annotations

import av
import numpy as np
import pytest
from av.video.reformatter import ColorRange, Colorspace

from soundwhere.inference.geometry import upsample
from soundwhere.media.blend import HeatBlender
from soundwhere.media.draw import overlay
from soundwhere.media.planes import as_planes


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Blocks of any colours."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (height // 8, width // 8, 3), np.uint8).repeat(8, 0).repeat(8, 1)


def heat(sources: int, seed: int = 0) -> np.ndarray:
    """Smooth maps, on the fine grid on which overlays draw them."""
    coarse = np.random.default_rng(seed).random((sources, 7, 12)).astype(np.float32) ** 3
    return upsample(coarse, (28, 48), smooth=True)


@pytest.mark.parametrize("sources", [1, 2, 3])
@pytest.mark.parametrize("size", [(720, 1280), (360, 640), (144, 256)])
def test_it_is_what_is_drawn_over_a_picture_within_2_of_255(sources: int, size: tuple[int, int]) -> None:
    image, maps = picture(*size), heat(sources)
    blended = HeatBlender().blend(as_planes(image), maps).to_ndarray()
    drawn = as_planes(overlay(image, maps)).to_ndarray()
    off = np.abs(blended.astype(int) - drawn)
    assert (off > 2).mean() < 1e-4  # in small pictures, a sample of colour beside an edge
    assert off.max() <= (2 if size[0] >= 360 else 3)


@pytest.mark.parametrize(("space", "size"), [(Colorspace.ITU601, (720, 1280)), (None, (360, 640)), (None, (720, 1280))])
def test_colours_are_those_of_the_frame(space: Colorspace | None, size: tuple[int, int]) -> None:
    """A grey frame under full heat of one colour: decoded by the frame's own rules, it has that colour."""
    guessed = Colorspace.ITU709 if size[0] >= 720 else Colorspace.ITU601
    grey = av.VideoFrame.from_ndarray(np.full((*size, 3), 90, np.uint8), format="rgb24")
    planes = grey.reformat(format="yuv420p", dst_colorspace=space or guessed)
    planes.colorspace, planes.color_range = space or 2, ColorRange.MPEG
    blended = HeatBlender().blend(planes, np.ones((1, 4, 8), np.float32), [(200, 40, 120)])
    assert blended.colorspace == planes.colorspace
    shown = blended.reformat(format="rgb24", src_colorspace=space or guessed).to_ndarray()
    expected = 0.7 * np.array([200, 40, 120]) + 0.3 * 90
    assert np.abs(shown - expected).max() <= 3


def test_nothing_hot_changes_nothing_and_frames_follow_each_other() -> None:
    blender = HeatBlender()
    for seed in range(3):
        frame = as_planes(picture(64, 96, seed))
        assert np.array_equal(blender.blend(frame, np.zeros((2, 4, 6), np.float32)).to_ndarray(), frame.to_ndarray())
    other = as_planes(picture(128, 64))  # another size, another grid
    drawn = blender.blend(other, heat(2))
    assert (drawn.width, drawn.height) == (64, 128)
    assert not np.array_equal(drawn.to_ndarray(), other.to_ndarray())
