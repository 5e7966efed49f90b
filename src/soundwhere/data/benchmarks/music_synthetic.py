"""MUSIC-Synthetic: four instruments in one joined picture, two of which sound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere.data.annotation.boxes import Boxes, repair_boxes
from soundwhere.data.annotation.findings import Findings, box_defects
from soundwhere.data.benchmarks.media import ClipName
from soundwhere.data.benchmarks.scenes import Benchmark, Level, Record, Shot, assemble
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.benchmarks.media import MediaFolder


class MusicSynthetic:
    """MUSIC-Synthetic's test set, from a folder: no list of it is published beside the data.

    | | |
    |---|---|
    | test scenes | 455 by the paper |
    | classes | 15 by the paper; DSOL trains on 11 of MUSIC's |

    A picture is joined from frames of four solos, the sound is a mixture of two of them. DSOL's released evaluation
    reads one `<id>.npy` a scene with rows `x, y, width, height, category`, shares of the picture, for the sources that
    sound. The boxes of one category are one source. The layout read here:

        DIR/box/<id>.npy      the boxes
        DIR/frames/<id>.jpg   the joined picture (DSOL calls the folder `video`)
        DIR/audio/<id>.wav    the mixture

    DSOL's own code reads the sound as pickled spectrograms, which cannot be turned back into sound: scenes that come
    with nothing else are reported as missing. This layout was taken from DSOL's code; the download itself (Zenodo
    record 4079386) was not at hand, so neither the count of 455 nor the classes were checked.

    Licence: see the Zenodo record.

    Citation: D. Hu et al. Discriminative Sounding Objects Localization via Self-supervised Audiovisual Matching.
    NeurIPS 2020.

    Args:
        boxes: The folder of boxes.

    Raises:
        DataError: The folder is missing or empty, or a file in it is malformed.
    """

    def __init__(self, boxes: Path) -> None:
        paths = sorted(boxes.glob("*.npy"))
        if not paths:
            raise DataError(
                f"{boxes} holds no boxes (<id>.npy).", "Get MUSIC-Synthetic from its Zenodo record and give its folder."
            )
        self._truths = {path.stem: _read(path) for path in paths}
        every = [item for truth in self._truths.values() for item in truth.values()]
        self.findings = Findings(
            "box/*.npy",
            {
                "scenes": len(paths),
                "boxes": sum(len(item.boxes_norm) + item.dropped for item in every),
                "categories": len({kind for truth in self._truths.values() for kind in truth}),
            },
            box_defects(every),
        )

    def benchmark(self, media: MediaFolder | None, level: Level = "as-recorded") -> Benchmark:
        """The scenes, 224 x 224."""
        records = []
        for name, truth in self._truths.items():
            clip = ClipName(name)
            records.append(Record(name, (Shot(clip, clip, tuple(truth.values()), tuple(truth)),)))
        return assemble("music-synthetic", records, media, truth="boxes", level=level, findings=[self.findings])


def _read(path: Path) -> dict[str, Boxes]:
    """The boxes of each category in a file."""
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)  # mapped: a header cannot claim more than there is
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array: {error}.", "Get the data set again.") from error
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.shape[1] != 5 or rows.dtype.kind not in "iuf":
        shape = getattr(rows, "shape", type(rows).__name__)
        raise DataError(f"{path} has the shape {shape}.", "Its rows must be x, y, width, height, category.")
    boxes: dict[str, list[Any]] = {}
    for *box, category in rows.tolist():
        boxes.setdefault(f"category {category:g}", []).append(box)
    return {kind: repair_boxes(raw, "xywh", str(path)) for kind, raw in boxes.items()}
