"""Build a set: plan, photos, sounds, phrases, videos, tables. A second run goes on where the first stopped.

Every file appears under its own name only when it is whole and is what was used. Tables come last, so that a set that
is not finished is not taken for one that is.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from soundwhere.data.rebuilding import photos, sounds, videos
from soundwhere.data.rebuilding.folders import Folder, check_folder, open_folder
from soundwhere.data.rebuilding.notes import Notes, phrase, pool
from soundwhere.data.rebuilding.report import Problem, Report, write_description, write_tables
from soundwhere.data.rebuilding.soundfont import Soundfont
from soundwhere.data.rebuilding.sources import (
    ESC50,
    PHILHARMONIA,
    SOUNDFONT,
    SOURCES,
    TONEJS,
    VIDEOS,
    Source,
    file_of,
    phrase_sources,
)
from soundwhere.data.rebuilding.subset import remaining
from soundwhere.errors import ConfigError, DataError, OutputError, SoundwhereError
from soundwhere.files import atomic_path, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from soundwhere.data.rebuilding.lists import Lists
    from soundwhere.data.table import Row

    Tick = Callable[[int, int], None]

_DIGITS = re.compile(r"\d+")


def build(lists: Lists, given: Mapping[str, Path], out: Path, tick: Tick = lambda done, total: None) -> Report:
    """Build a set, or as much of it as the given sources have.

    Args:
        lists: Of the set.
        given: Folders of the sources by key; one of them is enough.
        out: Folder of the set; what an earlier run left there is kept if it is what was used.
        tick: Told how many files are done, of how many.

    Raises:
        ConfigError: No source is given, or one is not what it should be. Nothing is written then.
        OutputError: The set cannot be written.
    """
    builder = _Builder(lists, given, out, tick)
    make_folder(out)
    builder.make_photos()
    builder.make_sounds()
    builder.make_phrases()
    builder.make_videos()
    return builder.finish()


class _Builder:
    """A build under way."""

    def __init__(self, lists: Lists, given: Mapping[str, Path], out: Path, tick: Tick) -> None:
        self._lists, self._out, self._tick = lists, out, tick
        self._report = Report(lists, out, tuple(given))
        self._done = 0
        self._total = sum(len(lists[table]) for table in ("images", "audios", "videos"))
        self._there: dict[str, set[str]] = defaultdict(set)
        needed = _needed(lists)
        unused = [key for key in given if SOURCES[key] not in needed]
        if not given or len(unused) == len(given):
            raise ConfigError(
                f"No source of {lists.name} was given." if not given else f"{lists.name} has nothing of {unused[0]}.",
                "Give the folder of at least one:\n"
                + "\n".join(f"  {source.option:<18} {source.where}" for source in needed),
            )
        self._folders: dict[Source, Folder] = {}
        self._notes: dict[Source, Notes] = {}
        self._font: Soundfont | None = None
        self._videos: videos.VideoFolder | None = None
        for key, path in given.items():
            source = SOURCES[key]
            if source not in needed:
                continue
            if source is SOUNDFONT:
                self._font = Soundfont(path)
            elif source in (PHILHARMONIA, TONEJS):
                check_folder(source, path)
                self._notes[source] = Notes(source, path)
            elif source is VIDEOS:
                check_folder(source, path)
                self._videos = videos.VideoFolder(path, lists["videos"])
            else:
                self._folders[source] = open_folder(source, path, needed)

    def make_photos(self) -> None:
        """Make the photos and their masks."""
        for row in self._lists["images"]:
            if self._kept("images", row["image"], partial(photos.is_made, row, self._out)):
                continue
            source, name = _origin(row, "image_source")
            path = self._locate(source, name, row["image"])
            if path:
                with self._trying("images", row["image"]):
                    folder = self._folders[source]
                    self._report.note("images", photos.make_photo(row, path, folder, name, self._out))

    def make_sounds(self) -> None:
        """Make the sounds that are cut from one file."""
        for row in self._lists["audios"]:
            if not row["print"] or self._kept("audios", row["audio"], partial(sounds.is_made, row, self._out)):
                continue
            source, name = _origin(row, "audio_source")
            path = self._locate(source, name, row["audio"])
            if path:
                with self._trying("audios", row["audio"]):
                    distance, _ = sounds.make_sound(row, path, source, self._out)
                    self._report.note("audios", distance)

    def make_phrases(self) -> None:
        """Make phrases of notes and of a soundfont, class by class."""
        synthesised: dict[str, list[Row]] = defaultdict(list)
        for row in self._lists["audios"]:
            if row["print"] or self._kept("audios", row["audio"], partial(sounds.is_made, row, self._out)):
                continue
            sources = phrase_sources(row["audio_source"])
            if SOUNDFONT in sources:
                synthesised[row["class"]].append(row)
                continue
            notes = pool([self._notes[each] for each in sources if each in self._notes], row["class"], row["split"])
            if notes:
                with self._trying("audios", row["audio"]):
                    waveform = phrase(row["audio"], _number(row), notes)
                    sounds.write_sound(row, waveform, self._out, exact=True)
                    self._report.note("phrases")
            else:
                self._step()
                if any(each in self._notes for each in sources):
                    self._report.problems.append(Problem(row["audio"], f"no recorded notes of {row['class']} found"))
        for kind, rows in synthesised.items():
            self._synthesise(kind, rows)

    def make_videos(self) -> None:
        """Cut the videos."""
        for row in self._lists["videos"]:
            if self._kept("videos", row["video"], partial(videos.is_made, row, self._out)):
                continue
            path = self._videos.find(row) if self._videos else None
            if path:
                with self._trying("videos", row["video"]):
                    self._report.note("videos", videos.make_video(row, path, self._out))
                continue
            self._step()
            if self._videos:
                wanted = row["youtube_id"] or row["source"]
                self._report.problems.append(Problem(row["video"], f"there is no video {wanted}"))

    def finish(self) -> Report:
        """Write the tables and the description of what is there.

        Raises:
            DataError: No class has both photos and sounds.
        """
        there = self._there
        self._report.subset = remaining(self._lists, there["images"], there["audios"], there["videos"])
        if not self._report.subset.classes:
            lacks = "sounds" if there["images"] else "photos"
            found = f"{len(there['images'])} photos and {len(there['audios'])} sounds"
            why = f" The first problem: {self._report.problems[0].reason}" if self._report.problems else ""
            raise DataError(
                f"No class of {self._lists.name} has both photos and sounds: there are {found}.{why}",
                f"What is there is kept in {self._out}. Give more sources, of {lacks} first:\n"
                + "\n".join(f"  {source.option:<18} {source.where}" for source, _ in self._report.wanting),
            )
        licence = self._folders[ESC50].root / "LICENSE" if ESC50 in self._folders else None
        if licence and licence.is_file():
            with atomic_path(self._out / "LICENSE.ESC-50") as temporary:
                shutil.copyfile(licence, temporary)
        write_tables(self._report)
        write_description(self._report)
        return self._report

    def _synthesise(self, kind: str, rows: list[Row]) -> None:
        if self._font is None:
            self._step(len(rows))
            return
        names, tempi = [row["audio"] for row in rows], [_number(row) for row in rows]
        left = list(rows)
        try:
            for waveform in self._font.phrases(kind, names, tempi):
                row = left.pop(0)
                with self._trying("audios", row["audio"]):
                    sounds.write_sound(row, waveform, self._out, exact=True)
                    self._report.note("phrases")
        except OutputError:
            raise
        except SoundwhereError as error:
            self._report.problems += [Problem(row["audio"], _one_line(error)) for row in left]
            self._step(len(left))

    def _locate(self, source: Source, name: str, file: str) -> Path | None:
        """The source's file; where it is missing from a folder that was given, that is a problem."""
        folder = self._folders.get(source)
        path = folder.find(name) if folder else None
        if path is None:
            self._step()
            if folder:
                reason = f"{source.title} in {folder.root} lacks {folder.expected(name)}: is it unpacked completely?"
                self._report.problems.append(Problem(file, reason))
        return path

    def _kept(self, table: str, file: str, is_made: Callable[[], bool]) -> bool:
        """Whether an earlier run made a file."""
        if not is_made():
            return False
        self._report.kept[table] += 1
        self._there[table].add(file)
        self._step()
        return True

    @contextmanager
    def _trying(self, table: str, file: str) -> Iterator[None]:
        """Make a file: it is there then, or a problem."""
        try:
            yield
            self._there[table].add(file)
        except OutputError:  # no space: the next would fail, too
            raise
        except SoundwhereError as error:
            self._report.problems.append(Problem(file, _one_line(error)))
        self._step()

    def _step(self, files: int = 1) -> None:
        self._done += files
        self._tick(self._done, self._total)


