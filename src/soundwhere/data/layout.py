"""How frames are joined into one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Layout = Literal["side-by-side", "stacked", "grid"]
GRID_FRAMES = 4

T = TypeVar("T", bound=np.generic)


def join(frames: Sequence[NDArray[T]], layout: Layout, axes: tuple[int, int] = (0, 1)) -> NDArray[T]:
    """Join frames of one size, row by row from the top left.

    Args:
        frames: Pictures (H, W, 3), masks (H, W), or with `axes` (1, 2) features (C, h, w).
        layout: One row, one column, or two rows of two.
        axes: The axes of height and width.
    """
    check_layout(layout, len(frames))
    columns = {"side-by-side": len(frames), "stacked": 1, "grid": 2}[layout]
    rows: list[Any] = [np.concatenate(frames[i : i + columns], axes[1]) for i in range(0, len(frames), columns)]
    return np.concatenate(rows, axes[0])


def check_layout(layout: Layout, frames: int) -> None:
    """Refuse a layout that a number of frames does not fill."""
    if layout == "grid" and frames != GRID_FRAMES:
        raise ConfigError(
            f"The layout `grid` joins {GRID_FRAMES} frames, but a scene has {frames}.",
            "Change --silent so that sounding and silent frames make 4, or choose side-by-side or stacked.",
        )
