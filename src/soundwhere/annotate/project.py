"""A project: a folder with the frames to annotate, their sounds, and the store.

PROJECT/project.json          what it was made from, guidelines, licence
PROJECT/annotations.sqlite    every decision
PROJECT/frames/000001.jpg     pictures, by number
PROJECT/sounds/000001.wav     3 s around each frame
PROJECT/embeddings/           what segmenters saw; may be deleted
PROJECT/candidates/           what they proposed; may be deleted
PROJECT/unavailable.csv       clips whose media are not there
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from PIL import Image as Pillow

from soundwhere.annotate.store import Store
from soundwhere.data.annotation.boxes import repair_boxes
from soundwhere.data.annotation.records import entry_field, read_json, require_unique
from soundwhere.data.benchmarks.media import ClipName
from soundwhere.data.benchmarks.scenes import Missing
from soundwhere.data.table import read_table
from soundwhere.errors import DataError, SoundwhereError, shown
from soundwhere.files import atomic_path, make_folder, parse_json, write_csv, write_json
from soundwhere.media.audio import write_wav
from soundwhere.media.image import IMAGE_SUFFIXES, read_image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soundwhere.annotate.store import FrameRecord
    from soundwhere.data.benchmarks.media import Found, MediaFolder
    from soundwhere.types import Image

GuidelineSet = Literal["paper", "open"]

STORE: Final = "annotations.sqlite"
_SETTINGS: Final = "project.json"
_SERVED_AS_IS: Final = frozenset({".jpg", ".jpeg", ".png", ".webp"})  # what every browser shows
_JPEG_QUALITY: Final = 95
_MANIFESTS: Final = "Give vggss.json, or a CSV file with id, kind and boxes, with --manifest."
_REMEDY: Final = 'Its entries have "file", "class" and "bbox"; docs/annotate.md describes both forms.'


@dataclass(frozen=True)
class Settings:
    """What a project was made from and how it is annotated.

    Attributes:
        manifest: File name of the manifest.
        manifest_sha256: Its hash, so that an export can say what it was made from.
        guidelines: The set shown to annotators.
        double: Share of frames that two people annotate, 0 to 1.
        licence: Text that goes with the exported masks.
    """

    manifest: str
    manifest_sha256: str
    guidelines: GuidelineSet = "paper"
    double: float = 0.0
    licence: str = ""


@dataclass(frozen=True)
class Entry:
    """A clip of a manifest: its name, its class, its boxes as they came, and whether these are in pixels."""

    name: str
    kind: str
    boxes: list[Any]
    in_pixels: bool
    place: str


@dataclass(frozen=True)
class Report:
    """What `init` did."""

    added: int
    present: int
    clipped: int
    dropped: int
    unavailable: tuple[Missing, ...]


class Project:
    """An annotation project that was made before.

    Raises:
        DataError: The folder holds none.
    """

    def __init__(self, root: Path) -> None:
        if not (root / _SETTINGS).is_file() or not (root / STORE).is_file():
            raise DataError(f"{root} is not an annotation project.", "Make one with: soundwhere benchmark init")
        self.root = root
        found = read_json(root / _SETTINGS)
        try:
            self.settings = Settings(**found)
        except TypeError as error:
            raise DataError(f"{root / _SETTINGS} is damaged: {error}.", "Run `benchmark init` again.") from error
        self.store = Store(root / STORE)

    @property
    def name(self) -> str:
        """The folder's name, in characters that can be sent."""
        return self.root.resolve().name.encode(errors="replace").decode()

    def picture(self, frame: FrameRecord) -> Image:
        """A frame's picture, RGB, shape (H, W, 3), uint8."""
        return read_image(self.picture_path(frame))

    def picture_path(self, frame: FrameRecord) -> Path:
        """Where a frame's picture is; the store holds names that `init` made, of numbers alone."""
        return self.root / "frames" / frame.picture

    def sound_path(self, frame: FrameRecord) -> Path | None:
        """Where a frame's sound is, if it has one."""
        return self.root / "sounds" / frame.sound if frame.sound else None


def read_manifest(path: Path) -> list[Entry]:
    """Read a list of clips with boxes.

    JSON as VGG-SS is published (`file`, `class`, `bbox` as shares of the picture), or CSV with the columns `id`, `kind`
    and `boxes_norm` (shares) or `boxes` (pixels), each a JSON list of [left, top, right, bottom].

    Raises:
        DataError: It is missing or malformed.
    """
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise DataError(f"{path} {what}.", _MANIFESTS)
    kind = path.suffix.lower()
    if kind not in (".csv", ".json"):
        raise DataError(f"{path} is neither a .csv nor a .json file.", _MANIFESTS)
    entries = _from_csv(path) if kind == ".csv" else _from_json(path)
    require_unique((entry.name for entry in entries), path)
    return entries


