"""Embeddings of captions, made elsewhere and given in a file: what sounds in a clip's picture, and what does not.

The file is an .npz with
  names       (N,)       text: the picture's (or video's) path below the data set's folder, with forward slashes;
  foreground  (N, K, D)  one embedding for each caption of a sounding thing;
  background  (N, D)     the embedding of the caption of what is silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zipfile import BadZipFile, is_zipfile

import numpy as np

from soundwhere.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_HOW = "docs/rivals-several.md says how to make such a file."
_LISTED = 3  # clips without captions that are named


def read_captions(path: Path, keys: Sequence[str] | None = None) -> NDArray[np.float32]:
    """The captions of clips, in their order, sounding things first and the background last, shape (clips, K + 1, D).

    Args:
        path: The file.
        keys: The clips, as `ClipSource.key` names them; by default all that the file has.

    Raises:
        DataError: The file cannot be read, has other shapes, or lacks a clip.
    """
    names, foreground, background = _read(path)
    fits = foreground.ndim == 3 and foreground.shape[1] > 0 and len(names) == len(foreground)
    if not fits or background.shape != (len(names), foreground.shape[2]):
        raise DataError(
            f"{path}: {len(names)} names, foreground {foreground.shape}, background {background.shape}.",
            f"Shapes must be (N,), (N, K, D) and (N, D). {_HOW}",
        )
    both = np.concatenate([foreground, background[:, None]], axis=1).astype(np.float32)
    if not np.isfinite(both).all() or not both.any(-1).all():
        raise DataError(f"{path}: an embedding is zero or not finite.", "Make the file again.")
    if keys is None:
        return both
    places = {str(name): place for place, name in enumerate(names)}
    wanted = [key.partition("|")[0] for key in keys]
    lacking = sorted({name for name in wanted if name not in places})
    if lacking:
        more = f" and {len(lacking) - _LISTED} more" if len(lacking) > _LISTED else ""
        raise DataError(
            f"{path} has no captions of {', '.join(lacking[:_LISTED])}{more}.",
            f"Names are paths below the data set's folder. {_HOW}",
        )
    return both[[places[name] for name in wanted]]


def _read(path: Path) -> tuple[NDArray[np.str_], NDArray[np.float64], NDArray[np.float64]]:
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise DataError(f"{path} {found}.", f"Give the .npz with the captions' embeddings. {_HOW}")
    if not is_zipfile(path):  # numpy would advise to load it unsafely
        raise DataError(f"{path} is not an .npz file, or is damaged.", _HOW)
    try:
        with np.load(path, allow_pickle=False) as file:
            lacking = [name for name in ("names", "foreground", "background") if name not in file.files]
            if lacking:
                raise DataError(f"{path} has no array {lacking[0]!r}.", _HOW)
            return file["names"].astype(np.str_), file["foreground"].astype(float), file["background"].astype(float)
    except (OSError, ValueError, TypeError, BadZipFile) as error:  # .npy files, damaged archives, arrays of objects
        raise DataError(f"{path} is not an .npz that can be read safely ({error}).", _HOW) from error
