"""Silent negatives: pictures with a sound that does not belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from soundwhere.data.annotation.findings import Defect, Findings
from soundwhere.data.annotation.records import find_annotation, require_unique
from soundwhere.data.benchmarks.media import ClipName
from soundwhere.data.benchmarks.scenes import Benchmark, Level, Record, Shot, assemble
from soundwhere.data.benchmarks.vggss import VGGSS
from soundwhere.data.table import read_table
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.benchmarks.media import MediaFolder

SILENT_FILE: Final = "slavc/vggss_test_plus_silent.csv"
_SLAVC: Final = "github.com/stoneMo/SLAVC"
_LABEL: Final = "non-sounding"


class SilentNegatives:
    """SLAVC's negatives for VGG-SS: in none of these scenes can what sounds be seen, so maps should stay dark.

    | | |
    |---|---|
    | scenes | 5 158, all labelled `non-sounding` |
    | another clip's sound | 4 779 VGG-SS pictures, each with the sound of another VGG-SS clip |
    | own sound, source not in view | 379 clips with their own sound; none is in VGG-SS or in VGGSound's test list |

    To know before reading a score: in 1 185 of the 4 779 the sound is of the *same class* as the picture, so a map that
    lights up is not plainly wrong there. They are counted and kept, as published.

    Scenes have no truth: `masks` has shape (0, 224, 224).

    Licence: Apache-2.0 (SLAVC); the videos belong to their uploaders.

    Citation: S. Mo, P. Morgado. A Closer Look at Weakly-Supervised Audio-Visual Source Localization. NeurIPS 2022.

    Args:
        annotations: Folder with `slavc/vggss_test_plus_silent.csv` and `lvs/vggss.json`.

    Raises:
        DataError: A file is missing or malformed.
    """

    def __init__(self, annotations: Path) -> None:
        path = find_annotation(annotations, SILENT_FILE, _SLAVC)
        self._rows = read_table(path, ("video", "audio", "label"))
        other = next((row for row in self._rows if row["label"] != _LABEL), None)
        if other is not None:
            raise DataError(
                f"{other.place}: the label is {other['label']!r}, not {_LABEL!r}.", f"Get it from {_SLAVC}."
            )
        require_unique((row["video"] for row in self._rows), path)
        kinds = {name: clip.kind for name, clip in VGGSS(annotations).clips.items()}
        own = [row for row in self._rows if row["video"] == row["audio"]]
        swapped = [row for row in self._rows if row["video"] != row["audio"]]
        alike = [row for row in swapped if row["video"] in kinds and kinds[row["video"]] == kinds.get(row["audio"])]
        self.findings = Findings(
            SILENT_FILE,
            {
                "scenes": len(self._rows),
                "with another clip's sound": len(swapped),
                "with their own, source not in view": len(own),
                "sounds": len({row["audio"] for row in self._rows}),
            },
            (
                Defect(
                    "scenes have another clip's sound of the same class",
                    len(alike),
                    "kept",
                    tuple(row["video"] for row in alike),
                ),
            ),
        )

    def benchmark(self, media: MediaFolder | None, level: Level = "as-recorded") -> Benchmark:
        """Scenes without a sounding object, 224 x 224."""
        records = [Record(row["video"], (Shot(ClipName(row["video"]), ClipName(row["audio"])),)) for row in self._rows]
        return assemble("silent-negatives", records, media, truth="none", level=level, findings=[self.findings])
