"""Heatmaps that other people's code wrote, one file (npz) or one picture per map (PNG) for each scene."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image as Pillow

from soundwhere.errors import DataError
from soundwhere.files import NPZ_ERRORS, is_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor


class Predictions:
    """Heatmaps in a folder.

    A scene's maps are `<scene>.npz` with an array `maps` of shape (K, H, W), or `<scene>_<k>.png`, grey, in the order
    of k. Higher is hotter; any range and any size will do, the maps being stretched and enlarged as in scoring. A `/`
    in the name of a scene is written `_`.

    Args:
        folder: Where they are.

    Raises:
        DataError: There is no such folder.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataError(f"{folder} is no folder.", "Give the folder of the heatmaps with --predictions.")
        self.folder = folder
        self._pictures: dict[str, dict[int, Path]] = {}
        for path in folder.glob("*.png"):
            match = re.fullmatch(r"(.+)_(\d+)", path.stem)
            if match is not None:
                self._pictures.setdefault(match[1], {})[int(match[2])] = path

    def has(self, scene: str) -> bool:
        """Whether there are maps of a scene."""
        name = _file_name(scene)
        return is_file(self.folder / f"{name}.npz") or name in self._pictures

    def stamp(self, scene: str) -> list[tuple[str, int, int]]:
        """Name, size and time of a scene's files: maps that were written anew are scored anew."""
        facts = [(path, path.stat()) for path in self._paths(scene)]
        return [(path.name, stat.st_size, stat.st_mtime_ns) for path, stat in facts]

    def read(self, scene: str) -> Tensor:
        """The maps of a scene, shape (K, H, W), float32.

        Raises:
            DataError: They are missing or damaged, or differ in size.
        """
        paths = self._paths(scene)
        maps = _read_npz(paths[0]) if paths[0].suffix == ".npz" else _stack(paths)
        if maps.ndim != 3 or 0 in maps.shape:
            raise DataError(f"{paths[0]} holds an array of shape {maps.shape}.", "Maps have the shape (K, H, W).")
        if not np.isfinite(maps).all():
            raise DataError(f"{paths[0]} holds NaN or infinity.", "Write finite heatmaps.")
        return torch.from_numpy(maps.astype(np.float32))

    def _paths(self, scene: str) -> list[Path]:
        name = _file_name(scene)
        array = self.folder / f"{name}.npz"
        if is_file(array):
            return [array]
        pictures = self._pictures.get(name)
        if not pictures:
            raise DataError(f"{self.folder} holds no maps of {scene}.", f"Write {name}.npz or {name}_0.png and so on.")
        return [pictures[k] for k in sorted(pictures)]


def _file_name(scene: str) -> str:
    return scene.replace("/", "_")


def _read_npz(path: Path) -> NDArray[np.generic]:
    try:
        arrays = np.load(path, allow_pickle=False)
        if isinstance(arrays, np.ndarray):
            raise DataError(
                f"{path} holds an array without a name, as .npy files do.", "Name it `maps` in an npz file."
            )
        with arrays:
            if "maps" not in arrays:
                raise DataError(f"{path} holds no array `maps`, but {', '.join(arrays) or 'none'}.", "Name it `maps`.")
            maps: NDArray[np.generic] = arrays["maps"]
    except NPZ_ERRORS as error:
        raise DataError(f"{path} is no npz file that can be read: {error}.", "Write it again.") from error
    if maps.dtype.kind not in "fiub":
        raise DataError(f"{path} holds `maps` of type {maps.dtype}.", "Write numbers.")
    return maps


def _stack(paths: Sequence[Path]) -> NDArray[np.generic]:
    maps: list[NDArray[np.generic]] = []
    for path in paths:
        try:
            with Pillow.open(path) as picture:
                maps.append(np.asarray(picture if picture.mode in ("I;16", "I", "F") else picture.convert("L")))
        except (OSError, SyntaxError) as error:
            raise DataError(f"{path} is no picture that can be read: {error}.", "Write it again.") from error
        if maps[-1].shape != maps[0].shape:
            raise DataError(f"{path} is of another size than {paths[0].name}.", "A scene's maps are of one size.")
    return np.stack(maps)
