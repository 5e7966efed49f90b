"""Anyone's own scenes: a folder with a list, in the format in which made-up scenes are written too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere.constants import CLIP_SAMPLES, ENCODER_STRIDE_PX, FRAME_PX
from soundwhere.data.annotation.boxes import repair_boxes
from soundwhere.data.annotation.findings import Defect, Findings
from soundwhere.data.annotation.masks import read_mask, resize_mask
from soundwhere.data.annotation.records import read_json, require_unique
from soundwhere.data.benchmarks.scenes import Benchmark, Grid, Level, Missing
from soundwhere.data.lazy import Lazy
from soundwhere.data.table import Row, read_table
from soundwhere.errors import DataError, shown
from soundwhere.files import is_file, is_whole, parse_json
from soundwhere.media.audio import centre_clip, read_audio, scale_to_rms
from soundwhere.media.image import network_size, read_image, resize
from soundwhere.types import Scene

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.types import Masks

LIST = "scenes.csv"
_OPTIONAL = ("audio", "sounds", "masks", "silent_masks", "boxes", "boxes_norm", "kinds")


@dataclass(frozen=True)
class _FolderRecord:
    """A line of the list, with its files found."""

    name: str
    place: str
    image: Path
    sounds: tuple[Path, ...]
    masks: tuple[Path, ...] | None
    silent_masks: tuple[Path, ...]
    boxes: tuple[list[Any], ...]
    in_pixels: bool
    kinds: tuple[str, ...]

    def scene(self, level: Level) -> Scene:
        image = read_image(self.image)
        height, width = image.shape[:2]
        size = picture_size(height, width)
        sounds = [centre_clip(read_audio(path)) for path in self.sounds]
        return Scene(
            name=self.name,
            image=image if size == (height, width) else resize(image, size),
            sounds=np.stack(
                [sound if level == "as-recorded" else scale_to_rms(sound) for sound in sounds]
                or [np.zeros(CLIP_SAMPLES, np.float32)]
            ),
            masks=self._masks(size, (height, width)),
            kinds=self.kinds,
            silent_masks=_stack([self._mask(path, (height, width), size) for path in self.silent_masks], size),
        )

    def blank(self) -> Scene:
        """The scene with its truth alone, black and silent; of the picture only the size is looked at."""
        height, width = read_image(self.image).shape[:2]
        size = picture_size(height, width)
        return Scene(
            name=self.name,
            image=np.zeros((*size, 3), np.uint8),
            sounds=np.zeros((max(1, len(self.sounds)), CLIP_SAMPLES), np.float32),
            masks=self._masks(size, (height, width)),
            kinds=self.kinds,
        )

    def _masks(self, size: tuple[int, int], original: tuple[int, int]) -> Masks:
        if self.masks is not None:
            return _stack([self._mask(path, original, size) for path in self.masks], size)
        unit = original if self.in_pixels else (1, 1)
        return _stack([repair_boxes(boxes, "xyxy", self.place, unit).mask(size) for boxes in self.boxes], size)

    def _mask(self, path: Path, original: tuple[int, int], size: tuple[int, int]) -> NDArray[np.bool_]:
        mask = read_mask(path)
        if mask.shape != original:
            raise DataError(
                f"{self.place}: the mask {path.name} is {mask.shape[0]} x {mask.shape[1]} pixels, "
                f"its picture {original[0]} x {original[1]} (height x width).",
                "Masks must have the size of their picture.",
            )
        return resize_mask(mask, size)


class PlainScenes(Lazy[_FolderRecord, Scene]):
    """Scenes of a plain folder, read when asked for."""

    def __init__(self, records: Sequence[_FolderRecord], level: Level, blank: bool = False) -> None:
        super().__init__(records)
        self._level = level
        self._blank = blank

    def make(self, record: _FolderRecord) -> Scene:
        """Read the files of a line."""
        return record.blank() if self._blank else record.scene(self._level)


class SceneFolder:
    """A folder with `scenes.csv`, whose first line names the columns; paths are relative to the folder.

    | column | | |
    |---|---|---|
    | `id` | needed | name of the scene, unique |
    | `image` | needed | the picture |
    | `sounds` | or `audio` | the separate sound of each source, joined by a vertical bar, as loud as in the mixture |
    | `audio` | or `sounds` | the mixture, where the separate sounds are not known |
    | `masks` | or boxes | a mask of the picture's size (PNG, npz, COCO json, pkl) for each source, joined by a bar |
    | `boxes` | or masks | JSON: for each source a box, or a list of boxes: left, top, right, bottom in pixels |
    | `boxes_norm` | or masks | the same as shares of the picture, 0 to 1 |
    | `kinds` | if known | the class of each source, joined by a bar |
    | `silent_masks` | if known | masks of things that are seen but do not sound |

    Where several are given, `sounds` go before `audio`, `masks` before boxes. A scene without masks or boxes is a
    negative. Of each sound the middle 3 s are heard, a shorter one is repeated. A picture whose short side is at most
    224 pixels and whose sides are multiples of 32 stays as it is; any other is brought to a short side of 224.

    `soundwhere world` (`data.synthetic.files.write_scenes`) writes such folders.

    Args:
        root: The folder.

    Raises:
        DataError: The list is missing or malformed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        path = root / LIST
        if not path.is_file():
            raise DataError(
                f"{path} does not exist.", "Give a folder with scenes.csv; docs/benchmarks.md describes it."
            )
        self._rows = read_table(path, ("id", "image"), optional=_OPTIONAL)
        columns = self._rows[0].values
        if not {"sounds", "audio"} & set(columns):
            raise DataError(f"{path} has neither a column `sounds` nor `audio`.", "Add one: the sound of each scene.")
        if not {"masks", "boxes", "boxes_norm"} & set(columns):
            raise DataError(f"{path} has no column `masks`, `boxes` or `boxes_norm`.", "Add one: the truth.")
        require_unique((row["id"] for row in self._rows), path)

    def benchmark(self, level: Level = "as-recorded") -> Benchmark:
        """The scenes of the folder."""
        records, missing = [], []
        for row in self._rows:
            absent = _absent(row)
            if absent:
                missing.append(Missing(row["id"], f"no file {', '.join(absent)}"))
            else:
                records.append(_record(row))
        empty = sum(_is_empty(box) for record in records for boxes in record.boxes for box in boxes)
        masks = any(record.masks for record in records)
        findings = Findings(
            LIST,
            {"scenes": len(self._rows), "sources": sum(len(item.masks or item.boxes) for item in records)},
            (
                Defect("scenes have no source", sum(not (item.masks or item.boxes) for item in records), "negatives"),
                Defect("boxes are empty", empty, "dropped"),
            ),
        )
        return Benchmark(
            name="folder",
            scenes=PlainScenes(records, level),
            order=tuple(record.name for record in records),
            grid=self._grid(),
            truth="masks" if masks else "boxes",
            truths=PlainScenes(records, level, blank=True),
            choices={"level": level},
            findings=(findings,),
            missing=tuple(missing),
        )

    def _grid(self) -> Grid:
        """Frames of the picture: known for a made-up world in columns or rows, otherwise it counts as one."""
        path = self.root / "world.json"
        world = read_json(path) if is_file(path) else {}
        if not isinstance(world, dict) or not {"layout", "size", "sounding", "silent"} <= world.keys():
            return (1, 1)  # it is about something else
        layout, size, things = world["layout"], world["size"], [world["sounding"], world["silent"]]
        if not isinstance(size, list) or len(size) != 2 or not all(is_whole(number, 0) for number in [*size, *things]):
            raise DataError(
                f"{path} does not say how the scenes are laid out: {shown(world)}.",
                "Write the scenes again with `soundwhere world`, or remove that file: a picture is then one frame.",
            )
        (height, width), count = size, sum(things)
        if layout == "side-by-side" and count and width % count == 0:
            return (1, count)
        return (count, 1) if layout == "stacked" and count and height % count == 0 else (1, 1)