def initialise(
    root: Path,
    manifest: Path,
    media: MediaFolder,
    guidelines: GuidelineSet = "paper",
    double: float = 0.0,
    licence: str = "",
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Make a project, or add to it what has become available; frames that are there are never touched.

    Args:
        root: The project's folder.
        manifest: Clips and boxes.
        media: Their videos, or frames and sounds.
        guidelines: The set shown to annotators.
        double: Share of frames that two people annotate; which ones depends on their names alone.
        licence: Text that goes with the exported masks.
        tick: Told how many clips are done.
    """
    entries = read_manifest(manifest)
    for folder in ("frames", "sounds"):
        make_folder(root / folder)
    store = Store(root / STORE)
    settings = Settings(manifest.name, sha256(manifest.read_bytes()).hexdigest(), guidelines, double, licence)
    write_json(root / _SETTINGS, asdict(settings))
    present = {frame.name for frame in store.frames()}
    added = clipped = dropped = 0
    missing: list[Missing] = []
    for done, entry in enumerate(entries, 1):
        if entry.name not in present:
            try:
                boxes = _add(root, store, entry, media, _chosen(entry.name, double))
                added, clipped, dropped = added + 1, clipped + boxes[0], dropped + boxes[1]
            except _UnavailableError as error:
                missing.append(Missing(entry.name, error.message))
        tick(done, len(entries))
    write_csv(root / "unavailable.csv", [["scene", "reason"], *((each.scene, each.reason) for each in missing)])
    return Report(added, len(present & {entry.name for entry in entries}), clipped, dropped, tuple(missing))


class _UnavailableError(SoundwhereError):
    """A clip whose media are not there or cannot be read."""


def _add(root: Path, store: Store, entry: Entry, media: MediaFolder, double: bool) -> tuple[int, int]:
    """Write a clip's picture and sound, then its record; how many boxes were clipped and dropped."""
    clip = ClipName(entry.name)
    found, heard = media.picture(clip), media.sound(clip)
    if found is None:
        raise _UnavailableError(f"no picture {entry.name}")
    stem = sha256(entry.name.encode()).hexdigest()[:16]  # a name of ours, whatever the clip is called
    try:
        image = found.picture()
        picture = _write_picture(root / "frames", stem, found, image)
        if heard is not None:
            write_wav(root / "sounds" / f"{stem}.wav", heard.sound())
    except SoundwhereError as error:
        raise _UnavailableError(error.message) from error
    height, width = image.shape[:2]
    size = (height, width)
    boxes = repair_boxes(entry.boxes, "xyxy", entry.place, size if entry.in_pixels else (1, 1))
    sound = f"{stem}.wav" if heard is not None else ""
    store.add_frame(entry.name, entry.kind, boxes.boxes_norm, size, picture, sound, double)
    return boxes.clipped, boxes.dropped


def _write_picture(folder: Path, stem: str, found: Found, image: Image) -> str:
    """Keep a picture as it is where a browser shows it so, else as JPEG."""
    suffix = found.path.suffix.lower()
    as_is = suffix in _SERVED_AS_IS and suffix in IMAGE_SUFFIXES and _stored(found.path, image)
    name = f"{stem}{suffix if as_is else '.jpg'}"
    with atomic_path(folder / name) as temporary:
        if as_is:
            shutil.copyfile(found.path, temporary)
        else:
            Pillow.fromarray(image).save(temporary, "JPEG", quality=_JPEG_QUALITY)
    return name


def _stored(path: Path, image: Image) -> bool:
    """Whether the file holds the pixels as they are read: no turning, no transparency, one frame."""
    with Pillow.open(path) as file:
        return file.mode in ("RGB", "L") and np.array_equal(np.asarray(file.convert("RGB")), image)


def _chosen(name: str, share: float) -> bool:
    """Whether a frame belongs to a share of all, by its name alone, so that a larger share holds a smaller one."""
    return int.from_bytes(sha256(f"double {name}".encode()).digest()[:4], "big") < share * 2**32


def _from_json(path: Path) -> list[Entry]:
    found = read_json(path)
    if not isinstance(found, list) or not found:
        raise DataError(f"{path} is not a list of clips.", _REMEDY)
    entries = []
    for number, item in enumerate(found, 1):
        place = f"{path}, entry {number}"
        boxes = entry_field(item, "bbox", list, place)
        entries.append(
            Entry(entry_field(item, "file", str, place), entry_field(item, "class", str, place), boxes, False, place)
        )
    return entries


def _from_csv(path: Path) -> list[Entry]:
    header = path.read_text(encoding="utf-8-sig", errors="replace").partition("\n")[0]
    column = "boxes_norm" if "boxes_norm" in header else "boxes"
    entries = []
    for row in read_table(path, ("id", "kind", column)):
        try:
            boxes = parse_json(row[column] or "[]")
            if not isinstance(boxes, list):
                raise ValueError("no list")
        except ValueError as error:
            raise DataError(f"{row.place}: {shown(row[column])} is not a list of boxes ({error}).", _REMEDY) from error
        boxes = [boxes] if boxes and not isinstance(boxes[0], list) else boxes
        entries.append(Entry(row["id"], row["kind"], boxes, column == "boxes", row.place))
    return entries
