"""A result as files: one writer per format, into a folder that appears when all of them are done."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image as Pillow

from soundwhere import __version__
from soundwhere.config import to_dict
from soundwhere.data.annotation.rle import encode_rle, pack_counts
from soundwhere.files import as_csv, write_text
from soundwhere.inference.folder import FINISHED, finished_folder, written_files
from soundwhere.inference.formats import FILES, SCHEMA, check_formats
from soundwhere.inference.geometry import upsample
from soundwhere.inference.overlays import Drawing, drawn_heat, fits, write_overlay
from soundwhere.inference.page import write_page
from soundwhere.media.draw import heatmap_image, overlay
from soundwhere.media.video import read_frames
from soundwhere.metrics.binarise import binarise_arrays

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.inference.footage import Footage
    from soundwhere.inference.localiser import Localiser
    from soundwhere.inference.result import Result
    from soundwhere.types import Image

    Progress = Callable[[int, int], None] | None

CSV_COLUMNS = (
    *("time_s", "source", "sounding", "confidence", "peak_x", "peak_y"),
    *("left", "top", "right", "bottom", "area"),
)
MOMENTS = 4  # times at which heatmap pictures are written


def save(result: Result, folder: Path, formats: tuple[str, ...], overwrite: bool, progress: Progress) -> list[Path]:
    """Write a result into a folder that appears when it is finished; see `Result.save`."""
    with finished_folder(folder, overwrite) as temporary:
        write_formats(result, temporary, formats, progress)
        written = written_files(temporary)
    return [folder / path for path in written]


def write_formats(result: Result, folder: Path, formats: tuple[str, ...], progress: Progress = None) -> None:
    """Write every format into a folder that exists; `result.json`, the mark of a finished folder, always.

    An overlay video that is there, because it was drawn while the clip was localised, is left as it is.
    """
    for name in check_formats([*formats, "json"]):  # the page comes last and shows what is there
        if name != "mp4":
            WRITERS[name](result, folder)
        elif not (folder / FILES["mp4"]).exists():
            write_overlay(result, folder / FILES["mp4"], progress)


def localise_into(
    localiser: Localiser, footage: Footage, folder: Path, formats: tuple[str, ...], progress: Progress = None
) -> Result:
    """Localise a clip, and write its overlay video, if that is asked for and its frames can wait for their heat.

    Args:
        localiser: The model.
        footage: The clip.
        folder: Exists. Everything else goes there with `write_formats`.
        formats: What is asked for.
        progress: Called with the analysed frames done and their total.
    """
    if "mp4" not in formats or not fits(footage, localiser.analysis_fps(footage)):
        return localiser.localise_footage(footage, progress)
    with Drawing(footage, folder / FILES["mp4"], localiser.counts) as drawing:
        return localiser.localise_footage(footage, progress, drawing)


def overlay_at(result: Result, time_s: float) -> Image:
    """The picture with the heatmaps on it at a time, RGB, shape (H, W, 3)."""
    image = read_frames(result.path, [time_s])[0].image
    return overlay(image, *drawn_heat(result, time_s))


def moments(result: Result) -> list[float]:
    """A few times spread over what is sounding (over the whole clip if nothing is), in seconds."""
    heard = np.flatnonzero(result.sounding.any(1))
    frames = heard if len(heard) else np.arange(len(result.times))
    chosen = np.unique(frames[np.linspace(0, len(frames) - 1, MOMENTS + 2).round().astype(int)[1:-1]])
    return [float(result.times[frame]) for frame in chosen]


def write_pictures(result: Result, folder: Path) -> None:
    """Write `overlay.png`, and `heatmaps/` with the picture, the overlay and each source's heatmap at a few times."""
    Pillow.fromarray(overlay_at(result, result.best_time())).save(folder / "overlay.png")
    (folder / "heatmaps").mkdir()
    for frame in read_frames(result.path, moments(result)):
        name = f"{frame.time_s:07.2f}s"
        together = overlay(frame.image, *drawn_heat(result, frame.time_s))
        Pillow.fromarray(together).save(folder / "heatmaps" / f"{name}-overlay.png")
        for number, heatmap in enumerate(result.heatmap(frame.time_s), 1):
            Pillow.fromarray(heatmap_image(heatmap)).save(folder / "heatmaps" / f"{name}-source-{number}.png")


def to_json(result: Result) -> dict[str, Any]:
    """Everything but the maps, as `result_schema` describes it."""
    footage = result.footage
    return {
        "schema": SCHEMA,
        "file": footage.name,
        "audio": None if footage.sound == footage.path else footage.sound.name,
        "sound": footage.sound_words,
        "width": footage.info.width,
        "height": footage.info.height,
        "start_s": round(footage.start_s, 3),
        "end_s": round(footage.end_s, 3),
        "fps": round(result.fps, 4),
        "grid": list(result.maps.shape[-2:]),
        "settings": asdict(result.settings),
        "model": to_dict(result.model),
        "versions": {"soundwhere": __version__, **{name: version(name) for name in ("torch", "numpy", "av")}},
        "times_s": _plain(result.times, 4),
        "level_db": [None if np.isinf(level) else round(float(level), 1) for level in result.levels_db],
        "sources": [_source(result, source) for source in range(result.sources)],
    }


