"""Shards that lie elsewhere (http(s), s3, gs, whatever fsspec opens), copied one by one into a bounded local folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from soundwhere.data.shard_index import MANIFEST
from soundwhere.errors import DataError, needing
from soundwhere.files import atomic_path, lock, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ADDRESS: Final = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+):/+(.*)$")
_PIECE: Final = 8 << 20


class ShardFiles(Protocol):
    """Where the files of a set are."""

    def path(self, name: str) -> Path:
        """A file of the set, on this machine."""


class LocalFiles:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """See `ShardFiles`."""
        return self._folder / name


class RemoteFiles:
    """A remote folder, of which files are copied when they are asked for.

    The manifest is read at every start. Several processes may share one cache. A file that was mapped stays readable
    when another one takes its place.

    Args:
        address: Such as `s3://bucket/shards` or `https://host/shards`.
        cache: Folder for copies; below it every address has its own.
        limit_bytes: How much they may take up; the ones not asked for longest make room.

    Raises:
        MissingExtraError: fsspec is not installed.
        DataError: The address cannot be opened, or there is no set of shards.
    """

    def __init__(self, address: str, cache: Path, limit_bytes: int) -> None:
        with needing("fsspec", "scale"):
            import fsspec
        self._address = address.rstrip("/")
        self._limit = limit_bytes
        try:
            files, self._root = fsspec.core.url_to_fs(self._address)
        except ImportError as error:
            raise DataError(f"{self._address} cannot be opened: {error}.", "Install that with pip.") from error
        except ValueError as error:
            remedy = "Give a folder, or an address that begins with https://, s3://, gs:// or what else fsspec knows."
            raise DataError(f"{self._address} cannot be opened: {error}.", remedy) from error
        self._files: Any = files
        manifest: bytes = self._ask(lambda: self._files.cat_file(f"{self._root}/{MANIFEST}"), MANIFEST)
        # a set that was made anew under the same address has another manifest: what was copied of the old one is left
        name = hashlib.sha256(self._address.encode() + b"|" + manifest).hexdigest()[:16]
        self._folder = make_folder(cache / name)

    def path(self, name: str) -> Path:
        """See `ShardFiles`."""
        path = self._folder / name
        if not path.exists():
            with lock(self._folder / f".{name}.lock", wait=True):  # of several who want it, one copies
                if not path.exists():
                    self._make_room(self._ask(lambda: self._files.info(f"{self._root}/{name}"), name).get("size") or 0)
                    self._copy(name, path)
        with suppress(OSError):
            os.utime(path)
        return path

    def _copy(self, name: str, path: Path) -> None:
        def copy() -> None:
            opened = self._files.open(f"{self._root}/{name}", "rb")
            with opened as source, atomic_path(path) as temporary, temporary.open("wb") as target:
                shutil.copyfileobj(source, target, _PIECE)

        self._ask(copy, name)

    def _ask(self, call: Callable[[], Any], name: str) -> Any:
        try:
            return call()
        except FileNotFoundError as error:
            raise DataError(
                f"{self._address}/{name} does not exist.",
                "Give the address of what `soundwhere prepare` made.",
            ) from error
        except Exception as error:  # every kind of storage has errors of its own
            if isinstance(error, DataError) or type(error).__module__.startswith("soundwhere"):
                raise
            words = str(error) or type(error).__name__
            raise DataError(
                f"{self._address}/{name} cannot be read: {words}.",
                "Check the address, the network, and permissions.",
            ) from error

    def _make_room(self, size: int) -> None:
        """Remove the copies of shards not asked for longest until another fits."""
        with lock(self._folder / ".room.lock", wait=True):
            tars = []
            for path in self._folder.glob("*.tar"):
                with suppress(OSError):
                    status = path.stat()
                    tars.append((status.st_mtime_ns, status.st_size, path))
            total = sum(taken for _, taken, _ in tars)
            for _, taken, path in sorted(tars):
                if total + size <= self._limit:
                    break
                path.unlink(missing_ok=True)
                total -= taken


def remote_address(root: Path | str) -> str | None:
    """The address a root stands for, or None if it is a folder of this machine; a path has lost some of its slashes.

    >>> from pathlib import Path
    >>> remote_address(Path("s3://bucket/shards")), remote_address(Path("/data/shards"))
    ('s3://bucket/shards', None)
    """
    match = _ADDRESS.match(str(root))
    if match is None or "://" in str(root):
        return match and str(root)
    return f"{match[1]}://{'/' if match[1] == 'file' else ''}{match[2]}"
