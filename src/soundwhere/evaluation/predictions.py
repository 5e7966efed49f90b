"""Heatmaps that other people's code wrote, one file (npz) or one picture per map (PNG) for each scene."""

from __future__ import annotations

import lzma
import math
import re
import struct
import warnings
import zipfile
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from PIL import Image as Pillow

from soundwhere.errors import DataError
from soundwhere.files import NPZ_ERRORS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    Shape = tuple[int, int, int]

MOST_VALUES: Final = 89_000_000  # of all maps of a scene: a small file can claim, or unpack to, gigabytes
_MEMBER: Final = "maps.npy"
_HEADS: Final = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_ARRAY_ERRORS: Final = (*NPZ_ERRORS, lzma.LZMAError, struct.error, MemoryError, OverflowError)
_PICTURE_ERRORS: Final = (
    OSError,
    SyntaxError,
    ValueError,  # also a text chunk that unpacks to too much
    EOFError,
    struct.error,
    zlib.error,
    Pillow.DecompressionBombError,
    Pillow.DecompressionBombWarning,
)


class Predictions:
    """Heatmaps in a folder.

    A scene's maps are `<scene>.npz` with an array `maps` of shape (K, H, W), or `<scene>_<k>.png`, grey, in the order
    of k. Higher is hotter; any range and any size up to 89 million values a scene will do, the maps being stretched and
    enlarged as in scoring. A `/` in the name of a scene is written `_`.

    Args:
        folder: Where they are.

    Raises:
        DataError: There is no such folder.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataError(f"{folder} is not a folder.", "Give the folder of the heatmaps with --predictions.")
        self.folder = folder
        self._arrays = {path.stem: path for path in folder.glob("*.npz")}
        self._pictures: dict[str, dict[int, Path]] = {}
        for path in folder.glob("*.png"):
            match = re.fullmatch(r"(.+)_(\d+)", path.stem)
            if match is not None:
                self._pictures.setdefault(match[1], {})[int(match[2])] = path

    def has(self, scene: str) -> bool:
        """Whether there are maps of a scene."""
        name = _file_name(scene)
        return name in self._arrays or name in self._pictures

    def stamp(self, scene: str) -> list[tuple[str, int, int]]:
        """Name, size and time of a scene's files: maps that were written anew are scored anew."""
        facts = [(path, path.stat()) for path in self._paths(scene)]
        return [(path.name, stat.st_size, stat.st_mtime_ns) for path, stat in facts]

    def shape(self, scene: str) -> Shape:
        """Number, height and width of a scene's maps, from the heads of the files alone.

        Raises:
            DataError: They are missing, damaged or too large, or differ in size.
        """
        paths = self._paths(scene)
        shape = _array_shape(paths[0]) if paths[0].suffix == ".npz" else _pictures_shape(paths)
        if math.prod(shape) > MOST_VALUES:
            raise DataError(
                f"{paths[0]}: maps of the shape {shape} are more than {MOST_VALUES // 1_000_000} million values.",
                "Write smaller ones: they are enlarged to the picture anyway.",
            )
        return shape

    def read(self, scene: str) -> Tensor:
        """The maps of a scene, shape (K, H, W), float32.

        Raises:
            DataError: They are missing, damaged or too large, or differ in size.
        """
        shape = self.shape(scene)  # before anything of that size is made
        paths = self._paths(scene)
        maps = _read_array(paths[0], shape) if paths[0].suffix == ".npz" else np.stack([*map(_read_picture, paths)])
        with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite
            maps = maps.astype(np.float32)
        if not np.isfinite(maps).all():
            raise DataError(f"{paths[0]} holds NaN or infinity.", "Write finite heatmaps.")
        return torch.from_numpy(maps)

    def map_count(self, scenes: Sequence[str], any_number: bool = False) -> int:
        """How many maps scenes have, at most.

        Args:
            scenes: Their names.
            any_number: Whether they may have different numbers of maps.

        Raises:
            DataError: They do, and may not; or maps are missing, damaged or too large.
        """
        first: dict[int, str] = {}
        for scene in scenes:
            first.setdefault(self.shape(scene)[0], scene)
        if len(first) > 1 and not any_number:
            (few, one), *_, (many, other) = sorted(first.items())
            raise DataError(
                f"{self.folder} holds different numbers of maps: {few} for {one}, {many} for {other}.",
                "Write as many maps of every scene, or score with --preset noprior, which counts missing and surplus "
                "maps as misses: elsewhere, more maps would be helped by the truth.",
            )
        return max(first)

    def _paths(self, scene: str) -> list[Path]:
        name = _file_name(scene)
        if name in self._arrays:
            return [self._arrays[name]]
        pictures = self._pictures.get(name)
        if not pictures:
            raise DataError(f"{self.folder} holds no maps of {scene}.", f"Write {name}.npz or {name}_0.png and so on.")
        return [pictures[k] for k in sorted(pictures)]


