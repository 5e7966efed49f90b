"""The folder a result is written to: it appears when everything in it is done, and never holds half a result."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from soundwhere.errors import OutputError
from soundwhere.files import atomic_folder, bring_back, output_error, parse_json
from soundwhere.inference.formats import FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

FINISHED: Final = FILES["json"]  # its presence says that a folder holds a finished result
_LONGEST_NAME = 255  # bytes, on every file system in use


def result_folder(path: Path, out: Path | None = None) -> Path:
    """Where the result of a clip goes: `<name>.soundwhere` beside it, or in the folder `out`.

    >>> from pathlib import Path
    >>> result_folder(Path("films/clip.mp4")).as_posix()
    'films/clip.soundwhere'
    """
    ending = ".soundwhere"
    stem = path.stem.encode()[: _LONGEST_NAME - len(ending)].decode(errors="ignore")
    return (path.parent if out is None else out) / f"{stem}{ending}"


@contextmanager
def finished_folder(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` if the block succeeds, and vanishes if it does not.

    An earlier result is replaced only with `overwrite`, in one step: at every moment `folder` holds a whole result. Any
    other folder with something in it is never touched.
    """
    check_target(folder, overwrite)
    with atomic_folder(folder) as temporary:
        yield temporary


def written_files(folder: Path) -> list[Path]:
    """Every file in a folder, as it is called from there, in order."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def check_target(folder: Path, overwrite: bool = False) -> None:
    """Raise an OutputError now rather than after the work if a result cannot go to `folder`."""
    bring_back(folder)
    if folder.is_dir() and any(folder.iterdir()):
        if not is_finished(folder):
            raise OutputError(f"{folder} holds something other than a result.", "Move it away or choose another --out.")
        if not overwrite:
            raise OutputError(f"{folder} holds a finished result already.", "Use --overwrite to replace it.")
    elif folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file.", "Move it away or choose another --out.")
    if Path.cwd().is_relative_to(folder.resolve()):  # who stands in a folder does not see the one that replaces it
        raise OutputError(f"{folder} is the current folder: it must stay.", "Choose another --out, such as result.")
    parent = next(above for above in folder.absolute().parents if above.exists())
    if not parent.is_dir():
        raise output_error(folder, NotADirectoryError(errno.ENOTDIR, "Not a directory"))
    if not os.access(parent, os.W_OK | os.X_OK):
        raise output_error(folder, PermissionError(errno.EACCES, "Permission denied"))


def videos_below(folder: Path) -> Iterator[Path]:
    """The videos in a folder and below it, in order, but for hidden ones and those of results."""
    from soundwhere.media.container import VIDEO_SUFFIXES, left_out

    for path in sorted(folder.rglob("*")):
        hidden = any(map(left_out, path.relative_to(folder).parts))
        if path.suffix.lower() in VIDEO_SUFFIXES and not hidden and path.is_file():
            yield path


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a finished result."""
    bring_back(folder)
    return (folder / FINISHED).is_file()


def result_of(folder: Path) -> str | None:
    """The name of the clip whose result a folder holds, if it can be told."""
    try:
        return str(parse_json((folder / FINISHED).read_bytes())["file"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def list_files(folder: Path) -> list[dict[str, Any]]:
    """The files of a result but for its page: `name` for people, `href` from the folder, size in bytes."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != FILES["html"])
    inside = [(path.relative_to(folder).as_posix(), path) for path in found]
    return [
        {"name": name, "href": quote(name), "bytes": path.stat().st_size}
        for name, path in inside
        if not any(part.startswith(".") for part in name.split("/"))
    ]
