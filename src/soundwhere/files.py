"""Outputs appear whole or not at all: write to a temporary name, then rename. JSON is read to the letter."""

from __future__ import annotations

import csv
import ctypes
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import shutil
import stat
import zipfile
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from soundwhere.errors import OutputError, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NPZ_ERRORS: Final = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What numpy raises when an npz file is damaged."""

_PARTIAL = ".partial"
_HERE: Final = -100  # AT_FDCWD
_SWAP: Final = 2  # RENAME_EXCHANGE, and RENAME_SWAP
_REMEDIES = {
    errno.ENOSPC: "Free some space or choose another place with --out.",
    errno.EDQUOT: "The quota is used up: free some space or choose another place with --out.",
    errno.EACCES: "Choose a place you may write to with --out.",
    errno.EPERM: "Choose a place you may write to with --out.",
    errno.EROFS: "The file system is read-only: choose another place with --out.",
    errno.EEXIST: "A file has that name: choose another place with --out.",
    errno.ENOTDIR: "Part of the path is a file, not a folder: choose another place with --out.",
    errno.EISDIR: "A folder has that name: choose another place with --out.",
    errno.EFBIG: "The file is larger than allowed here: choose another place with --out.",
    errno.ENAMETOOLONG: "The name is too long for this file system: choose a shorter one with --out.",
}


def output_error(path: Path, error: OSError) -> OutputError:
    """Say why `path` could not be written and what to do about it."""
    return OutputError(
        f"{path} cannot be written: {reason(error)}.", _REMEDIES.get(error.errno or 0, "Choose another --out.")
    )


def make_folder(path: Path) -> Path:
    """Create a folder and its parents; a readable error where that is impossible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(path, error) from error
    return path


@contextmanager
def claimed_folder(path: Path) -> Iterator[None]:
    """Create a folder and its parents; if the block fails, those that were created and are still empty are removed."""
    created = [folder for folder in (path, *path.parents) if not folder.exists()]
    make_folder(path)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # one that is not empty ends it
            for folder in created:
                folder.rmdir()
        raise


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path` (same suffix) and rename it to `path` if the block succeeds.

    On any error, and on Ctrl-C, the temporary file or folder is removed and `path` is left as it was. An error of the
    operating system about what is written becomes an `OutputError`; one about anything else stays as it is.
    """
    path = Path(path)
    with temporary_path(path) as temporary:
        yield temporary
        temporary.replace(path)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that takes the place of `folder`, be it empty or full, if the block succeeds.

    At every moment there is the old folder or the new one, also if the process is killed. Where the system cannot
    exchange two names at once, the old one is out of sight between two renames; `bring_back` then finds it.
    """
    bring_back(folder)
    with temporary_path(folder) as temporary:
        temporary.mkdir()
        yield temporary
        if not folder.is_dir():
            temporary.replace(folder)
        elif not _exchange(temporary, folder):
            aside = _aside(folder)
            shutil.rmtree(aside, ignore_errors=True)  # left there by a kill after the second rename
            folder.replace(aside)
            try:
                temporary.replace(folder)
            except BaseException:
                aside.replace(folder)
                raise
            aside.replace(temporary)


def bring_back(folder: Path) -> None:
    """Bring back a folder that a process had put aside, to put another in its place, when it was killed."""
    if not folder.exists() and _aside(folder).is_dir():
        _aside(folder).replace(folder)


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{hashlib.sha256(os.fsencode(folder.name)).hexdigest()[:12]}.earlier")


def _exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step; False where the system or the file system cannot."""
    if os.name != "posix":
        return False
    libc, names = ctypes.CDLL(None), (os.fsencode(one), os.fsencode(other))
    if hasattr(libc, "renameat2"):  # Linux
        return bool(libc.renameat2(_HERE, names[0], _HERE, names[1], _SWAP) == 0)
    return hasattr(libc, "renamex_np") and bool(libc.renamex_np(*names, _SWAP) == 0)  # macOS


@contextmanager
def temporary_path(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`, whatever becomes of it; what has that name in the end is removed."""
    make_folder(path.parent)
    if _is_device(path):
        raise OutputError(f"{path} is not a file that could be replaced.", "Give the name of a file.")
    temporary = path.with_name(f".{secrets.token_hex(6)}{_PARTIAL}{path.suffix}")
    try:
        yield temporary
    except OSError as error:
        if not _is_about(error, temporary):
            raise
        raise output_error(path, error) from error
    finally:
        try:
            _remove(temporary)
        except KeyboardInterrupt:  # a second one, while what the first one left is cleared away
            _remove(temporary)
            raise


def _is_device(path: Path) -> bool:
    """Whether something else than a file or a folder has this name: /dev/null must not become a file."""
    with suppress(OSError):
        mode = path.stat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_about(error: OSError, temporary: Path) -> bool:
    """Whether an error is about what is being written, and not about something that was read or said meanwhile."""
    names = [name for name in (error.filename, error.filename2) if isinstance(name, str | bytes | os.PathLike)]
    if names:
        mine = temporary.absolute()
        paths = [Path(os.fsdecode(name)).absolute() for name in names]
        return any(path == mine or mine in path.parents for path in paths)
    return error.errno in {*_REMEDIES, errno.EIO} or "encoder error" in str(error)  # the latter is Pillow's


def remove_partial(folder: Path) -> None:
    """Remove what `atomic_path` left in a folder when a process was killed. Only for folders nobody else writes to."""
    for left in folder.glob(f".*{_PARTIAL}*"):
        left.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write rows, the first of which may name the columns, as CSV atomically."""
    write_text(path, as_csv(rows))


