"""Outputs appear whole or not at all: write to a temporary name, then rename."""

from __future__ import annotations

import errno
import json
import secrets
import shutil
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from soundwhere.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

NPZ_ERRORS: Final = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What numpy raises when an npz file is damaged."""

_PARTIAL = ".partial"
_REMEDIES = {
    errno.ENOSPC: "Free some space or choose another place with --out.",
    errno.EDQUOT: "The quota is used up: free some space or choose another place with --out.",
    errno.EACCES: "Choose a place you may write to with --out.",
    errno.EPERM: "Choose a place you may write to with --out.",
    errno.EROFS: "The file system is read-only: choose another place with --out.",
    errno.ENOTDIR: "Part of the path is a file, not a folder: choose another place with --out.",
    errno.EISDIR: "A folder has that name: choose another place with --out.",
    errno.EFBIG: "The file is larger than allowed here: choose another place with --out.",
    errno.ENAMETOOLONG: "The name is too long for this file system: choose a shorter one with --out.",
}


def output_error(path: Path, error: OSError) -> OutputError:
    """Say why `path` could not be written and what to do about it."""
    reason = error.strerror or str(error)
    return OutputError(f"{path} cannot be written: {reason}.", _REMEDIES.get(error.errno or 0, "Choose another --out."))


def make_folder(path: Path) -> Path:
    """Create a folder and its parents; a readable error where that is impossible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(path, error) from error
    return path


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path` (same suffix) and rename it to `path` if the block succeeds.

    On any error, and on Ctrl-C, the temporary file or folder is removed and `path` is left as it was. Errors of the
    operating system become `OutputError`.
    """
    path = Path(path)
    make_folder(path.parent)
    temporary = path.with_name(f".{secrets.token_hex(6)}{_PARTIAL}{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise output_error(path, error) from error
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Remove what `atomic_path` left in a folder when a process was killed. Only for folders nobody else writes to."""
    for left in folder.glob(f".*{_PARTIAL}*"):
        left.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, indented, with a final newline; NaN is refused because JSON has none."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
