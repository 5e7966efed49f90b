"""What is to be prepared: a folder, VGGSound's list, MUSIC's lists, or a table of files and times.

Entries come one after the other and are never held all at once. An entry may name a file, or a video by its name alone,
which is looked for below the roots when its turn comes.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soundwhere.data.annotation.records import read_json
from soundwhere.data.folder import SOUND_SUFFIXES
from soundwhere.errors import DataError, MediaError, shown
from soundwhere.media.container import VIDEO_SUFFIXES, left_out
from soundwhere.media.image import IMAGE_SUFFIXES
from soundwhere.media.video import length_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

VGGSOUND_COLUMNS: Final = ("id", "start", "label", "split")
TABLE_COLUMNS: Final = ("file", "start", "end")
VGGSOUND_S: Final = 10.0
_FORMATS: Final = (
    "A list is VGGSound's csv (id,start,label,split, with or without that line), a csv whose first line names "
    "file,start,end (and may name id,label,split), or MUSIC's json."
)
_FOLDERS: Final = (
    "Give a folder with videos, or with photos that have a sound file of the same name, anywhere below it."
)
_SUFFIXES: Final = (".mp4", ".webm", ".mkv", *sorted(VIDEO_SUFFIXES - {".mp4", ".webm", ".mkv"}))
_PROBED_AT_ONCE: Final = 4096
_THREADS: Final = 8  # that read headers: waiting for disks, mostly


@dataclass(frozen=True, slots=True)
class Entry:
    """A clip to be prepared.

    Attributes:
        name: Tells it from every other.
        file: A file below a root or, `by_name`, what it is called without its ending.
        start_s: Where it begins.
        end_s: Where it ends; None is not known yet, or nothing could be found out.
        sound: A recording that belongs to it, where `file` is a photo.
        label: Its class, if the list gives one.
        split: Its split, if the list gives one.
        by_name: Whether `file` is to be looked for: as `name` with a video's ending, which is then this clip alone,
            or as `file` with one, which is the whole video.
    """

    name: str
    file: str
    start_s: float = 0.0
    end_s: float | None = None
    sound: str = ""
    label: str = ""
    split: str = ""
    by_name: bool = False


class Listing:
    """The entries of folders and lists, each once.

    Args:
        sources: Folders, csv files and json files, in this order.
        roots: Where files are looked for, in this order; beside the folders among the sources.
        split: Take only entries of this split of lists that have splits.
        window_s: Length of the stretches that long videos without times are cut into.

    Raises:
        DataError: A source is not there, or is not a list.
    """

    def __init__(
        self, sources: Sequence[Path], roots: Sequence[Path] = (), split: str = "", window_s: float = 10.0
    ) -> None:
        for path in (*sources, *roots):
            if not path.exists():
                raise DataError(f"{path} does not exist.", "Give a folder of videos, or a list and --roots.")
        for path in roots:
            if not path.is_dir():
                raise DataError(f"{path} is not a folder.", "Give with --roots the folders in which the videos are.")
        folders = [path for path in sources if path.is_dir()]
        beside = [path.parent for path in sources if not path.is_dir()]
        self._sources, self._split, self._window_s = list(sources), split, window_s
        self.roots = list(dict.fromkeys([*roots, *folders, *(beside if not roots else [])]))

    def fingerprint(self) -> str:
        """Changes with the content of a list, and with the names and sizes of a folder's files."""
        digest = hashlib.sha256(f"{self._split}|{self._window_s}|".encode())
        for source in self._sources:
            if source.is_dir():
                for name in filter(_is_media, _walk(source)):
                    digest.update(f"{name}|{(source / name).stat().st_size}\n".encode(errors="surrogateescape"))
            else:
                digest.update(source.read_bytes())
        return digest.hexdigest()

    def entries(self) -> Iterator[Entry]:
        """Every entry, in order, with its times where they can be found out.

        Raises:
            DataError: A list lacks columns or has a line that cannot be, a name appears twice, or there is nothing.
        """
        seen: set[int] = set()  # of hashes: names of millions would be long
        for entry in self._timed(chain.from_iterable(map(self._of, self._sources))):
            mark = int.from_bytes(hashlib.blake2b(entry.name.encode(errors="surrogateescape"), digest_size=8).digest())
            if mark in seen:
                raise DataError(
                    f"{entry.name} appears twice in {', '.join(map(str, self._sources))}.",
                    "Remove one of the two, or give folders that share names one level higher.",
                )
            seen.add(mark)
            yield entry
        if not seen:
            kept = f" of the split {self._split!r}" if self._split else ""
            listed = any(not path.is_dir() for path in self._sources)
            raise DataError(
                f"{', '.join(map(str, self._sources))} holds no clip{kept}.", _FORMATS if listed else _FOLDERS
            )

    def find(self, entry: Entry) -> tuple[Path, bool]:
        """The file of an entry, and whether that is the clip alone, already cut out.

        Raises:
            MediaError: It is below none of the roots.
        """
        wanted = [(entry.name, True), (entry.file, False)] if entry.by_name else [(entry.file, False)]
        for root in self.roots:
            for stem, alone in wanted:
                for suffix in _SUFFIXES if entry.by_name else ("",):
                    path = root / f"{stem}{suffix}"
                    if path.is_file():
                        return path, alone
        names = " or ".join(dict.fromkeys(stem for stem, _ in wanted))
        raise MediaError(f"{names} is not in {', '.join(map(str, self.roots))}.", "Give its folder with --roots.")

    def _of(self, source: Path) -> Iterator[Entry]:
        if source.is_dir():
            return _folder(source)
        entries = _music(source) if source.suffix.lower() == ".json" else _table(source)
        return (entry for entry in entries if not self._split or entry.split in ("", self._split))

    def _timed(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Cut what has no end into stretches; headers are read by several threads, some thousand files at a time."""
        entries = iter(entries)
        with ThreadPoolExecutor(_THREADS) as pool:
            while block := list(islice(entries, _PROBED_AT_ONCE)):
                yield from chain.from_iterable(pool.map(self._cut, block))

    def _cut(self, entry: Entry) -> list[Entry]:
        if entry.end_s is not None or entry.sound:
            return [entry]
        try:
            path, _ = self.find(entry)
            end_s = length_s(path)
        except MediaError:
            return [entry]  # it is told when its turn comes
        return stretches(entry, end_s, self._window_s)


def stretches(entry: Entry, end_s: float, window_s: float) -> list[Entry]:
    """Cut a video into equal stretches of about a length; a shorter one stays whole.

    >>> [entry.name for entry in stretches(Entry("a", "a.mp4"), 21.0, 10.0)]
    ['a@0.000-10.500', 'a@10.500-21.000']
    """
    count = max(1, round(end_s / window_s))
    edges = [round(end_s * i / count, 3) for i in range(count + 1)]
    return [
        replace(
            entry, name=f"{entry.name}@{start:.3f}-{end:.3f}" if count > 1 else entry.name, start_s=start, end_s=end
        )
        for start, end in pairwise(edges)
    ]


def _walk(folder: Path) -> Iterator[str]:
    """Names of files below a folder in one order everywhere, hidden ones and results left out."""
    for path, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if not left_out(name))
        for file in sorted(file for file in files if not left_out(file)):
            yield (Path(path) / file).relative_to(folder).as_posix()


def _is_media(name: str) -> bool:
    return Path(name).suffix.lower() in VIDEO_SUFFIXES | IMAGE_SUFFIXES | SOUND_SUFFIXES


def _folder(folder: Path) -> Iterator[Entry]:
    for name in _walk(folder):
        suffix = Path(name).suffix.lower()
        if suffix in VIDEO_SUFFIXES:
            yield Entry(name, name)
        elif suffix in IMAGE_SUFFIXES:
            sounds = (Path(name).with_suffix(ending).as_posix() for ending in sorted(SOUND_SUFFIXES))
            yield Entry(name, name, sound=next((sound for sound in sounds if (folder / sound).is_file()), "?"))


def _table(path: Path) -> Iterator[Entry]:
    """The lines of a csv file; what its cells are called is told by the first line, or is VGGSound's."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            first = next(reader, None)
            if not first:
                raise DataError(f"{path} is empty.", _FORMATS)
            columns = [cell.strip().lower() for cell in first]
            rows: Iterable[list[str]] = reader
            if set(TABLE_COLUMNS) <= set(columns):
                read = _timed_file
            elif set(VGGSOUND_COLUMNS) <= set(columns):
                read = _vggsound
            elif len(first) == len(VGGSOUND_COLUMNS) and _number(first[1]) is not None:
                read, columns, rows = _vggsound, list(VGGSOUND_COLUMNS), chain([first], reader)
            else:
                wanted = VGGSOUND_COLUMNS if "id" in columns else TABLE_COLUMNS
                missing = [column for column in wanted if column not in columns]
                raise DataError(f"{path} has no column {', '.join(missing)}, but: {', '.join(first)}.", _FORMATS)
            for cells in rows:
                place = f"{path}, line {reader.line_num}"
                if len(cells) != len(columns):
                    raise DataError(f"{place}: {len(cells)} cells, not {len(columns)}.", "Correct that line.")
                yield read(dict(zip(columns, cells, strict=True)), place)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.", "Get the file again.") from error


def _vggsound(row: dict[str, str], place: str) -> Entry:
    start_s = _seconds(row["start"], place)
    if not row["id"]:
        raise DataError(f"{place}: the id is empty.", "Correct that line.")
    name = f"{row['id']}_{round(start_s):06d}"
    return Entry(name, row["id"], start_s, start_s + VGGSOUND_S, "", row["label"], row["split"], by_name=True)


def _timed_file(row: dict[str, str], place: str) -> Entry:
    start_s, end_s = _seconds(row["start"], place), _seconds(row["end"], place)
    if not row["file"] or end_s <= start_s:
        raise DataError(
            f"{place}: {row['file'] or 'no file'} from {start_s:g} to {end_s:g} s is not a stretch of a file.",
            "Correct that line: a file, and an end after its start.",
        )
    name = row.get("id") or f"{row['file']}@{start_s:.3f}-{end_s:.3f}"
    return Entry(name, row["file"], start_s, end_s, "", row.get("label", ""), row.get("split", ""))


def _music(path: Path) -> Iterator[Entry]:
    """MUSIC's lists: the YouTube ids of videos by instrument."""
    content = read_json(path)
    videos = content.get("videos") if isinstance(content, dict) else None
    if not isinstance(videos, dict):
        raise DataError(f"{path} has no table `videos` from instruments to ids.", _FORMATS)
    for label, names in videos.items():
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise DataError(f"{path}: {label} is {shown(names)}, not a list of ids.", "Get the file again.")
        for name in dict.fromkeys(names):
            yield Entry(name, name, label=label, by_name=True)


def _seconds(cell: str, place: str) -> float:
    value = _number(cell)
    if value is None or value < 0:
        raise DataError(f"{place}: {cell!r} is not a time in seconds.", "Correct that line.")
    return value


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
