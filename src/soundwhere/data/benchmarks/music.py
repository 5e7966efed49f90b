"""MUSIC-Duet, MUSIC-Solo and MUSIC-Synthetic: instruments in real and in joined pictures, with boxes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from soundwhere.data.annotation.boxes import Boxes, repair_boxes
from soundwhere.data.annotation.findings import Defect, Findings, box_defects
from soundwhere.data.annotation.records import entry_field, find_annotation, read_entries, require_unique
from soundwhere.data.benchmarks.media import ClipName
from soundwhere.data.benchmarks.scenes import Benchmark, Level, Record, Shot, assemble
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.benchmarks.media import MediaFolder

Players = Literal["duet", "solo"]

CATEGORIES: Final = {
    1: "cello",
    3: "acoustic guitar",
    8: "saxophone",
    10: "trumpet",
    11: "violin",
    12: "flute",
    13: "accordion",
}
"""DSOL's category numbers; AVGN's files name the same boxes."""

_DSOL: Final = "github.com/DTaoo/Discriminative-Sounding-Objects-Localization"
_AVGN: Final = "github.com/stoneMo/AVGN"
_FRAMES_PER_S = 30  # frames are numbered at this rate in every video
_DSOL_FRAME = re.compile(r"(?P<video>.{11})_(?P<part>\d+_\d+)/frame_(?P<second>\d+)/(?P<number>\d+)\.jpg")
_AVGN_FRAME = re.compile(r"(?P<video>.{11})_(?P<second>\d+)_(?P<number>\d+)")


@dataclass(frozen=True)
class _Frame:
    """An annotated frame: the video, and the boxes of each class."""

    clip: ClipName
    video: str
    boxes: dict[str, Boxes]
    disagreeing: int = 0  # boxes whose pixels are not their shares

    def record(self) -> Record:
        shot = Shot(self.clip, self.clip, tuple(self.boxes.values()), tuple(self.boxes))
        return Record(self.clip.name, (shot,))


class Music:
    """MUSIC-Duet and MUSIC-Solo as DSOL annotated them: single frames of real performances.

    | | duets | solos |
    |---|---|---|
    | videos of the set | 149, of which 141 are accessible; 11 classes | |
    | test | the first two videos of each category: 17 by the paper, 16 in the file | 27 in the file |
    | frames in the file | 11 512, of which 10 284 have boxes | 13 472, of which 12 356 have boxes |
    | **frames that count** | **4 751: those that show two classes** | **12 356: those that show one** |
    | classes in the file | 6 | 7 |

    Boxes come from a Faster R-CNN detector, one of a class at most; a frame in which it found one player of a duet has
    half a truth, so it is not scored. Both instruments are in one natural picture at any place (224 x 224 after
    squashing, no frames to crop), and the recording is a native mixture: a scene has two masks and one row of sound.

    Files: `duettest.json` and `solotest.json`, frame -> boxes `[x, y, w, h]` in pixels (`box`) and as shares
    (`normbox`), `category_id`, and the picture's size under `wdith` (sic) and `height`. A frame is called
    `<YouTube id>_0_1000/frame_<second>/<number>.jpg`, numbered at 30 frames a second; here
    `<YouTube id>_<second>_<number>`. Its picture is found under either name in `frames/`, its sound likewise in
    `audio/`; or both are taken at their time from `<YouTube id>.mp4` or `<YouTube id>_0_1000.mp4`, the sound also from
    a sound file of that name. (AVGN takes the middle of the whole recording for every frame of it.)

    Licence: annotations MIT (DSOL); the videos belong to their uploaders.

    Citation: D. Hu, R. Qian, M. Jiang, X. Tan, S. Wen, E. Ding, W. Lin, D. Dou. Discriminative Sounding Objects
    Localization via Self-supervised Audiovisual Matching. NeurIPS 2020. Videos: H. Zhao et al. The Sound of Pixels.
    ECCV 2018.

    Args:
        annotations: Folder with `dsol/duettest.json` or `dsol/solotest.json`.
        players: `duet` or `solo`.

    Raises:
        DataError: The file is missing or malformed.
    """

    def __init__(self, annotations: Path, players: Players) -> None:
        self._players = players
        source = f"dsol/{players}test.json"
        path = find_annotation(annotations, source, _DSOL)
        entries = read_entries(path, dict, "table of frames", _DSOL)
        frames = [_dsol_frame(key, entry, f"{path}, {key}") for key, entry in entries.items()]
        require_unique((frame.clip.name for frame in frames), path)
        wanted = 2 if players == "duet" else 1
        self.frames = [frame for frame in frames if len(frame.boxes) == wanted]
        misspelt = [key for key, entry in entries.items() if "wdith" in entry]
        aside = {count: sum(len(frame.boxes) == count for frame in frames) for count in range(wanted)}
        self.findings = Findings(
            source,
            {
                "frames": len(frames),
                "with boxes": sum(bool(frame.boxes) for frame in frames),
                "that count": len(self.frames),
                "videos": len({frame.video for frame in frames}),
                "classes": len({kind for frame in frames for kind in frame.boxes}),
            },
            (
                Defect("frames spell the width `wdith`", len(misspelt), "read as the width"),
                Defect("boxes differ in pixels and in shares", sum(f.disagreeing for f in frames), "shares are used"),
                *box_defects([boxes for frame in frames for boxes in frame.boxes.values()]),
                Defect("frames show one class of two", aside.get(1, 0), "set aside"),
                Defect("frames have no box", aside[0], "set aside"),
            ),
        )

    def benchmark(self, media: MediaFolder | None, level: Level = "as-recorded") -> Benchmark:
        """The frames that count, 224 x 224."""
        records = [frame.record() for frame in self.frames]
        return assemble(f"music-{self._players}", records, media, truth="boxes", level=level, findings=[self.findings])


class MusicAVGN:
    """MUSIC-Duet and MUSIC-Solo as AVGN annotated them: a part of DSOL's frames and boxes.

    | | duets | solos |
    |---|---|---|
    | frames | 1 020 | 2 124 |
    | videos | 6; 1 008 frames are of one video | 20 |
    | classes | 6; 1 012 frames show cello and acoustic guitar | 7 |

    Every box is also in DSOL's file. A box is `[x, y, w, h]` as shares of the picture. AVGN's released code takes it
    for corners, for which 1 027 of 2 040 boxes (duets) and 1 647 of 2 124 (solos) are empty; here they are read as
    they are meant. Media as for `Music`.

    Licence: Apache-2.0 (AVGN); the videos belong to their uploaders.

    Citation: S. Mo, Y. Tian. Audio-Visual Grouping Network for Sound Localization from Mixtures. CVPR 2023.

    Args:
        annotations: Folder with `avgn/music_duet.json` or `avgn/music_solo.json`.
        players: `duet` or `solo`.

    Raises:
        DataError: The file is missing or malformed.
    """

    def __init__(self, annotations: Path, players: Players) -> None:
        self._players = players
        source = f"avgn/music_{players}.json"
        path = find_annotation(annotations, source, _AVGN)
        entries = read_entries(path, list, "list of frames", _AVGN)
        parts = ("_src1", "_src2") if players == "duet" else ("",)
        self.frames = [_avgn_frame(entry, parts, f"{path}, entry {i}") for i, entry in enumerate(entries, 1)]
        require_unique((frame.clip.name for frame in self.frames), path)
        raw = [entry[f"bbox{part}"] for entry in entries for part in parts]
        inverted = sum(repair_boxes([box], "xyxy").dropped for box in raw)
        self.findings = Findings(
            source,
            {
                "frames": len(self.frames),
                "boxes": len(raw),
                "videos": len({frame.video for frame in self.frames}),
                "classes": len({kind for frame in self.frames for kind in frame.boxes}),
            },
            (
                Defect(
                    "boxes would be empty if read as corners, as AVGN does", inverted, "read as x, y, width, height"
                ),
                *box_defects([boxes for frame in self.frames for boxes in frame.boxes.values()]),
            ),
        )

    def benchmark(self, media: MediaFolder | None, level: Level = "as-recorded") -> Benchmark:
        """All frames, 224 x 224."""
        records = [frame.record() for frame in self.frames]
        return assemble(
            f"music-{self._players}-avgn", records, media, truth="boxes", level=level, findings=[self.findings]
        )


def _dsol_frame(key: str, entry: Any, place: str) -> _Frame:
    name = _DSOL_FRAME.fullmatch(key)
    if name is None:
        raise DataError(
            f"{place}: the frame is not called <video>_0_1000/frame_<second>/<number>.jpg.", f"Get it from {_DSOL}."
        )
    height = entry_field(entry, "height", int, place)
    width = entry_field(entry, "wdith" if "wdith" in entry else "width", int, place)
    if min(width, height) < 1:
        raise DataError(f"{place}: the picture is {width} x {height} pixels.", f"Get the file again from {_DSOL}.")
    boxes: dict[str, list[Any]] = {}
    disagreeing = 0
    for box in entry_field(entry, "bbox", list, place):
        category = entry_field(box, "category_id", int, place)
        if category not in CATEGORIES:
            raise DataError(f"{place}: the category {category} is unknown.", f"Known: {sorted(CATEGORIES)}.")
        boxes.setdefault(CATEGORIES[category], []).append(entry_field(box, "normbox", list, place))
        pixels = repair_boxes([entry_field(box, "box", list, place)], "xywh", place, (height, width))
        shares = repair_boxes([box["normbox"]], "xywh", place)
        disagreeing += not _alike(pixels, shares, 1 / min(width, height))
    return replace(_frame(name, f"{name['video']}_{name['part']}", boxes, place), disagreeing=disagreeing)


def _avgn_frame(entry: Any, parts: tuple[str, ...], place: str) -> _Frame:
    file = entry_field(entry, "file", str, place)
    name = _AVGN_FRAME.fullmatch(file)
    if name is None:
        raise DataError(f"{place}: {file!r} is not called <video>_<second>_<number>.", f"Get it from {_AVGN}.")
    boxes: dict[str, list[Any]] = {}
    for part in parts:
        kind = entry_field(entry, f"class{part}", str, place).replace("_", " ")
        boxes.setdefault(kind, []).append(entry_field(entry, f"bbox{part}", list, place))
    return _frame(name, f"{name['video']}_0_1000", boxes, place)


def _frame(name: re.Match[str], part: str, boxes: dict[str, list[Any]], place: str) -> _Frame:
    video, second, number = name["video"], name["second"], name["number"]
    clip = ClipName(
        f"{video}_{second}_{number}", (f"{part}/frame_{second}/{number}",), (part, video), int(number) / _FRAMES_PER_S
    )
    return _Frame(clip, video, {kind: repair_boxes(raw, "xywh", place) for kind, raw in boxes.items()})


def _alike(one: Boxes, other: Boxes, tolerance: float) -> bool:
    pairs = zip(sum(one.boxes_norm, ()), sum(other.boxes_norm, ()), strict=False)
    return len(one.boxes_norm) == len(other.boxes_norm) and all(abs(a - b) <= tolerance for a, b in pairs)
