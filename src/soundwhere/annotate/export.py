"""From a project to a set that can be published and scored on.

SET/masks/png/<clip>.png      0 and 255
SET/masks/npz/<clip>.npz      `mask`, uint8, 0 and 1
SET/masks/pkl/<clip>.pkl      the paper's form: a pickled uint8 array of the frame's size, 1 where it sounds
SET/masks/coco.json           every object, COCO run lengths
SET/vggss.json                the boxes, as annotators left them, in VGG-SS's form
SET/duets.csv                 pairs of clips: clip,class,clip,class
SET/card.json, README.md      counts, annotators, agreement, versions, licence, sha256 of every file
SET/frames/, audio/, scenes.csv   with the media only: what `evaluate --benchmark folder` reads
"""

from __future__ import annotations

import pickle
import shutil
import time
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from PIL import Image as Pillow

from soundwhere import __version__
from soundwhere.annotate.agreement import agreement, mask_of
from soundwhere.annotate.events import FINISHED
from soundwhere.data.annotation.records import read_headless
from soundwhere.data.annotation.rle import decode_rle, pack_counts
from soundwhere.data.benchmarks.pairs import Pair, random_pairs
from soundwhere.errors import DataError, OutputError
from soundwhere.files import atomic_path, make_folder, write_csv, write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.annotate.events import Work
    from soundwhere.annotate.project import Project
    from soundwhere.annotate.store import FrameRecord

CARD: Final = "card.json"
_LONGEST: Final = 240  # bytes of a name, so that every file system takes it with an ending
_PICKLE: Final = 4  # readable since Python 3.4; holds the bytes as they are


@dataclass(frozen=True)
class Annotated:
    """A frame, with the boxes that its annotators left it with, and its mask, shape (H, W), bool."""

    task: int
    frame: FrameRecord
    work: Work
    mask: NDArray[np.bool_]


def finished(project: Project, accepted_only: bool = False) -> list[Annotated]:
    """The frames whose first pass is done, with their masks; without those in which nothing was marked."""
    states = frozenset({"accepted"}) if accepted_only else FINISHED
    store = project.store
    found = []
    for task in store.tasks():
        if not task.second and task.state in states:
            frame, work = store.frame(task.frame), store.work(task.id)
            found.append(Annotated(task.id, frame.as_left(work), work, mask_of(work, frame.size)))
    return [item for item in found if item.mask.any()]


