"""A benchmark: scenes made when asked for, how they are laid out, and what is missing or was wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from soundwhere.constants import CLIP_SAMPLES, FRAME_PX
from soundwhere.data.annotation.findings import Findings, grouped
from soundwhere.data.layout import join
from soundwhere.data.lazy import Lazy
from soundwhere.errors import DataError
from soundwhere.files import write_csv
from soundwhere.media.audio import scale_to_rms
from soundwhere.media.image import resize
from soundwhere.types import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.data.benchmarks.media import ClipName, MediaFolder
    from soundwhere.types import Image, Masks, Waveform

Grid = tuple[int, int]
"""Rows and columns of equal frames that a picture is joined from; (1, 1) for one natural picture."""

Level = Literal["as-recorded", "equal-rms"]
"""How loud each sound is before sounds are summed: as it comes (what the field does), or at RMS 0.1."""

TruthKind = Literal["boxes", "masks", "none"]
_LISTED = 5


class Truth(Protocol):
    """Where one source is."""

    def mask(self, size: tuple[int, int]) -> NDArray[np.bool_]:
        """The source in a frame of a size (height, width)."""


@dataclass(frozen=True)
class Shot:
    """One frame of a scene.

    Attributes:
        picture: The clip whose picture it shows.
        sound: The clip whose sound is heard with it.
        truths: What sounds in it, one for each source; empty if nothing does.
        kinds: Class names, in the order of `truths`.
    """

    picture: ClipName
    sound: ClipName
    truths: tuple[Truth, ...] = ()
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """A scene before anything is read: its frames from left to right, and what is known to be lacking already."""

    name: str
    shots: tuple[Shot, ...]
    lacking: str = ""


@dataclass(frozen=True)
class Missing:
    """Why a scene cannot be used."""

    scene: str
    reason: str


class BenchmarkScenes(Lazy["Record", Scene]):
    """Scenes made when asked for.

    Each frame is squashed to 224 x 224, frames are joined side by side. A frame has one sound, which is 3 s from the
    middle of its clip. So a picture of two sources with one recording of both has two masks but one row of `sounds`.

    Args:
        records: The scenes.
        media: Where pictures and sounds are; without, pictures are black and sounds silent.
        level: How loud each sound is.
    """

    def __init__(self, records: Sequence[Record], media: MediaFolder | None, level: Level = "as-recorded") -> None:
        super().__init__(records)
        self._media = media
        self._level = level

    def make(self, record: Record) -> Scene:
        """Join the frames of a scene, and read its sounds."""
        return Scene(
            name=record.name,
            image=join([self._picture(shot) for shot in record.shots], "side-by-side"),
            sounds=np.stack([self._sound(shot) for shot in record.shots]),
            masks=masks_of(record),
            kinds=tuple(kind for shot in record.shots for kind in shot.kinds),
        )

    def seen_kinds(self, index: int) -> frozenset[str]:
        """Classes of everything annotated in a scene."""
        return frozenset(kind for shot in self.records[index].shots for kind in shot.kinds)

    def _picture(self, shot: Shot) -> Image:
        found = self._media.picture(shot.picture) if self._media else None
        if found is None:
            return np.zeros((FRAME_PX, FRAME_PX, 3), np.uint8)
        return resize(found.picture(), (FRAME_PX, FRAME_PX))

    def _sound(self, shot: Shot) -> Waveform:
        found = self._media.sound(shot.sound) if self._media else None
        if found is None:
            return np.zeros(CLIP_SAMPLES, np.float32)
        return found.sound() if self._level == "as-recorded" else scale_to_rms(found.sound())


def masks_of(record: Record) -> Masks:
    """The truth of a scene over its whole picture, shape (S, 224, 224 x frames), bool."""
    count = sum(len(shot.truths) for shot in record.shots)
    masks = np.zeros((count, FRAME_PX, FRAME_PX * len(record.shots)), dtype=np.bool_)
    row = 0
    for column, shot in enumerate(record.shots):
        for truth in shot.truths:
            masks[row, :, FRAME_PX * column : FRAME_PX * (column + 1)] = truth.mask((FRAME_PX, FRAME_PX))
            row += 1
    return masks


@dataclass(frozen=True)
class Benchmark:
    """A list of scenes to score on, and everything a result has to say about it.

    Attributes:
        name: As the catalogue names it.
        scenes: The scenes that can be used, made when asked for.
        order: Their names. What is made of a benchmark refers to scenes by these.
        grid: Rows and columns of frames in a picture, for source-wise scores.
        truth: What the truth was annotated as.
        choices: What was chosen among the options that matter here, for the result file.
        findings: What was found in each annotation file.
        missing: The scenes that cannot be used, with the reason.
        truths: Every scene that has a truth, with a black picture and silence where media would be: enough for answers
            that neither look nor listen.
    """

    name: str
    scenes: Sequence[Scene]
    order: tuple[str, ...]
    grid: Grid
    truth: TruthKind
    truths: Sequence[Scene]
    choices: dict[str, str] = field(default_factory=dict)
    findings: tuple[Findings, ...] = ()
    missing: tuple[Missing, ...] = ()

    @property
    def total(self) -> int:
        """How many scenes there would be if nothing were missing."""
        return len(self.scenes) + len(self.missing)

    def usable(self) -> str:
        """How many scenes can be used, in words: `3 951 of 5 158 scenes usable`."""
        return f"{grouped(len(self.scenes))} of {grouped(self.total)} scenes usable"

    def require(self, allow_missing: bool = False) -> None:
        """Refuse to go on without scenes that are missing, unless that is allowed; never go on without any.

        Raises:
            DataError: Scenes are missing and that is not allowed, or none is left.
        """
        if not self.scenes:
            raise DataError(
                f"{self.name}: {self.usable()}.{self._first_missing()}",
                "Give the folder of its media with --data; docs/benchmarks.md says how they are laid out.",
            )
        if self.missing and not allow_missing:
            raise DataError(
                f"{self.name}: {self.usable()}.{self._first_missing()}",
                "Get what is missing, or score the others with --allow-missing.",
            )

    def describe(self) -> str:
        """Everything about the benchmark for people, a few lines."""
        rows, columns = self.grid
        facts = [f"truth: {self.truth}", f"frames: {rows} x {columns}"]
        facts += [f"{key}: {value}" for key, value in self.choices.items()]
        return "\n".join([f"{self.name}: {self.usable()} ({', '.join(facts)})", *map(str, self.findings)])

    def write_missing(self, path: Path) -> None:
        """List what is missing in a CSV file with the columns `scene` and `reason`."""
        write_csv(path, [["scene", "reason"], *([item.scene, item.reason] for item in self.missing)])

    def write_list(self, path: Path) -> None:
        """Write the scenes used in the form of the published lists: no header, clip and class of each frame."""
        if isinstance(self.scenes, BenchmarkScenes):
            write_csv(path, map(_cells, self.scenes.records))
        else:
            write_csv(path, ([name] for name in self.order))

    def _first_missing(self) -> str:
        lines = [f"\n  {item.scene}: {item.reason}" for item in self.missing[:_LISTED]]
        more = len(self.missing) - _LISTED
        return "".join(lines) + (f"\n  and {grouped(more)} more" if more > 0 else "")


def assemble(
    name: str,
    records: Sequence[Record],
    media: MediaFolder | None,
    *,
    truth: TruthKind,
    level: Level = "as-recorded",
    choices: dict[str, str] | None = None,
    findings: Sequence[Findings] = (),
) -> Benchmark:
    """A benchmark of records: what lacks media or truth is set apart and told."""
    reasons = {record.name: _lacking(record, media) for record in records}
    usable = [record for record in records if not reasons[record.name]]
    with_truth = [record for record in records if not record.lacking]
    return Benchmark(
        name=name,
        scenes=BenchmarkScenes(usable, media, level),
        order=tuple(record.name for record in usable),
        grid=(1, max((len(record.shots) for record in records), default=1)),
        truth=truth,
        truths=BenchmarkScenes(with_truth, None),
        choices={"level": level, **(choices or {})},
        findings=tuple(findings),
        missing=tuple(Missing(scene, reason) for scene, reason in reasons.items() if reason),
    )


def _lacking(record: Record, media: MediaFolder | None) -> str:
    """What a scene lacks, in words; empty if it is complete."""
    if media is None:
        return record.lacking or "no folder of media was given"
    lacking = [record.lacking] if record.lacking else []
    for shot in record.shots:
        if media.picture(shot.picture) is None:
            lacking.append(f"no picture {shot.picture.name}")
        if media.sound(shot.sound) is None:
            lacking.append(f"no sound {shot.sound.name}")
    return ", ".join(lacking)


def _cells(record: Record) -> Iterator[str]:
    for shot in record.shots:
        yield shot.picture.name
        yield from (kind.replace(", ", "_").replace(" ", "_") for kind in shot.kinds)
