"""Checking an exported set: every file as it was written, every format saying the same."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere.annotate.export import CARD
from soundwhere.data.annotation.masks import read_mask
from soundwhere.data.annotation.pickles import read_pickled_array
from soundwhere.data.annotation.records import read_headless, read_json
from soundwhere.data.annotation.rle import decode_rle
from soundwhere.data.benchmarks.pairs import plain_kind
from soundwhere.errors import DataError, SoundwhereError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray


def read_card(root: Path) -> dict[str, Any]:
    """The card of a set.

    Raises:
        DataError: There is none.
    """
    if not (root / CARD).is_file():
        raise DataError(f"{root} is not an exported set: no {CARD}.", "Make one with: soundwhere benchmark export")
    card = read_json(root / CARD)
    wanted = {"files", "sizes", "classes", "frames", "duets"}
    if not isinstance(card, dict) or not wanted <= card.keys():
        raise DataError(f"{root / CARD} is not the card of a set.", "Get the set again.")
    return card


def verify(root: Path) -> list[str]:
    """Everything that is wrong with a set, in words; nothing if all is well."""
    card = read_card(root)
    try:
        return [*_files(root, card), *_masks(root, card), *_lists(root, card)]
    except SoundwhereError as error:
        return [error.message]


def _files(root: Path, card: dict[str, Any]) -> Iterator[str]:
    for name, digest in card["files"].items():
        path = root / name
        if not path.is_file():
            yield f"{name} is missing"
        elif sha256(path.read_bytes()).hexdigest() != digest:
            yield f"{name} was changed: its sha256 is not the card's"
    known = {*card["files"], CARD, "README.md"}
    present = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    yield from (f"{name} is not on the card" for name in sorted(present - known))


def _masks(root: Path, card: dict[str, Any]) -> Iterator[str]:
    coco = _coco_masks(root)
    for name, size in card["sizes"].items():
        paths = [root / "masks" / kind / f"{name}.{kind}" for kind in ("png", "npz", "pkl")]
        absent = [path for path in paths if not path.is_file()]
        if absent:
            yield from (f"{path.relative_to(root).as_posix()} is missing" for path in absent)
            continue
        masks = [read_mask(path) for path in paths]
        values = read_pickled_array(paths[2])
        if any(mask.shape != tuple(size) for mask in masks):
            yield f"{name}: a mask is not {size[0]} x {size[1]} pixels"
        elif values.dtype != np.uint8 or values.max(initial=0) > 1:
            yield f"{name}: the pickled mask is not a uint8 array of 0 and 1"
        elif not masks[0].any():
            yield f"{name}: the mask is empty"
        elif not all(np.array_equal(masks[0], mask) for mask in (*masks[1:], coco.get(name, np.zeros(0)))):
            yield f"{name}: its formats disagree"


def _coco_masks(root: Path) -> dict[str, NDArray[np.bool_]]:
    """The union of each clip's objects in the COCO file."""
    path = root / "masks" / "coco.json"
    found = read_json(path)
    try:
        names = {image["id"]: image["file_name"] for image in found["images"]}
        masks: dict[str, NDArray[np.bool_]] = {}
        for part in found["annotations"]:
            mask = decode_rle(part["segmentation"], str(path))
            name = names[part["image_id"]]
            masks[name] = masks[name] | mask if name in masks else mask
        return masks
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a COCO file: {error!r}.", "Get the set again.") from error


def _lists(root: Path, card: dict[str, Any]) -> Iterator[str]:
    kinds = {entry["file"]: entry["class"] for entry in read_json(root / "vggss.json")}
    if set(kinds) != set(card["sizes"]) or len(kinds) != card["frames"]:
        yield "vggss.json and the card do not name the same clips"
    if sum(card["classes"].values()) != card["frames"]:
        yield "the card's classes do not add up to its frames"
    path = root / "duets.csv"
    rows = read_headless(path, ("file1", "class1", "file2", "class2")) if path.stat().st_size else []
    if len(rows) != card["duets"]:
        yield f"duets.csv has {len(rows)} pairs, the card {card['duets']}"
    for row in rows:
        for clip, kind in (("file1", "class1"), ("file2", "class2")):
            if row[clip] not in kinds:
                yield f"{row.place}: there is no mask of {row[clip]}"
            elif plain_kind(row[kind]) != plain_kind(kinds[row[clip]]):
                yield f"{row.place}: {row[clip]} is of another class"
