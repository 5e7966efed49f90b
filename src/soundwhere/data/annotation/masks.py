"""Masks from files: PNG, npz, COCO run-length encoding, and their authors' pickles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from PIL import Image as Pillow

from soundwhere.data.annotation.pickles import MOST_PIXELS, read_pickled_array
from soundwhere.data.annotation.records import read_json
from soundwhere.data.annotation.rle import decode_rle
from soundwhere.errors import DataError
from soundwhere.files import NPZ_ERRORS, is_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

MASK_SUFFIXES: Final = (".png", ".npz", ".json", ".pkl")
"""Kinds of mask files, in the order in which they are looked for."""


@dataclass(frozen=True)
class MaskFile:
    """The mask of one source in a file."""

    path: Path

    def mask(self, size: tuple[int, int]) -> NDArray[np.bool_]:
        """Read it and bring it to a size (height, width) by the nearest pixel."""
        return resize_mask(read_mask(self.path), size)


def find_mask(folder: Path, name: str) -> Path | None:
    """The mask file of a clip in a folder: `<name>.png`, `.npz`, `.json` or `.pkl`."""
    paths = (folder / f"{name}{suffix}" for suffix in MASK_SUFFIXES)
    return next((path for path in paths if is_file(path)), None)


def find_masks(folder: Path, names: Iterable[str]) -> dict[str, Path | None]:
    """The mask file of every clip in a folder, where there is one."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder.", "Give the folder with a mask for each clip with --masks.")
    return {name: find_mask(folder, name) for name in names}


def read_mask(path: Path) -> NDArray[np.bool_]:
    """Read a mask, by the ending of its name.

    - PNG: black and white, 0 and 1, 0 to 255 (on from 128), or with a palette (on where the index is not 0).
    - npz: one array, or the one named `mask`.
    - json: COCO's `{"size": ..., "counts": ...}`, an annotation that has one as `segmentation`, or a list (the union).
    - pkl: one pickled array, read by a loader that runs nothing.

    Returns:
        Shape (H, W), bool.

    Raises:
        DataError: The file is missing or damaged, or does not hold a mask.
    """
    readers = {".png": _read_png, ".npz": _read_npz, ".json": _read_rle, ".pkl": read_pickled_array}
    if path.suffix.lower() not in readers:
        raise DataError(f"{path} is not a known kind of mask.", f"Known endings: {', '.join(readers)}.")
    if not is_file(path):
        raise DataError(f"{path} does not exist.", "Check the folder of masks.")
    return _as_mask(readers[path.suffix.lower()](path), path)


def resize_mask(mask: NDArray[np.bool_], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Bring a mask to a size (height, width) by the nearest pixel, which keeps thin parts as they were drawn."""
    if mask.shape == size:
        return mask
    height, width = size
    resized = Pillow.fromarray(mask.astype(np.uint8)).resize((width, height), Pillow.Resampling.NEAREST)
    return np.asarray(resized).astype(np.bool_)


def _as_mask(values: NDArray[Any], path: Path) -> NDArray[np.bool_]:
    """Values as a mask: 0 and 1, or 0 to 255."""
    values = values.reshape(values.shape[:2]) if values.shape[2:] == (1,) else values
    values = values[0] if values.ndim == 3 and len(values) == 1 else values
    if values.ndim != 2 or not values.size or values.size > MOST_PIXELS:
        raise DataError(f"{path} has the shape {values.shape}.", "A mask has one value for each pixel of its frame.")
    if values.dtype == np.bool_:
        return values
    if values.dtype.kind not in "iuf":
        raise DataError(f"{path} holds values of the type {values.dtype}.", "A mask holds 0 and 1, or 0 to 255.")
    low, high = values.min(), values.max()
    if low >= 0 and high <= 1:  # false also for NaN
        return values >= 0.5
    if low >= 0 and 127 < high <= 255:
        return values > 127
    raise DataError(
        f"{path} holds values from {low} to {high}, none of which marks the object.",
        "A mask holds 0 and 1, or 0 to 255 with the object brighter than 127.",
    )


def _read_png(path: Path) -> NDArray[Any]:
    try:
        with Pillow.open(path, formats=["PNG"]) as file:
            if file.width * file.height > MOST_PIXELS:
                raise DataError(f"{path} is larger than {MOST_PIXELS // 1_000_000} megapixels.", "Scale it down first.")
            if file.mode in ("1", "P"):
                marked: NDArray[Any] = np.asarray(file) != 0
                return marked
            return np.asarray(file.convert("L"))
    except (OSError, SyntaxError, ValueError, EOFError, Pillow.DecompressionBombError) as error:
        raise DataError(f"{path} is not a readable PNG: {error}.", "Copy the mask again.") from error


def _read_npz(path: Path) -> NDArray[Any]:
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            return file
        with file:
            names = list(file.files)
            if "mask" not in names and len(names) != 1:
                raise DataError(
                    f"{path} holds the arrays {', '.join(names) or 'none'}.", "Name the mask `mask`, or store it alone."
                )
            values: NDArray[Any] = file["mask" if "mask" in names else names[0]]
            return values
    except NPZ_ERRORS as error:
        raise DataError(f"{path} is not a readable npz file: {error}.", "Copy the mask again.") from error


def _read_rle(path: Path) -> NDArray[np.bool_]:
    found = read_json(path)
    parts = [decode_rle(_rle_of(part), str(path)) for part in (found if isinstance(found, list) else [found])]
    if not parts or any(part.shape != parts[0].shape for part in parts):
        raise DataError(f"{path} holds no masks of one size.", "Give one mask, or several of the same frame.")
    union: NDArray[np.bool_] = np.any(parts, axis=0)
    return union


def _rle_of(part: Any) -> Any:
    return part["segmentation"] if isinstance(part, dict) and "segmentation" in part else part