def _source(result: Result, source: int) -> dict[str, Any]:
    name, colour = result.colour(source)
    return {
        "number": source + 1,
        "colour": name,
        "rgb": list(colour),
        "where": result.where(source),
        "spans_s": [[round(start, 3), round(end, 3)] for start, end in result.spans(source)],
        "sounding": result.sounding[:, source].tolist(),
        "confidence": _plain(result.confidence[:, source], 4),
        "peak_px": _plain(result.peaks[:, source], 1),
        "box_px": _plain(result.boxes[:, source], 1),
        "area": _plain(result.areas[:, source], 4),
    }


def write_result_json(result: Result, folder: Path) -> None:
    """Write `result.json`, one line per field."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in to_json(result).items()]
    write_text(folder / FINISHED, "{\n" + ",\n".join(lines) + "\n}\n")


def write_csv(result: Result, folder: Path) -> None:
    """Write `result.csv`: one line per time and source."""
    rows: list[tuple[object, ...]] = [CSV_COLUMNS]
    for row, time_s in enumerate(result.times):
        for source in range(result.sources):
            where = (*result.peaks[row, source], *result.boxes[row, source])
            numbers = [f"{value:.1f}" for value in where] + [f"{result.areas[row, source]:.4f}"]
            sure = f"{result.confidence[row, source]:.4f}"
            rows.append((f"{time_s:.4f}", source + 1, int(result.sounding[row, source]), sure, *numbers))
    write_text(folder / "result.csv", as_csv(rows))


def write_npz(result: Result, folder: Path) -> None:
    """Write `result.npz`: the arrays of a `Result` under their own names."""
    names = ("times", "maps", "confidence", "sounding", "levels_db", "peaks", "boxes", "areas", "size")
    arrays: dict[str, Any] = {name: np.asarray(getattr(result, name)) for name in names}
    np.savez_compressed(folder / "result.npz", **arrays)


def write_coco(result: Result, folder: Path) -> None:
    """Write `coco.json`: for every analysed frame the sources that sound, each as a box and a mask."""
    write_text(folder / FILES["coco"], json.dumps(_to_coco(result), allow_nan=False) + "\n")


def _to_coco(result: Result) -> dict[str, Any]:
    """Images, categories and annotations as COCO's tools read them.

    An image is an analysed frame, a category a source, an annotation a source that sounds in a frame: the upper half
    of its map at the size of the picture, as packed run lengths, with the box around it and the confidence as score.
    """
    height, width = result.size
    name = result.footage.name
    images = [
        {"id": frame, "file_name": name, "width": width, "height": height, "time_s": round(float(time_s), 4)}
        for frame, time_s in enumerate(result.times, 1)
    ]
    annotations: list[dict[str, Any]] = []
    for frame, source in np.argwhere(result.sounding):
        if found := _outline(result.maps[frame, source], result.size):
            identity = {"id": len(annotations) + 1, "image_id": int(frame) + 1, "category_id": int(source) + 1}
            score = round(float(result.confidence[frame, source]), 4)
            annotations.append({**identity, **found, "iscrowd": 0, "score": score})
    return {
        "info": {"description": f"where the sounds of {name} come from", "version": f"soundwhere {__version__}"},
        "images": images,
        "categories": [
            {"id": number, "name": f"source {number}", "supercategory": "sound"}
            for number in range(1, result.sources + 1)
        ],
        "annotations": annotations,
    }


def _outline(cells: NDArray[np.float16], size: tuple[int, int]) -> dict[str, Any] | None:
    """Box (left, top, width, height), area and mask of the upper half of a map (h, w); none of a constant map."""
    mask = binarise_arrays(upsample(cells[None], size))[0]
    if not mask.any():
        return None
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    left, top = int(columns[0]), int(rows[0])
    runs = encode_rle(mask)
    return {
        "bbox": [left, top, int(columns[-1]) + 1 - left, int(rows[-1]) + 1 - top],
        "area": int(mask.sum()),
        "segmentation": {"size": runs["size"], "counts": pack_counts(runs["counts"])},
    }


def _plain(values: NDArray[Any], digits: int) -> Any:
    return np.asarray(values, np.float64).round(digits).tolist()


WRITERS: dict[str, Callable[[Result, Path], None]] = {
    "png": write_pictures,
    "json": write_result_json,
    "csv": write_csv,
    "npz": write_npz,
    "coco": write_coco,
    "html": write_page,
}
