"""How good a segmenter's proposals for boxes are, against masks that people drew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere.annotate.agreement import mask_iou
from soundwhere.annotate.segmenter.protocol import ranked
from soundwhere.data.annotation.boxes import Boxes, repair_boxes
from soundwhere.data.annotation.masks import read_mask
from soundwhere.data.table import read_table
from soundwhere.errors import DataError
from soundwhere.files import parse_json
from soundwhere.media.image import read_image
from soundwhere.metrics.listening import mean_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from soundwhere.annotate.segmenter.protocol import Segmenter
    from soundwhere.data.table import Row
    from soundwhere.metrics.bootstrap import Interval

_COLUMNS: Final = ("image", "split", "mask", "mask_kind", "boxes")
ANSWERS: Final = {
    "box": "the box itself",
    "given": "first as it comes",
    "best": "key 1: best score",
    "any": "best of three",
}
"""What is compared with the human mask."""


@dataclass(frozen=True)
class Proposed:
    """What a segmenter made of one box.

    Attributes:
        image: Which photo.
        size: Share of the picture that the box covers, 0 to 1.
        fill: Share of the box that the human mask covers, 0 to 1; the lower, the less the box says.
        iou: Overlap with the human mask, by the names of `ANSWERS`.
        scored_first: Whether the segmenter's first answer is also its best by its own score.
        right: Whether the best by score is the best of the three.
    """

    image: str
    size: float
    fill: float
    iou: dict[str, float]
    scored_first: bool
    right: bool


@dataclass(frozen=True)
class Line:
    """A group of boxes: how many, and the mean overlap of each answer with its 95 % interval."""

    name: str
    boxes: int
    iou: dict[str, Interval]


def choose_photos(root: Path, split: str, count: int) -> list[Row]:
    """Photos with one box and a human mask, spread evenly over the list of a data set such as real-duet.

    Args:
        root: Folder with `images.csv`.
        split: Which split of it.
        count: How many.

    Raises:
        DataError: There are fewer.
    """
    table = root / "images.csv"
    rows = [row for row in read_table(table, _COLUMNS) if row["mask_kind"] == "human" and row["split"] == split]
    rows = [row for row in rows if len(_boxes(row).boxes_norm) == 1]
    if not 1 <= count <= len(rows):
        raise DataError(
            f"{table} has {len(rows)} photos of {split!r} with a human mask and one box; {count} were wanted.",
            "Ask for fewer with --photos, or for another --split.",
        )
    return [rows[number * len(rows) // count] for number in range(count)]


def score_proposals(
    segmenter: Segmenter, rows: Sequence[Row], tick: Callable[[int, int], None] = lambda done, total: None
) -> list[Proposed]:
    """Let a segmenter propose for every photo's box, and compare with its human mask."""
    found = []
    for done, row in enumerate(rows, 1):
        truth = read_mask(row.file(row["mask"]))
        image = read_image(row.file(row["image"]))
        if image.shape[:2] != truth.shape:
            raise DataError(f"{row.place}: mask and photo differ in size.", "Copy the data set again.")
        found.append(_compare(segmenter, row["image"], image, truth, _boxes(row)))
        tick(done, len(rows))
    return found


def _compare(segmenter: Segmenter, name: str, image: Any, truth: Any, boxes: Boxes) -> Proposed:
    height, width = truth.shape
    ((left, top, right, bottom),) = boxes.boxes_norm
    box = (left * width, top * height, right * width, bottom * height)
    candidates = segmenter.propose(segmenter.embed(image), box)
    overlaps = [mask_iou(candidate.mask, truth) for candidate in ranked(candidates)]
    area = boxes.mask((height, width))
    iou = {
        "box": mask_iou(area, truth),
        "given": mask_iou(candidates[0].mask, truth),
        "best": overlaps[0],
        "any": max(overlaps),
    }
    first = candidates[0].score == max(candidate.score for candidate in candidates)
    fill = float((area & truth).sum() / max(1, area.sum()))
    return Proposed(name, float(area.mean()), fill, iou, first, overlaps[0] == max(overlaps))


def summarise(proposed: Sequence[Proposed]) -> list[Line]:
    """All boxes, then their thirds by size and by fill."""
    lines = [_line("all", proposed)]
    for name, words in (("size", ("small", "middling", "large")), ("fill", ("sparse", "half full", "full"))):
        ordered = sorted(proposed, key=lambda one: float(getattr(one, name)))
        for third, word in enumerate(words):
            part = ordered[third * len(ordered) // 3 : (third + 1) * len(ordered) // 3]
            if part:
                span = f"{100 * getattr(part[0], name):.0f} to {100 * getattr(part[-1], name):.0f} %"
                what = "of the picture" if name == "size" else "of it is the thing"
                lines.append(_line(f"{word} box: {span} {what}", part))
    return lines


def _line(name: str, part: Sequence[Proposed]) -> Line:
    return Line(name, len(part), {key: mean_interval(np.array([one.iou[key] for one in part])) for key in ANSWERS})


def _boxes(row: Row) -> Boxes:
    try:
        found = parse_json(row["boxes"] or "[]")
        return repair_boxes(found, place=row.place)
    except (ValueError, TypeError) as error:
        raise DataError(f"{row.place}: {row['boxes']!r} is not a list of boxes.", "Copy the data set again.") from error