def _needed(lists: Lists) -> dict[Source, list[str]]:
    """Every source of a set, with the names of its files where it has single ones, in the order of the catalogue."""
    names: dict[Source, list[str]] = defaultdict(list)
    for table, column in (("images", "image_source"), ("audios", "audio_source")):
        for row in lists[table]:
            if table == "audios" and not row["print"]:
                for source in phrase_sources(row[column]):
                    names[source] = []
            else:
                source, name = _origin(row, column)
                names[source].append(name)
    if lists["videos"]:
        names[VIDEOS] = []
    return {source: names[source] for source in SOURCES.values() if source in names}


def _origin(row: Row, column: str) -> tuple[Source, str]:
    found = file_of(row[column])
    if found is None:
        raise DataError(f"{row.place}: nobody knows the source {row[column]!r}.", "Install soundwhere again.")
    row.inside(found[1], row.table.parent)  # refuses what would leave the source's folder
    return found


def _number(row: Row) -> int:
    """The number of notes, or of beats a minute, of a phrase."""
    found = _DIGITS.search(row["prep"])
    if not found or not 0 < int(found[0]) < 1000:
        raise DataError(f"{row.place}: {row['prep']!r} does not say how many.", "Install soundwhere again.")
    return int(found[0])


def _one_line(error: SoundwhereError) -> str:
    return f"{error.message} {error.remedy}".strip().replace("\n", " ")
