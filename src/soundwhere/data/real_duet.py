"""real-duet and wide-duet: real photos and sounds, as single clips for training and scenes for scoring."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from soundwhere.constants import CLIP_SAMPLES, FRAME_PX
from soundwhere.data.annotation.masks import MaskFile
from soundwhere.data.clips import Clips, StillClip, VideoClip, file_key
from soundwhere.data.collections import draw_trios, pair_again
from soundwhere.data.layout import join
from soundwhere.data.lazy import Lazy
from soundwhere.data.memory import MEMORY
from soundwhere.data.table import Row, read_table
from soundwhere.errors import DataError
from soundwhere.media.audio import centre_clip, read_audio, scale_to_rms
from soundwhere.media.image import read_image, resize
from soundwhere.types import Scene

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.data.collections import Fold
    from soundwhere.types import Image, Waveform

T = TypeVar("T", bound=np.generic)

COLLECTION_TRIOS = 300

Split = Literal["train", "val", "test", "train+val"]
SceneList = Literal["duets_val", "duets_test", "trios_val", "trios_test"]
Order = Literal["side-by-side", "mirrored", "stacked"]
"""How a scene's photos are put together: as listed, as a mirror shows that, or from top to bottom."""


class RealDuet:
    """Single-source clips, duets and trios of real photos and real sounds.

    A clip is a photo and a sound of one class, paired once and for all: 2 231 clips of 2 197 photos (PASCAL VOC and
    Caltech-101; JPEG, short side 256) and 872 sounds (ESC-50, UrbanSound8K and recorded notes; Ogg Vorbis, 22 050 Hz,
    5 s) of airplane, bird, car, cat, cow, dog, guitar, helicopter, motorbike, person, saxophone, sheep and train.

    | split | clips | photos | sounds | duets | trios |
    |---|---|---|---|---|---|
    | train | 1 788 | 1 756 | 607 | | |
    | val | 181 | 180 | 129 | 300 | 300 |
    | test | 262 | 261 | 136 | 500 | 500 |

    Splits share no photo and no sound. `val` is for choosing; `test` is looked at once a choice is made. A duet is two
    photos side by side, both of which sound; a trio has a third that is silent. Masks of guitar, helicopter and
    saxophone are `derived`, all others `human`: report them apart.

    wide-duet has the same layout and contains real-duet: 45 classes, 5 070 / 585 / 852 clips, 300 val and 800 test
    scenes of each kind, and 64 videos with their own sound (`videos`).

    Licence: research use; the tables name source and licence of every photo and sound.

    Args:
        root: Folder with `clips.csv`, `images.csv`, the lists of scenes, and the files they name.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise DataError(
                f"{self.root} is not a folder.",
                "Give that of real-duet, wide-duet or a set in their layout: --root to train, --data to evaluate. "
                "`soundwhere benchmark build` makes these from downloads, `soundwhere world --clips` a made-up one.",
            )

    def clips(self, split: Split, labels: bool = False, left_out: Fold | None = None) -> Clips:
        """The single-source clips of a split. Opens `clips.csv` only, and gives no labels unless they are asked for.

        Args:
            split: Which clips.
            labels: Give their classes, too.
            left_out: Leave out one collection of the classes that have recordings of two: their photos are paired with
                the other's, for which classes are read, as whoever paired photos and sounds did.
        """
        wanted = split.split("+")
        columns = ("split", "image", "audio", *(("class",) if labels or left_out else ()))
        rows = [row for row in read_table(self.root / "clips.csv", columns) if row["split"] in wanted]
        pairs = [(row["image"], row["audio"]) for row in rows]
        if left_out:
            pairs = pair_again([(row["class"], row["image"], row["audio"]) for row in rows], left_out)
        clips = [
            StillClip.of(row.file(image), row.file(audio), self.root)
            for row, (image, audio) in zip(rows, pairs, strict=True)
        ]
        if not clips:
            raise DataError(
                f"{self.root / 'clips.csv'} has no clips of the split {split!r}.", "Copy the data set again."
            )
        return Clips(clips, [row["class"] for row in rows] if labels else None)

    def scenes(self, name: SceneList, frame_px: int = FRAME_PX, order: Order = "side-by-side") -> RealDuetScenes:
        """The scenes of a list, for scoring, in its order.

        Args:
            name: `duets_val`, `duets_test`, `trios_val` or `trios_test`.
            frame_px: Side to which each photo is squashed before photos are joined.
            order: How photos are joined; the set's own is side by side.
        """
        photos = {row["image"]: row for row in read_table(self.root / "images.csv", ("image", "mask", "mask_kind"))}
        rows = read_table(self.root / f"{name}.csv", ("id", "images", "classes", "audios"))
        return RealDuetScenes([_Record.of(row, photos) for row in rows], frame_px, order)

    def videos(self, split: Split, label: str = "") -> list[VideoClip]:
        """The videos of a split (of wide-duet only) with a word in their label, each a clip with its own sound."""
        rows = self._wide_table("videos.csv", ("video", "label", "split", "seconds"))
        wanted = split.split("+")
        return [
            VideoClip(path, 0.0, _seconds(row), file_key(path, self.root))
            for row in rows
            if row["split"] in wanted and label in row["label"]
            for path in [row.file(row["video"])]
        ]

    def _wide_table(self, name: str, columns: Sequence[str]) -> list[Row]:
        """A table that wide-duet has and other sets may not."""
        if (self.root / "clips.csv").is_file() and not (self.root / name).is_file():
            raise DataError(
                f"{self.root} has clips.csv, but no {name}.", "Give the folder of wide-duet, which has both."
            )
        return read_table(self.root / name, columns)

    def collection_trios(
        self, left_out: Fold, split: Literal["val", "test"], frame_px: int = FRAME_PX, order: Order = "side-by-side"
    ) -> RealDuetScenes:
        """300 seeded trios that sound like the collection that a model was trained without, with photos of a split."""
        images = read_table(self.root / "images.csv", ("image", "class", "split", "mask", "mask_kind"))
        listed = {row["image"]: row for row in images}
        photos: dict[str, list[str]] = {}
        for row in images:
            if row["split"] == split and row["mask"]:
                photos.setdefault(row["class"], []).append(row["image"])
        sounds = self._wide_table("audios.csv", ("audio", "class"))
        trios = draw_trios(photos, [(row["class"], row["audio"]) for row in sounds], left_out, COLLECTION_TRIOS)
        place = images[0]
        records = [
            _Record(
                f"{left_out}-{split}-{number:04d}",
                [place.file(image) for image in cast],
                [place.file(listed[image]["mask"]) for image in cast],
                [listed[image]["mask_kind"] for image in cast],
                kinds,
                [place.file(audio) if audio else None for audio in audios],
            )
            for number, (cast, kinds, audios) in enumerate(trios)
        ]
        return RealDuetScenes(records, frame_px, order)


class RealDuetScenes(Lazy["_Record", Scene]):
    """Scenes made when asked for: photos squashed and joined, sounds at RMS 0.1, seconds 1.0 to 4.0 of the 5 s.

    Masks are squashed by nearest pixel, which keeps an object's share of the frame and its thin parts as drawn.

    Args:
        records: The scenes.
        frame_px: Side of each frame.
        order: How photos are joined.
        media: Read pictures and sounds; without, pictures are black and sounds silent.
    """

    def __init__(
        self, records: Sequence[_Record], frame_px: int, order: Order = "side-by-side", media: bool = True
    ) -> None:
        super().__init__(records)
        self._frame_px = frame_px
        self._order = order
        self._media = media

    def make(self, record: _Record) -> Scene:
        """Read and join the photos of a scene, and read its sounds."""
        return record.scene(self._frame_px, self._order, self._media)

    @property
    def names(self) -> tuple[str, ...]:
        """What the scenes are called."""
        return tuple(record.name for record in self.records)

    def truths(self) -> RealDuetScenes:
        """The same scenes with black pictures and silence, which takes a fraction of the time."""
        return RealDuetScenes(self.records, self._frame_px, self._order, media=False)

    def mask_kinds(self, index: int) -> tuple[str, ...]:
        """Who made each sounding object's mask, in the order of `Scene.masks`: `human` or `derived`."""
        record = self.records[index]
        return tuple(kind for kind, audio in zip(record.mask_kinds, record.audios, strict=True) if audio)

    def seen_kinds(self, index: int) -> frozenset[str]:
        """Classes of all photos of a scene, sounding or silent."""
        return frozenset(self.records[index].classes)


