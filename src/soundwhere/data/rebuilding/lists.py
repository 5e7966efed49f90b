"""The lists of a set: its own tables, with fingerprints, cuts and run lengths of masks as further columns.

They are made by `scripts/make_lists.py`, hold no photo and no sound, and name every file that belongs to a set.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soundwhere.data.rebuilding.sound_prints import BANDS
from soundwhere.data.table import Row, read_table
from soundwhere.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

SHIPPED: Final = Path(__file__).parent / "lists"
SCENES: Final = ("duets_val", "duets_test", "trios_val", "trios_test")
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "images": (
        *("image", "class", "split", "mask", "mask_kind", "mask_frac", "boxes", "width", "height"),
        *("image_source", "image_licence"),
    ),
    "audios": ("audio", "class", "split", "fold", "prep", "rms_db", "audio_source", "audio_licence"),
    "clips": ("id", "split", "class", "image", "audio"),
    **dict.fromkeys(SCENES, ("id", "images", "classes", "audios")),
    "videos": (
        *("video", "label", "split", "youtube_id", "seconds", "width", "height", "fps", "rms_db", "active", "motion"),
        *("source", "licence"),
    ),
}
"""The columns of a set's own tables."""
ADDED: Final[Mapping[str, tuple[str, ...]]] = {
    "images": ("print", "runs"),
    "audios": ("print", "samples"),
    "videos": ("print", "frame_print"),
}
"""What the lists have besides: a fingerprint; run lengths of a derived mask; samples of a sound before it repeats."""


@dataclass(frozen=True)
class Lists:
    """All tables of a set."""

    name: str
    tables: Mapping[str, list[Row]]

    def __getitem__(self, table: str) -> list[Row]:
        return self.tables.get(table, [])


def read_lists(name: str) -> Lists:
    """Read the lists that ship under a name, or those in a folder.

    Raises:
        ConfigError: There is neither.
        DataError: A list is damaged, or names a file outside of the set.
    """
    folder = SHIPPED / name if name in shipped() else Path(name)
    if not (folder / "images.csv.gz").is_file():
        raise ConfigError(
            f"{name!r} is neither {' nor '.join(shipped())}, nor a folder of lists with images.csv.gz in it.",
            "For example: soundwhere benchmark build real-duet --voc VOCdevkit/VOC2012 --esc50 ESC-50-master --out DIR",
        )
    tables = {}
    for table, columns in COLUMNS.items():
        path = folder / f"{table}.csv.gz"
        if path.is_file():
            tables[table] = read_table(path, (*columns, *ADDED.get(table, ())))
    absent = [table for table in ("audios", "clips") if table not in tables]
    if absent:
        raise DataError(f"{folder} lacks {absent[0]}.csv.gz.", "Install soundwhere again, or make the lists again.")
    for table, column in (("images", "image"), ("images", "mask"), ("audios", "audio"), ("videos", "video")):
        for row in tables.get(table, ()):
            if row[column] or column != "mask":
                row.inside(row[column], folder)
    return Lists(name if name in shipped() else folder.name, tables)


def shipped() -> tuple[str, ...]:
    """The names of the sets whose lists ship with the package."""
    return tuple(sorted(folder.name for folder in SHIPPED.iterdir())) if SHIPPED.is_dir() else ()


def print_of(row: Row, column: str = "print") -> bytes:
    """The fingerprint in a row; empty for a phrase, which has none."""
    try:
        data = b64decode(row[column], validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"{row.place}: the fingerprint is damaged ({error}).", "Install soundwhere again.") from error
    if column == "print" and row.table.name.startswith(("audios", "videos")) and len(data) % (BANDS // 2):
        raise DataError(f"{row.place}: the fingerprint is cut short.", "Install soundwhere again.")
    return data


def whole_of(row: Row, column: str) -> int:
    """A whole number above 0 in a row."""
    value = row[column]
    if not value.isascii() or not value.isdigit() or not 0 < int(value) < 10**7:
        raise DataError(f"{row.place}: {column} is {value!r}, not a number above 0.", "Install soundwhere again.")
    return int(value)
