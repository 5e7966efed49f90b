"""A result as a COCO file: for every analysed frame the sources that sound, each as a box and a mask."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere import __version__
from soundwhere.data.annotation.rle import encode_rle, pack_counts
from soundwhere.files import write_text
from soundwhere.inference.formats import FILES
from soundwhere.inference.geometry import upsample
from soundwhere.metrics.binarise import binarise_arrays

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.inference.result import Result


def write_coco(result: Result, folder: Path) -> None:
    """Write `coco.json`."""
    write_text(folder / FILES["coco"], json.dumps(to_coco(result), allow_nan=False) + "\n")


def to_coco(result: Result) -> dict[str, Any]:
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
