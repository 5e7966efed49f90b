"""One shard: written under a temporary name, renamed when it is whole, then described by its index.

The index is written last, so a shard with an index that fits is finished. Killing whoever writes it, at any moment,
leaves the finished ones as they are and a temporary file that the next attempt removes. Two who write the same shard
write the same bytes; a lock keeps that from happening where the file system has locks.

A clip that ends its process (a crash in a decoder) would end every attempt at its shard: the number of the clip at work
is noted beside the shard, and the next attempt tries that one in a process of its own first.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import tarfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np

from soundwhere.data.shard_index import NO_KIND, RECORD, clip_key, read_index, shard_name, write_index
from soundwhere.errors import DataError, MediaError
from soundwhere.files import lock, output_error, sync_folder
from soundwhere.preparation.clip import prepare_clip
from soundwhere.preparation.recipe import versions
from soundwhere.preparation.trial import try_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from soundwhere.preparation.clip import Encode, Prepared
    from soundwhere.preparation.lists import Entry, Listing
    from soundwhere.preparation.plan import Plan
    from soundwhere.preparation.recipe import Recipe

LOCKS: Final = ".locks"
_CRASHES: Final = frozenset(
    -getattr(signal, name) for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL") if hasattr(signal, name)
)


@dataclass(frozen=True)
class Problem:
    """A clip that could not be used, and why."""

    number: int
    name: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What became of a shard.

    Attributes:
        shard: Its number.
        state: Made now, made before, or left to another run that is at it.
        clips: How many clips it holds.
        size: Of the tar, in bytes.
        problems: Clips that are not in it.
    """

    shard: int
    state: Literal["made", "kept", "busy"]
    clips: int = 0
    size: int = 0
    problems: tuple[Problem, ...] = ()


def finished(plan: Plan, shard: int) -> Outcome | None:
    """What a finished shard holds; None if it is not there, or its index and its tar do not fit."""
    tar = plan.folder / shard_name(shard)
    try:
        header, records = read_index(tar.with_suffix(".index"))
        if header["tar_bytes"] != tar.stat().st_size or header["shard"] != shard:
            return None
        problems = tuple(Problem(**problem) for problem in header["problems"])
    except (DataError, OSError, KeyError, TypeError):
        return None
    return Outcome(shard, "kept", len(records), header["tar_bytes"], problems)


@dataclass(frozen=True)
class ShardMaker:
    """Makes one shard after the other.

    Attributes:
        plan: What goes into each.
        listing: Where the files are.
        recipe: How clips are prepared.
        encode: A frozen encoder, if its features are stored.
        tell: Called with 1 whenever a clip is done.
    """

    plan: Plan
    listing: Listing
    recipe: Recipe
    encode: Encode | None = None
    tell: Callable[[int], None] = lambda _: None

    def make(self, shard: int) -> Outcome:
        """Make a shard, unless it is there.

        Raises:
            OutputError: It cannot be written.
        """
        with lock(self.plan.folder / LOCKS / f"{shard:06d}") as free:
            if not free:
                return Outcome(shard, "busy")
            return finished(self.plan, shard) or self._make(shard)

    def _make(self, shard: int) -> Outcome:
        folder = self.plan.folder
        final = folder / shard_name(shard)
        for left in folder.glob(f".{final.stem}.*.partial*"):  # whoever wrote it held the lock, and is gone
            left.unlink(missing_ok=True)
        final.with_suffix(".index").unlink(missing_ok=True)  # of a tar that is no longer what it was
        at = folder / LOCKS / f"{shard:06d}.at"
        suspect = _suspect(at)
        kinds = {name: number for number, name in enumerate(self.plan.classes)}
        records = np.zeros(self.plan.count(shard), RECORD)
        problems: list[Problem] = []
        count = 0
        temporary = folder / f".{final.stem}.{secrets.token_hex(4)}.partial.tar"
        with (
            _writing(temporary, final) as file,
            tarfile.open(fileobj=cast("Any", file), mode="w|", format=tarfile.USTAR_FORMAT) as tar,
            _telling(at) as tell_at,
        ):
            for number, entry in self.plan.entries(shard):
                tell_at(number)
                try:
                    clip = self._isolated(entry) if number == suspect else self._prepare(entry)
                except MediaError as error:
                    problems.append(Problem(number, entry.name, error.message))
                    self.tell(1)
                    continue
                begin = tar.offset
                for ending, data in clip.members:
                    tar.addfile(_header(f"{clip_key(number)}.{ending}", len(data)), BytesIO(data))
                record = records[count]
                record["number"], record["shard"], record["offset"] = number, shard, begin
                record["size"], record["frames"], record["samples"] = tar.offset - begin, clip.frames, clip.samples
                record["kind"], record["still"] = kinds.get(entry.label, NO_KIND), bool(entry.sound)
                record["picture"] = np.frombuffer(clip.picture, "<u8")
                count += 1
                self.tell(1)
        size, digest = temporary.stat().st_size, file.digest.hexdigest()
        temporary.replace(final)
        sync_folder(folder)
        header: dict[str, Any] = {
            "shard": shard,
            "tar": final.name,
            "tar_bytes": size,
            "tar_sha256": digest,
            "recipe": self.recipe.to_dict(),
            "versions": versions(),
            "problems": [vars(problem) for problem in problems],
        }
        write_index(final.with_suffix(".index"), header, records[:count])
        at.unlink(missing_ok=True)
        return Outcome(shard, "made", count, size, tuple(problems))

    def _prepare(self, entry: Entry) -> Prepared:
        try:
            return prepare_clip(entry, self.listing, self.recipe, self.encode)
        except OSError as error:  # not of what is written here: that happens outside
            raise MediaError(f"{entry.file} cannot be read: {error}.", "Check the disk, then make it again.") from error

    def _isolated(self, entry: Entry) -> Prepared:
        """Prepare a clip at which an attempt ended: first in a process of its own, which may crash alone."""
        code = try_alone(entry, self.listing, self.recipe)
        if code in _CRASHES:
            name = signal.Signals(-code).name
            raise MediaError(f"{entry.file}: decoding it ends the process ({name}).", "Leave it out.")
        return self._prepare(entry)


class _Hashed:
    """A file being written, and the hash of what went into it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)


@contextmanager
def _writing(temporary: Path, final: Path) -> Iterator[_Hashed]:
    """A temporary file that is on the disk when the block ends; on an error it is removed."""
    try:
        with temporary.open("wb") as file:
            yield _Hashed(file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise output_error(final, error) from error
        raise


def _header(name: str, size: int) -> tarfile.TarInfo:
    """The same for the same content everywhere: no owner, no time."""
    header = tarfile.TarInfo(name)
    header.size, header.mode, header.mtime = size, 0o644, 0
    return header


@contextmanager
def _telling(at: Path) -> Iterator[Callable[[int], None]]:
    """Note whose turn it is. The file stays open: to begin it anew for every clip may wait for the disk every time."""
    with at.open("wb", buffering=0) as file:

        def tell(number: int) -> None:
            with suppress(OSError):  # it only helps
                file.seek(0)
                file.write(clip_key(number).encode())

        yield tell


def _suspect(at: Path) -> int | None:
    try:
        return int(at.read_text())
    except (OSError, ValueError):
        return None
