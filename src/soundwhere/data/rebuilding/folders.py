"""A source's folder as somebody unpacked it: where its files begin, and what is wrong where they do not."""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from itertools import islice
from lzma import LZMAError
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soundwhere.data.rebuilding.sources import FILES, Source
from soundwhere.errors import ConfigError, DataError
from soundwhere.files import is_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ARCHIVES: Final = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
HALF: Final = (".part", ".partial", ".crdownload", ".download", ".aria2")
"""How browsers and download programs call what they have not finished."""
_DEEPEST = 3
_MOST_FOLDERS = 5_000
_TRIED = 40


@dataclass(frozen=True)
class Folder:
    """The folder of a source, from which its files are counted."""

    source: Source
    root: Path

    def find(self, name: str) -> Path | None:
        """The file that the tables call `name`, if it is there."""
        return next((path for path in self._paths(name) if is_file(path)), None)

    def expected(self, name: str) -> str:
        """Where a file should be, for errors."""
        return self.source.places(name)[0] if len(self.source.patterns) == 1 else f".../{name}"

    def hits(self, names: Sequence[str]) -> int:
        """How many files are there."""
        return sum(self.find(name) is not None for name in names)

    def _paths(self, name: str) -> Iterator[Path]:
        return (self.root / place for place in self.source.places(name))


def open_folder(source: Source, given: Path, needed: Mapping[Source, Sequence[str]]) -> Folder:
    """Find where the files of a source begin in the folder that was given for it, up to three levels down.

    Args:
        source: Which.
        given: What was given for it.
        needed: Names of the files that are wanted of every source, to tell whose folder it is.

    Raises:
        ConfigError: It is not a folder, is that of another source, or holds none of the files.
        DataError: It is an archive.
    """
    check_folder(source, given)
    names = spread(needed[source])
    roots = [Folder(source, root) for root in _below(given)]
    best = max(roots, key=lambda folder: folder.hits(names))
    if best.hits(names):
        return best
    raise ConfigError(
        f"{source.option} {given}: none of {len(needed[source])} files of {source.title} is there, such as "
        f"{best.expected(needed[source][0])}.",
        _advice(source, given, needed),
    )


def check_folder(source: Source, given: Path) -> None:
    """Raise unless what was given for a source is a folder; an archive is told what to do with it."""
    if given.is_dir():
        return
    if not given.exists():
        raise ConfigError(f"{source.option} {given} does not exist.", f"Get {source.where}, and unpack it.")
    if given.name.lower().endswith(HALF):
        raise DataError(f"{source.option} {given} is a download that was not finished.", "Download it again.")
    if not given.name.lower().endswith(ARCHIVES):
        raise ConfigError(f"{source.option} {given} is not a folder.", f"Give the folder of {source.title}.")
    damage = _damage(given)
    if damage:
        raise DataError(f"{source.option} {given} is cut short or damaged ({damage}).", "Download it again.")
    raise DataError(f"{source.option} {given} is an archive.", _unpack(given))


def spread(names: Sequence[str]) -> Sequence[str]:
    """A few of many names, from the first to the last."""
    return names[:: max(1, len(names) // _TRIED)]


def _below(given: Path) -> Iterator[Path]:
    """A folder and those in it, down to the third level, without following links out of it."""
    return islice(_walk(given, _DEEPEST), _MOST_FOLDERS)


def _walk(folder: Path, levels: int) -> Iterator[Path]:
    yield folder
    if levels:
        try:
            inside = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
        except OSError as error:
            raise DataError(f"{folder} cannot be read: {error.strerror}.", "Ask its owner for permission.") from error
        for path in inside:
            yield from _walk(Path(path), levels - 1)


def _advice(source: Source, given: Path, needed: Mapping[Source, Sequence[str]]) -> str:
    for above in list(given.resolve().parents)[:2]:
        if Folder(source, above).hits(spread(needed[source])):
            return f"It is part of the folder that is wanted: give {above}."
    for other in FILES:
        if other is not source and needed.get(other) and Folder(other, given).hits(spread(needed[other])):
            return f"It looks like {other.title}: give it with {other.option}."
    here = sorted(path.name for path in given.iterdir())
    half = [name for name in here if name.lower().endswith(HALF)]
    if half:
        return f"It holds {half[0]}, a download that was not finished: download it again."
    packed = [name for name in here if name.lower().endswith(ARCHIVES)]
    if packed:
        damage = _damage(given / packed[0])
        return (
            f"{packed[0]} in it is cut short or damaged ({damage}): download it again."
            if damage
            else _unpack(given / packed[0])
        )
    found = f"It holds {', '.join(here[:4])}{', ...' * (len(here) > 4)}." if here else "It is empty."
    return f"{found} Get {source.where}, and unpack it."


def _unpack(archive: Path) -> str:
    command = "unzip" if archive.suffix.lower() == ".zip" else "tar -xf"
    return f"Unpack it first, then give the folder: {command} '{archive}'"


def _damage(archive: Path) -> str:
    """What is wrong with an archive, read to its end where only that tells; empty if nothing is."""
    try:
        if archive.suffix.lower() == ".zip":
            with zipfile.ZipFile(archive) as file:
                return f"{bad} in it" if (bad := file.testzip()) else ""
        with tarfile.open(archive) as members:
            for _ in members:
                pass
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, RuntimeError) as error:
        return str(error) or type(error).__name__
    return ""