def _file_name(scene: str) -> str:
    return scene.replace("/", "_")


def _array_shape(path: Path) -> Shape:
    """What the head of an npz file's `maps` claims, if the file can hold it."""
    try:
        with path.open("rb") as file:
            if file.read(6) == b"\x93NUMPY":
                raise DataError(
                    f"{path} holds an array without a name, as .npy files do.", "Name it `maps` in an npz file."
                )
        with zipfile.ZipFile(path) as archive:
            if _MEMBER not in archive.namelist():
                others = ", ".join(name.removesuffix(".npy") for name in archive.namelist()[:5])
                raise DataError(f"{path} holds no array `maps`, but {others or 'none'}.", "Name it `maps`.")
            with archive.open(_MEMBER) as member:
                version = np.lib.format.read_magic(member)
                if version not in _HEADS:
                    raise ValueError(f"its format {version} is not known")
                shape, _, kind = _HEADS[version](member)
                begin, size = member.tell(), archive.getinfo(_MEMBER).file_size
    except _ARRAY_ERRORS as error:
        raise _damaged(path, error) from error
    if kind.kind not in "fiub":
        raise DataError(f"{path} holds `maps` of type {kind}.", "Write numbers.")
    if len(shape) != 3 or min(shape) < 1:
        raise DataError(f"{path} holds an array of shape {shape}.", "Maps have the shape (K, H, W).")
    count, height, width = shape
    if math.prod(shape) <= MOST_VALUES and math.prod(shape) * kind.itemsize != size - begin:
        raise _damaged(path, f"its array should be of shape {shape} and is not as long as that")
    return count, height, width


def _read_array(path: Path, shape: Shape) -> NDArray[np.generic]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            maps: NDArray[np.generic] = arrays["maps"]
    except _ARRAY_ERRORS as error:
        raise _damaged(path, error) from error
    if maps.shape != shape:
        raise _damaged(path, "it changed while it was read")
    return maps


def _pictures_shape(paths: Sequence[Path]) -> Shape:
    sizes = []
    for path in paths:
        with _open_picture(path) as picture:
            sizes.append(picture.size)
        if sizes[-1] != sizes[0]:
            raise DataError(f"{path} is of another size than {paths[0].name}.", "A scene's maps are of one size.")
    width, height = sizes[0]
    return len(paths), height, width


def _open_picture(path: Path) -> Pillow.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            return Pillow.open(path, formats=["PNG"])
    except _PICTURE_ERRORS as error:
        raise _damaged(path, error, "a PNG") from error


def _read_picture(path: Path) -> NDArray[np.generic]:
    with _open_picture(path) as picture:
        try:
            return np.asarray(picture if picture.mode in ("I;16", "I", "F") else picture.convert("L"))
        except _PICTURE_ERRORS as error:
            raise _damaged(path, error, "a PNG") from error


def _damaged(path: Path, why: object, what: str = "an npz file") -> DataError:
    return DataError(f"{path} is not {what} that can be read: {str(why).rstrip('.')}.", "Write it again.")
