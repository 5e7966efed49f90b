"""What became of a build: for the terminal, and as README.md, manifest.json and problems.csv in the set."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from soundwhere import __version__
from soundwhere.data.rebuilding.lists import COLUMNS, Lists
from soundwhere.data.rebuilding.sources import SOURCES, Source, file_of, phrase_sources
from soundwhere.files import write_csv, write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from soundwhere.data.rebuilding.subset import Subset
    from soundwhere.data.table import Row

TABLES = tuple(COLUMNS)


@dataclass(frozen=True)
class Problem:
    """A file of the set that could not be made, and why."""

    file: str
    reason: str


@dataclass
class Report:
    """What was made, what was there, and what is missing."""

    lists: Lists
    out: Path
    given: tuple[str, ...]
    made: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    subset: Subset | None = None

    @property
    def remaining(self) -> Mapping[str, list[Row]]:
        """Rows of each table that remain."""
        return self.subset.tables if self.subset else {}

    @property
    def phrase_classes(self) -> tuple[str, ...]:
        """Classes with phrases that are not those of the set."""
        return tuple(sorted({row["class"] for row in self.remaining.get("audios", ()) if not row["print"]}))

    @property
    def whole(self) -> bool:
        """Whether nothing of the set is missing."""
        return all(len(self.remaining.get(table, ())) == len(self.lists[table]) for table in TABLES)

    @property
    def state(self) -> str:
        """In a few words, as README.md and manifest.json have it."""
        return ("rebuilt" if self.whole else "rebuilt in part") + (", phrases differ" if self.phrase_classes else "")

    @property
    def wanting(self) -> list[tuple[Source, int]]:
        """Sources that were not given, and how many files of the set come from each and are not there."""
        there = {row[_KEYS[table]] for table in _KEYS for row in self.remaining.get(table, ())}
        wanted = Counter(
            key
            for table, column in (("images", "image_source"), ("audios", "audio_source"), ("videos", "source"))
            for row in self.lists[table]
            if row[_KEYS[table]] not in there
            for key in _keys(table, row[column])
        )
        return [(SOURCES[key], count) for key, count in wanted.items() if key not in self.given]

    def note(self, table: str, distance: float | None = None) -> None:
        """Count a file that was made, and remember the largest distance from a fingerprint."""
        self.made[table] += 1
        if distance is not None:
            self.worst[table] = max(distance, self.worst.get(table, 0.0))


_KEYS = {"images": "image", "audios": "audio", "videos": "video"}


def _keys(table: str, origin: str) -> tuple[str, ...]:
    if table == "videos":
        return ("videos",)
    found = file_of(origin)
    return (found[0].key,) if found else tuple(source.key for source in phrase_sources(origin))


def write_tables(report: Report) -> None:
    """Write the set's own tables, the lists of scenes last. A list without scenes is not written.

    Tables of before go first: what is there belongs together at every moment.
    """
    for table in reversed(TABLES):
        (report.out / f"{table}.csv").unlink(missing_ok=True)
    for table in TABLES:
        rows = report.remaining.get(table, [])
        if rows:
            cells = ([row[column] for column in COLUMNS[table]] for row in rows)
            write_csv(report.out / f"{table}.csv", [COLUMNS[table], *cells])


def write_description(report: Report) -> None:
    """Write README.md and problems.csv, and manifest.json last."""
    problems = report.out / "problems.csv"
    if report.problems:
        write_csv(problems, [("file", "reason"), *((problem.file, problem.reason) for problem in report.problems)])
    else:
        problems.unlink(missing_ok=True)
    write_text(report.out / "README.md", _readme(report))
    write_json(report.out / "manifest.json", _manifest(report))


def _manifest(report: Report) -> dict[str, Any]:
    return {
        "set": report.lists.name,
        "state": report.state,
        "soundwhere": __version__,
        "sources": sorted(report.given),
        "rows": {table: [len(report.remaining.get(table, ())), len(report.lists[table])] for table in TABLES},
        "classes": list(report.subset.classes if report.subset else ()),
        "classes_lost": dict(report.subset.lost if report.subset else {}),
        "classes_with_other_phrases": list(report.phrase_classes),
        "problems": len(report.problems),
        "largest_distance": {table: round(value, 4) for table, value in sorted(report.worst.items())},
    }


def _readme(report: Report) -> str:
    lines = [
        f"# {report.lists.name}: {report.state}",
        "",
        f"Made by `soundwhere benchmark build {report.lists.name}` (soundwhere {__version__}) from",
        ", ".join(SOURCES[key].title for key in sorted(report.given)) + ".",
        "Every photo, and every sound but phrases, was compared with a fingerprint of the one that was used.",
        "Research use; every row of images.csv and audios.csv names its source and licence.",
        "",
        "| table | rows | of |",
        "|---|---:|---:|",
        *(f"| {table} | {len(report.remaining.get(table, ()))} | {len(report.lists[table])} |" for table in TABLES),
        "",
    ]
    if report.phrase_classes:
        lines += [
            "Phrases of notes are not those of the original set, which cannot be made again: scores on these classes",
            f"cannot be compared to the digit: {', '.join(report.phrase_classes)}.",
            "",
        ]
    if report.subset and report.subset.lost:
        lines += ["Classes that are left out, and what they lack:", ""]
        lines += [f"- {kind}: {lacks}" for kind, lacks in report.subset.lost.items()]
        lines += [""]
    if not report.whole:
        lines += ["Scores on a part of the scenes cannot be compared with scores on all of them.", ""]
    return "\n".join(lines)
