"""VGG-SS: one sounding object a frame, with boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from soundwhere.data.annotation.boxes import Boxes, repair_boxes
from soundwhere.data.annotation.findings import Defect, Findings, box_defects
from soundwhere.data.annotation.records import (
    entry_field,
    find_annotation,
    read_entries,
    read_list,
    require_unique,
)
from soundwhere.data.benchmarks.media import ClipName
from soundwhere.data.benchmarks.scenes import Benchmark, Level, Record, Shot, Truth, assemble
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.benchmarks.media import MediaFolder

Subset = Literal["all", "heard", "unheard"]

VGGSS_FILE: Final = "lvs/vggss.json"
_LVS: Final = "github.com/hche11/Localizing-Visual-Sounds-the-Hard-Way"
_EZ_VSL: Final = "github.com/stoneMo/EZ-VSL"


@dataclass(frozen=True)
class AnnotatedClip:
    """A clip of VGG-SS: its name, its class, and where it sounds."""

    name: str
    kind: str
    truth: Boxes

    def shot(self, truth: Truth | None = None) -> Shot:
        """The clip as a frame of a scene, with its boxes or another truth."""
        clip = ClipName(self.name)
        return Shot(clip, clip, (truth or self.truth,), (self.kind,))


class VGGSS:
    """VGGSound Source: frames of VGGSound test clips with boxes around what sounds.

    | | |
    |---|---|
    | clips | 5 158, all in VGGSound's test split; 5 941 boxes, of which 5 923 can be used |
    | classes | 221 in the file; papers say 220 |
    | heard / unheard | 2 564 / 2 575 clips of 110 / 110 classes (EZ-VSL); the 19 of `singing choir` are in neither |
    | accessible | 4 390 clips in October 2025, by the SCAV paper |

    Defects of the file: 12 boxes reach far out of the picture (to -2.9e16) and are clipped; 18 boxes, these 12 among
    them, are then empty and dropped; two clips have no box left and keep an empty truth. Released code scores every
    answer 0 there, and so do the presets that follow it: their results are over 5 158 clips as published. `scav` leaves
    the two out, because no answer can be right.

    A clip's name is `<YouTube id>_<second, 6 digits>`. The picture is the middle frame, the sound the middle 3 s.

    Licence: annotations Apache-2.0 (LVS), lists Apache-2.0 (EZ-VSL); the videos belong to their uploaders.

    Citation: H. Chen, W. Xie, T. Afouras, A. Nagrani, A. Vedaldi, A. Zisserman. Localizing Visual Sounds the Hard Way.
    CVPR 2021. Heard and unheard lists: S. Mo, P. Morgado. Localizing Visual Sounds the Easy Way. ECCV 2022.

    Args:
        annotations: Folder with `lvs/vggss.json`, and `ez-vsl/` for the heard and unheard lists.

    Attributes:
        clips: Every clip by name, in the order of the file.
        findings: What is in the files read so far.

    Raises:
        DataError: The file is missing or malformed.
    """

    def __init__(self, annotations: Path) -> None:
        self._annotations = annotations
        path = find_annotation(annotations, VGGSS_FILE, _LVS)
        entries = read_entries(path, list, "list of clips", _LVS)
        clips = [_clip(entry, f"{path}, entry {number}") for number, entry in enumerate(entries, 1)]
        require_unique((clip.name for clip in clips), path)
        self.clips = {clip.name: clip for clip in clips}
        self.findings = [_findings(clips)]

    def subset(self, which: Subset) -> list[AnnotatedClip]:
        """All clips, or those of the classes that EZ-VSL's open-set training heard or did not hear."""
        if which == "all":
            return list(self.clips.values())
        name = f"ez-vsl/vggss_{which}_test.csv"
        rows = read_list(self._annotations, name, ("clip",), _EZ_VSL)
        unknown = [row for row in rows if row["clip"] not in self.clips]
        if unknown:
            raise DataError(f"{unknown[0].place}: {unknown[0]['clip']} is not in VGG-SS.", f"Get it from {_EZ_VSL}.")
        chosen = [self.clips[row["clip"]] for row in rows]
        self.findings.append(Findings(name, {"clips": len(chosen), "classes": len({clip.kind for clip in chosen})}))
        return chosen

    def benchmark(self, media: MediaFolder | None, subset: Subset = "all", level: Level = "as-recorded") -> Benchmark:
        """Scenes of one source each, 224 x 224."""
        records = [Record(clip.name, (clip.shot(),)) for clip in self.subset(subset)]
        choices: dict[str, str] = {"subset": subset}
        return assemble("vgg-ss", records, media, truth="boxes", level=level, choices=choices, findings=self.findings)


def _clip(entry: Any, place: str) -> AnnotatedClip:
    boxes = entry_field(entry, "bbox", list, place)
    name, kind = entry_field(entry, "file", str, place), entry_field(entry, "class", str, place)
    return AnnotatedClip(name, kind, repair_boxes(boxes, "xyxy", place))


def _findings(clips: list[AnnotatedClip]) -> Findings:
    empty = [clip for clip in clips if not clip.truth.boxes_norm]
    boxes = sum(len(clip.truth.boxes_norm) + clip.truth.dropped for clip in clips)
    return Findings(
        VGGSS_FILE,
        {"clips": len(clips), "classes": len({clip.kind for clip in clips}), "boxes": boxes},
        (
            *box_defects([clip.truth for clip in clips], [clip.name for clip in clips]),
            Defect(
                "clips have no box left", len(empty), "kept with an empty truth", tuple(clip.name for clip in empty)
            ),
        ),
    )
