"""How frames are put together into one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
from PIL import Image as PILImage

from soundwhere.errors import ConfigError
from soundwhere.media.image import resize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.types import Image

Layout = Literal["side-by-side", "stacked", "grid", "pasted"]
GRID_FRAMES = 4

# Sides of a pasted frame, as a share of a whole one; the picture it is pasted into is two whole ones wide and high.
PASTED = (0.55, 1.15)

T = TypeVar("T", bound=np.generic)


class Place(NamedTuple):
    """Where a frame lies in a picture, in pixels."""

    top: int
    left: int
    height: int
    width: int

    @property
    def area(self) -> tuple[slice, slice]:
        """Rows and columns."""
        return slice(self.top, self.top + self.height), slice(self.left, self.left + self.width)

    def meets(self, other: Place) -> bool:
        """Whether two frames share a pixel."""
        return max(self.top, other.top) < min(self.top + self.height, other.top + other.height) and max(
            self.left, other.left
        ) < min(self.left + self.width, other.left + other.width)


class Arrangement(NamedTuple):
    """The size of a picture and the places of its frames; a later frame lies over an earlier one."""

    height: int
    width: int
    places: tuple[Place, ...]


def arrange(layout: Layout, frames: int, frame_px: int, rng: np.random.Generator) -> Arrangement:
    """Find a place for every frame, row by row from the top left.

    Args:
        layout: One row, one column, two rows of two, or `pasted`: the first frame fills the picture, and the others
            lie on it at random places and scales, apart from each other.
        frames: How many.
        frame_px: Side of a whole frame.
        rng: Places `pasted` frames.
    """
    check_layout(layout, frames)
    if layout == "pasted":
        return _pasted(frames, frame_px, rng)
    columns = {"side-by-side": frames, "stacked": 1, "grid": 2}[layout]
    places = [Place(k // columns * frame_px, k % columns * frame_px, frame_px, frame_px) for k in range(frames)]
    return Arrangement(-(-frames // columns) * frame_px, columns * frame_px, tuple(places))


def _pasted(frames: int, frame_px: int, rng: np.random.Generator) -> Arrangement:
    side = 2 * frame_px
    low, high = (round(share * frame_px) for share in PASTED)
    while True:  # a few tries: three frames cover at most half of the picture
        places = []
        for _ in range(frames - 1):
            height, width = (int(length) for length in rng.integers(low, high + 1, 2))
            top, left = int(rng.integers(side - height + 1)), int(rng.integers(side - width + 1))
            places.append(Place(top, left, height, width))
        if not any(one.meets(other) for k, one in enumerate(places) for other in places[:k]):
            return Arrangement(side, side, (Place(0, 0, side, side), *places))


def compose(frames: Sequence[Image], arrangement: Arrangement) -> Image:
    """Put frames (H, W, 3) of any size into a picture."""
    picture = np.zeros((arrangement.height, arrangement.width, 3), np.uint8)
    for frame, place in zip(frames, arrangement.places, strict=True):
        picture[place.area] = resize(frame, (place.height, place.width))
    return picture


def place_map(
    frame_map: NDArray[np.float32], arrangement: Arrangement, number: int, cell_px: int
) -> NDArray[np.float32]:
    """Put one frame's map where the frame is, with 0 everywhere else, on the encoders' grid.

    Args:
        frame_map: Over the frame, shape (n, m), of any grid.
        arrangement: Of the picture.
        number: Which of its frames.
        cell_px: Side of a cell.

    Returns:
        Means over the cells of the picture, shape (height / cell_px, width / cell_px).
    """
    picture = np.zeros((arrangement.height, arrangement.width), np.float32)
    place = arrangement.places[number]
    size = (place.width, place.height)
    picture[place.area] = np.asarray(PILImage.fromarray(frame_map).resize(size, PILImage.Resampling.BILINEAR))
    for cover in arrangement.places[number + 1 :]:
        picture[cover.area] *= not place.meets(cover)
    rows, columns = arrangement.height // cell_px, arrangement.width // cell_px
    cells = picture.reshape(rows, cell_px, columns, cell_px)
    means: NDArray[np.float32] = cells.mean((1, 3))
    return means


def join(frames: Sequence[NDArray[T]], layout: Layout, axes: tuple[int, int] = (0, 1)) -> NDArray[T]:
    """Join frames of one size, row by row from the top left.

    Args:
        frames: Pictures (H, W, 3), masks (H, W), or with `axes` (1, 2) features (C, h, w).
        layout: One row, one column, or two rows of two.
        axes: The axes of height and width.
    """
    check_layout(layout, len(frames))
    if layout == "pasted":
        raise ValueError("pasted frames differ in size")
    columns = {"side-by-side": len(frames), "stacked": 1, "grid": 2}[layout]
    rows: list[Any] = [np.concatenate(frames[i : i + columns], axes[1]) for i in range(0, len(frames), columns)]
    return np.concatenate(rows, axes[0])


def check_layouts(layouts: Sequence[Layout], sources: int, silent: int, pool: int, frozen: bool) -> None:
    """Refuse layouts that scenes cannot be made in.

    Args:
        layouts: Ways to put frames together.
        sources: How many of them sound.
        silent: How many are seen only.
        pool: How many pictures there are; 0 for ever new ones.
        frozen: Whether features are computed once, of whole pictures with a `pool` and else of frames.
    """
    for layout in layouts:
        check_layout(layout, sources + silent)
    if "pasted" in layouts and silent == 0:
        raise ConfigError("The layout `pasted` needs a silent frame to paste onto.", "Give --silent 1 or more.")
    if "pasted" in layouts and not pool and frozen:
        raise ConfigError("Pasted pictures are encoded whole.", "Give --pool, the number of pictures to encode.")


def check_layout(layout: Layout, frames: int) -> None:
    """Refuse a layout that a number of frames does not fill."""
    if layout == "grid" and frames != GRID_FRAMES:
        raise ConfigError(
            f"The layout `grid` joins {GRID_FRAMES} frames, but a scene has {frames}.",
            "Change --silent so that sounding and silent frames make 4, or choose side-by-side or stacked.",
        )
    if layout == "pasted" and not 2 <= frames <= GRID_FRAMES:
        raise ConfigError(
            f"The layout `pasted` has room for 2 to {GRID_FRAMES} frames, but a scene has {frames}.",
            "Change --silent, or choose side-by-side or stacked.",
        )