def export(
    project: Project,
    out: Path,
    *,
    accepted_only: bool = False,
    media: bool = False,
    pairs: Path | None = None,
    seed: int = 0,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Write a set; it appears whole or not at all.

    Args:
        project: What was annotated.
        out: The set's folder, which may not be there yet.
        accepted_only: Leave out what no second person accepted.
        media: Copy pictures and sounds too.
        pairs: A published list of pairs, of which those with two masks are kept; without, partners of another class
            are drawn at random.
        seed: Of the random pairs.
        tick: Told how many frames are done.

    Returns:
        The card.

    Raises:
        DataError: Nothing is done yet.
        OutputError: The folder is there already.
    """
    if out.exists():
        raise OutputError(f"{out} already exists.", "Choose another folder: sets are never overwritten.")
    items = finished(project, accepted_only)
    if not items:
        state = "accepted" if accepted_only else "done"
        raise DataError(f"No frame of {project.root} is {state}.", f"First run: soundwhere annotate {project.root}")
    with atomic_path(out) as folder:
        for done, item in enumerate(items, 1):
            _write_masks(folder / "masks", item)
            if media:
                _copy_media(project, folder, item.frame)
            tick(done, len(items))
        write_json(folder / "masks" / "coco.json", _coco(items))
        frames = [item.frame for item in items]
        boxes = [{"file": each.name, "class": each.kind, "bbox": each.boxes_norm} for each in frames]
        write_json(folder / "vggss.json", boxes)
        duets = _pairs({item.frame.name: item.frame.kind for item in items}, pairs, seed)
        write_csv(folder / "duets.csv", duets)
        if media:
            write_csv(folder / "scenes.csv", [["id", "image", "sounds", "masks", "kinds"], *map(_scene, items)])
        if project.settings.licence:
            write_text(folder / "LICENCE.txt", project.settings.licence.rstrip() + "\n")
        card = _card(project, items, len(duets), accepted_only)
        card["files"] = {
            path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        write_json(folder / CARD, card)
        write_text(folder / "README.md", _readme(card))
    return card


def _write_masks(folder: Path, item: Annotated) -> None:
    values = item.mask.astype(np.uint8)
    name = safe_name(item.frame.name)
    for kind in ("png", "npz", "pkl"):
        make_folder(folder / kind)
    Pillow.fromarray(values * 255).save(folder / "png" / f"{name}.png", optimize=True)
    np.savez_compressed(folder / "npz" / f"{name}.npz", mask=values)
    (folder / "pkl" / f"{name}.pkl").write_bytes(pickle.dumps(np.ascontiguousarray(values), protocol=_PICKLE))


def safe_name(name: str) -> str:
    """A clip's name as a file's name, refused if it would lead elsewhere."""
    too_long = len(name.encode()) > _LONGEST
    if too_long or not name or name.startswith(".") or any(character in name for character in '/\\:*?"<>|\0\n'):
        raise DataError(f"The clip {name!r} cannot be a file's name.", "Rename it in the manifest and start again.")
    return name


def _copy_media(project: Project, folder: Path, frame: FrameRecord) -> None:
    picture, sound = project.picture_path(frame), project.sound_path(frame)
    name = safe_name(frame.name)
    shutil.copyfile(picture, make_folder(folder / "frames") / f"{name}{picture.suffix}")
    if sound is not None:
        shutil.copyfile(sound, make_folder(folder / "audio") / f"{name}.wav")


def _scene(item: Annotated) -> list[str]:
    frame = item.frame
    sound = f"audio/{frame.name}.wav" if frame.sound else ""
    suffix = frame.picture.rsplit(".", 1)[-1]
    return [frame.name, f"frames/{frame.name}.{suffix}", sound, f"masks/png/{frame.name}.png", frame.kind]


def _coco(items: Sequence[Annotated]) -> dict[str, Any]:
    kinds = {kind: number for number, kind in enumerate(sorted({item.frame.kind for item in items}), 1)}
    annotations: list[dict[str, Any]] = []
    for image, item in enumerate(items, 1):
        for part in item.work.objects:
            mask = decode_rle(part["mask"])
            rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image,
                    "category_id": kinds[item.frame.kind],
                    "segmentation": {"size": part["mask"]["size"], "counts": pack_counts(part["mask"]["counts"])},
                    "area": int(mask.sum()),
                    "bbox": [int(v) for v in (columns[0], rows[0], np.ptp(columns) + 1, np.ptp(rows) + 1)],
                    "iscrowd": 0,
                }
            )
    images = [
        {"id": number, "file_name": item.frame.name, "height": item.frame.size[0], "width": item.frame.size[1]}
        for number, item in enumerate(items, 1)
    ]
    categories = [{"id": number, "name": kind} for kind, number in kinds.items()]
    return {"images": images, "annotations": annotations, "categories": categories}


def _pairs(kinds: dict[str, str], published: Path | None, seed: int) -> list[list[str]]:
    if published is None:
        pairs = random_pairs(kinds, seed)
    else:
        rows = read_headless(published, ("file1", "class1", "file2", "class2"))
        pairs = [Pair(row["file1"], row["file2"]) for row in rows if row["file1"] in kinds and row["file2"] in kinds]

    def cell(clip: str) -> list[str]:
        return [clip, kinds[clip].replace(", ", "_").replace(" ", "_")]

    return [[*cell(pair.left), *cell(pair.right)] for pair in pairs]


def _card(project: Project, items: Sequence[Annotated], duets: int, accepted_only: bool) -> dict[str, Any]:
    events = [event for item in items for event in project.store.events(item.task)]
    agreed = agreement(project.store)
    return {
        "name": project.root.resolve().name,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "frames": len(items),
        "objects": sum(len(item.work.objects) for item in items),
        "boxes_changed": sum(item.work.boxes is not None for item in items),
        "duets": duets,
        "accepted_only": accepted_only,
        "states": project.store.progress()["states"],
        "classes": dict(sorted(Counter(item.frame.kind for item in items).items())),
        "annotators": dict(sorted(Counter(item.work.annotators[0] for item in items).items())),
        "reviewers": dict(sorted(Counter(item.work.reviewer for item in items if item.work.reviewer).items())),
        "agreement": {key: value for key, value in agreed.items() if key not in ("each", "people")},
        "guidelines": project.settings.guidelines,
        "manifest": {"name": project.settings.manifest, "sha256": project.settings.manifest_sha256},
        "versions": {
            "soundwhere": sorted({__version__, *(event.version for event in events)}),
            "segmenters": sorted({event.segmenter for event in events if event.segmenter}),
        },
        "licence": project.settings.licence,
        "sizes": {item.frame.name: list(item.frame.size) for item in items},
    }


def _readme(card: dict[str, Any]) -> str:
    agreed = card["agreement"]
    lines = [
        f"# {card['name']}",
        "",
        f"Masks of what sounds: {card['frames']} frames, {card['objects']} objects, {len(card['classes'])} classes.",
        f"{card['duets']} duets. Written {card['created']}.",
        "",
        "| | |",
        "|---|---|",
        *(f"| annotated by {name} | {count} frames |" for name, count in card["annotators"].items()),
        *(f"| reviewed by {name} | {count} frames |" for name, count in card["reviewers"].items()),
        f"| doubly annotated | {agreed['frames']} frames"
        + (f", mask IoU {agreed['mean']:.3f} (median {agreed['median']:.3f}) |" if agreed["frames"] else " |"),
        f"| guidelines | {card['guidelines']} |",
        f"| made from | {card['manifest']['name']}, sha256 {card['manifest']['sha256'][:16]} |",
        f"| soundwhere | {', '.join(card['versions']['soundwhere'])} |",
        f"| segmenter | {', '.join(card['versions']['segmenters'])} |",
        "",
        "Masks are in `masks/` as PNG (0, 255), npz (`mask`), pickled uint8 arrays (0, 1) and COCO run lengths; all",
        "agree. `card.json` has the sha256 of every file; `soundwhere benchmark verify` checks them.",
        "",
        "## Licence",
        "",
        card["licence"] or "None was given.",
        "",
        "## Classes",
        "",
        "| class | frames |",
        "|---|---|",
        *(f"| {kind} | {count} |" for kind, count in card["classes"].items()),
    ]
    return "\n".join(lines) + "\n"
