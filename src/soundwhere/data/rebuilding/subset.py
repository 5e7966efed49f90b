"""Which part of a set remains when some of its photos and sounds are not there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from soundwhere.data.rebuilding.lists import SCENES, Lists

if TYPE_CHECKING:
    from collections.abc import Mapping

    from soundwhere.data.table import Row


@dataclass(frozen=True)
class Subset:
    """What remains of a set.

    Attributes:
        tables: Rows of each table that remain.
        classes: Classes with photos and sounds.
        lost: Classes of the whole set that are not among them, each with what it lacks.
    """

    tables: Mapping[str, list[Row]]
    classes: tuple[str, ...]
    lost: Mapping[str, str]


def remaining(lists: Lists, photos: set[str], sounds: set[str], videos: set[str]) -> Subset:
    """Keep classes that have photos and sounds, and clips and scenes of which every file is there.

    Args:
        lists: The whole set.
        photos: Photos that are there, with their masks.
        sounds: Sounds that are there.
        videos: Videos that are there.
    """
    seen = {row["class"] for row in lists["images"] if row["image"] in photos}
    heard = {row["class"] for row in lists["audios"] if row["audio"] in sounds}
    every = {row["class"] for table in ("images", "audios") for row in lists[table]}
    classes = seen & heard
    tables = {
        "images": [row for row in lists["images"] if row["image"] in photos and row["class"] in classes],
        "audios": [row for row in lists["audios"] if row["audio"] in sounds and row["class"] in classes],
        "clips": [row for row in lists["clips"] if row["image"] in photos and row["audio"] in sounds],
        "videos": [row for row in lists["videos"] if row["video"] in videos],
    }
    for name in SCENES:
        tables[name] = [
            row
            for row in lists[name]
            if all(image in photos for image in row["images"].split("|"))
            and all(audio in sounds for audio in row["audios"].split("|") if audio)
            and all(kind in classes for kind in row["classes"].split("|"))
        ]
    lacks = {
        kind: " and ".join(word for word, there in (("photos", seen), ("sounds", heard)) if kind not in there)
        for kind in sorted(every - classes)
    }
    return Subset(tables, tuple(sorted(classes)), lacks)