@dataclass(frozen=True)
class _Record:
    """A line of a list of scenes, from left to right; an audio of None is a silent frame."""

    name: str
    photos: list[Path]
    masks: list[Path]
    mask_kinds: list[str]
    classes: list[str]
    audios: list[Path | None]

    @classmethod
    def of(cls, row: Row, photos: dict[str, Row]) -> _Record:
        images, classes, audios = (row[column].split("|") for column in ("images", "classes", "audios"))
        if not len(images) == len(classes) == len(audios) or not any(audios):
            raise DataError(
                f"{row.place}: {len(images)} images, {len(classes)} classes and {sum(map(bool, audios))} sounds in "
                f"{len(audios)} places.",
                "Correct that line: each image needs a class and a place for its sound, and one must sound.",
            )
        for image in images:
            if image not in photos or not photos[image]["mask"]:
                raise DataError(f"{row.place}: images.csv gives no mask for {image}.", "Copy the data set again.")
        return cls(
            row["id"],
            [row.file(image) for image in images],
            [photos[image].file(photos[image]["mask"]) for image in images],
            [photos[image]["mask_kind"] for image in images],
            classes,
            [row.file(audio) if audio else None for audio in audios],
        )

    def scene(self, frame_px: int, order: Order, media: bool) -> Scene:
        size = (frame_px, frame_px)
        empty = np.zeros(size, np.bool_)
        drawn = [MaskFile(path).mask(size) for path in self.masks]
        black = np.zeros((*size, 3), np.uint8)
        frames = [_read_frame(photo, frame_px) if media else black for photo in self.photos]
        masks = np.stack(
            [
                _put_together([mask if place == own else empty for place in range(len(drawn))], order)
                for own, mask in enumerate(drawn)
            ]
        )
        sounding = np.array([audio is not None for audio in self.audios])
        return Scene(
            name=self.name,
            image=_put_together(frames, order),
            sounds=np.stack([_read_sound(audio) for audio in self.audios if audio])
            if media
            else np.zeros((int(sounding.sum()), CLIP_SAMPLES), np.float32),
            masks=masks[sounding],
            kinds=tuple(kind for kind, sounds in zip(self.classes, sounding, strict=True) if sounds),
            silent_masks=masks[~sounding],
        )


def _put_together(frames: Sequence[NDArray[T]], order: Order) -> NDArray[T]:
    if order == "stacked":
        return join(frames, "stacked")
    row = join(frames, "side-by-side")
    return np.ascontiguousarray(row[:, ::-1]) if order == "mirrored" else row


# A photo and a recording belong to several scenes, and controls ask for every scene more than once.


def _read_frame(path: Path, frame_px: int) -> Image:
    key = ("photo", file_key(path, path.parent), str(path), frame_px)
    return MEMORY.get(key, lambda: resize(read_image(path), (frame_px, frame_px)))


def _read_sound(path: Path) -> Waveform:
    key = ("sound", file_key(path, path.parent), str(path))
    return MEMORY.get(key, lambda: centre_clip(scale_to_rms(read_audio(path))))


def _seconds(row: Row) -> float:
    try:
        return float(row["seconds"])
    except ValueError as error:
        raise DataError(
            f"{row.place}: {row['seconds']!r} is no length in seconds.", "Copy the data set again."
        ) from error