def as_csv(rows: Iterable[Iterable[object]]) -> str:
    """Rows as the text of a CSV file."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def write_durably(path: Path, data: bytes) -> None:
    """Write a file atomically, and so that it outlives a loss of power once this returns."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlive a loss of power; file systems that cannot are left alone."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def lock(path: Path, wait: bool = False) -> Iterator[bool]:
    """Hold a file as a lock, which ends with the process however it ends; whether it was free.

    Where the file system knows no locks it always counts as free: who asks must be safe without, only slower.

    Args:
        path: The file, which is made and stays.
        wait: Wait until it is free.
    """
    make_folder(path.parent)
    try:
        file = path.open("ab")
    except OSError as error:
        raise output_error(path, error) from error
    with file:
        try:
            import fcntl
        except ImportError:  # Windows
            yield True
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass
        yield True


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, indented, with a final newline; NaN is refused because JSON has none."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def parse_json(text: str | bytes) -> Any:
    """Parse JSON to the letter: what Python's own reader lets through would end as a defect further on.

    Raises:
        ValueError: It is malformed (`json.JSONDecodeError`) or nested too deeply, has a key twice in one object, or
            holds NaN, infinity, a number beyond 64 bits or half of a surrogate pair.
    """
    text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_int=_whole, parse_float=_finite, parse_constant=_finite
        )
        if _HALF_OF_A_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair is not a character") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def sha256(path: Path) -> str:
    """The hash of a file's bytes, read in pieces, as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_folder() -> Path:
    """Where the user's machine keeps what can be made or fetched again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "soundwhere"


def is_whole(value: object, low: int, high: int = 2**31) -> bool:
    """Whether a value out of a file is an integer from `low` to below `high`; `true` and `1.0` are none."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < high


def is_file(path: Path) -> bool:
    """Whether a file is there. A name that no file can have, because it is too long or has a NUL in it, is not."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file() raises on such names


_HALF_OF_A_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} appears twice in one object")
    return found


def _whole(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise ValueError(f"the number {digits[:20]}{'...' * (len(digits) > 20)} is too large")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is not a finite number")
    return value