def picture_size(height: int, width: int) -> tuple[int, int]:
    """The size at which a picture is scored.

    >>> picture_size(96, 192), picture_size(480, 640)
    ((96, 192), (224, 288))
    """
    fits = height % ENCODER_STRIDE_PX == 0 and width % ENCODER_STRIDE_PX == 0 and min(height, width) <= FRAME_PX
    return (height, width) if fits else network_size(height, width)


def _names(row: Row, column: str) -> list[str]:
    return [name for name in row.values.get(column, "").split("|") if name]


def _files(row: Row) -> dict[str, list[str]]:
    """The files a line needs, by column."""
    heard = "sounds" if _names(row, "sounds") else "audio"
    return {column: _names(row, column) for column in ("image", heard, "masks", "silent_masks")}


def _absent(row: Row) -> list[str]:
    names = [name for values in _files(row).values() for name in values]
    return [name for name in names if not is_file(row.table.parent / name)]


def _record(row: Row) -> _FolderRecord:
    files = {column: tuple(row.file(name) for name in names) for column, names in _files(row).items()}
    sounds = files.get("sounds") or files.get("audio", ())
    masks = files["masks"]
    column = "boxes" if row.values.get("boxes") else "boxes_norm"
    boxes = () if masks else _boxes(row, column)
    sources, kinds = len(masks) or len(boxes), tuple(_names(row, "kinds"))
    if len(files["image"]) != 1 or not sounds:
        raise DataError(f"{row.place}: {len(files['image'])} images, {len(sounds)} sounds.", "One image, some sound.")
    if "sounds" in files and len(sounds) != sources:
        raise DataError(
            f"{row.place}: {len(sounds)} sounds, but masks or boxes of {sources} sources.",
            "Give each sound its mask, or give the mixture alone as `audio`.",
        )
    if kinds and len(kinds) != sources:
        raise DataError(f"{row.place}: {len(kinds)} kinds for {sources} sources.", "Name the class of each source.")
    return _FolderRecord(
        name=row["id"],
        place=row.place,
        image=files["image"][0],
        sounds=sounds,
        masks=masks or None,
        silent_masks=files["silent_masks"],
        boxes=boxes,
        in_pixels=column == "boxes",
        kinds=kinds,
    )


def _boxes(row: Row, column: str) -> tuple[list[Any], ...]:
    """For each source its boxes."""
    text = row.values.get(column) or "[]"
    try:
        sources = parse_json(text)
        if not isinstance(sources, list) or not all(isinstance(source, list) and source for source in sources):
            raise ValueError("not a list of boxes")
    except ValueError as error:
        raise DataError(
            f"{row.place}: `{column}` is {shown(text)} ({error}).",
            "Write [[left, top, right, bottom], ...], one a source.",
        ) from error
    boxes = tuple(source if isinstance(source[0], list) else [source] for source in sources)
    for source in boxes:
        repair_boxes(source, place=row.place)  # says now what is no box
    return boxes


def _is_empty(box: Sequence[Any]) -> bool:
    left, top, right, bottom = map(float, box)
    return not (right > left and bottom > top)


def _stack(masks: list[NDArray[np.bool_]], size: tuple[int, int]) -> Masks:
    return np.stack(masks) if masks else np.zeros((0, *size), dtype=np.bool_)
