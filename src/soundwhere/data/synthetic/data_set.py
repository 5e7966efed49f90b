"""The made-up world as a data set in the layout of real-duet: photos of one thing with its sound, duets and trios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image as Pillow

from soundwhere.data.synthetic.files import claim
from soundwhere.data.synthetic.world import KINDS, World
from soundwhere.files import atomic_path, make_folder, write_csv
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SECONDS: Final = 5.0
"""Length of the sounds, of which scenes take the middle."""
LEAST: Final = 64
"""Fewer clips than this leave splits without enough kinds."""
_SPLITS: Final = ("train", "val", "test")
_LISTS: Final = {"duets": (2, 0), "trios": (2, 1)}  # how many sound, and how many are silent
_LIST: Final = 9  # of random numbers: the worlds of the splits have the seeds before it


@dataclass(frozen=True)
class Sizes:
    """How much of everything there is.

    Attributes:
        train: Clips to train on.
        val: Clips to choose by.
        test: Clips to report on.
        scenes: Duets, and as many trios, of val and of test each.
    """

    train: int
    val: int
    test: int
    scenes: int

    @classmethod
    def of(cls, clips: int, scenes: int) -> Sizes:
        """So many clips in all: five eighths to train on, a quarter to report on, the rest to choose by."""
        train, test = 5 * clips // 8, clips // 4
        return cls(train, clips - train - test, test, scenes)


def write_data_set(folder: Path, sizes: Sizes, seed: int = 0, tick: Callable[[int, int], None] | None = None) -> Path:
    """Write made-up photos, sounds, masks and lists where `soundwhere` reads those of real-duet.

    Splits share no picture and no sound. Files that are there already are kept, and the lists come last: after an
    interruption, run it again.

    Args:
        folder: Created if need be. It holds one such set only.
        sizes: How much there is of everything.
        seed: Decides everything.
        tick: Called with the number of clips done and that of all.

    Raises:
        OutputError: The folder holds another set, or cannot be written.
    """
    make_folder(folder)
    claim(folder / "world.json", {"seed": seed, "layout": "real-duet", **vars(sizes)})
    for part in ("images", "masks", "audio"):
        make_folder(folder / part)
    counts = {split: getattr(sizes, split) for split in _SPLITS}
    clips: dict[str, list[dict[str, str]]] = {}
    done = 0
    for number, (split, count) in enumerate(counts.items()):
        world = World(seed=10 * seed + number, seconds=SECONDS)
        clips[split] = []
        for index in range(count):
            clips[split].append(_write_clip(folder, world, index, split))
            done += 1
            if tick is not None:
                tick(done, sum(counts.values()))
    for place, split in enumerate(_SPLITS[1:]):
        for number, (name, (sounding, silent)) in enumerate(_LISTS.items()):
            rng = np.random.default_rng([10 * seed + _LIST, place, number])
            rows = [_scene(rng, clips[split], f"{name}_{index}", sounding, silent) for index in range(sizes.scenes)]
            write_csv(folder / f"{name}_{split}.csv", [rows[0], *(row.values() for row in rows)])
    everything = [clip for split in _SPLITS for clip in clips[split]]
    images = [[*everything[0], "mask_kind"], *([*clip.values(), "human"] for clip in everything)]
    write_csv(folder / "images.csv", images)
    columns = ("id", "split", "class", "image", "audio")
    write_csv(folder / "clips.csv", [columns, *([clip[column] for column in columns] for clip in everything)])
    return folder


def _write_clip(folder: Path, world: World, index: int, split: str) -> dict[str, str]:
    """Write one thing on its background, where it is, and how it sounds; return its line of the lists."""
    (thing,) = world.cast(index, 1, 0)
    name = f"{split}-{index:05d}"
    clip = {"id": name, "class": thing.kind, "split": split}
    clip |= {"image": f"images/{name}.png", "mask": f"masks/{name}.png", "audio": f"audio/{name}.wav"}
    if (folder / clip["audio"]).is_file():  # written last
        return clip
    image, masks = world.picture(index, (thing,))
    with atomic_path(folder / clip["image"]) as temporary:
        Pillow.fromarray(image).save(temporary, "PNG")
    with atomic_path(folder / clip["mask"]) as temporary:
        Pillow.fromarray(masks[0]).save(temporary, "PNG")
    write_wav(folder / clip["audio"], world.sound(index, thing))
    return clip


def _scene(
    rng: np.random.Generator, clips: Sequence[dict[str, str]], name: str, sounding: int, silent: int
) -> dict[str, str]:
    """A line of a list of scenes: clips of different kinds from left to right, an empty audio where one is silent."""
    by_kind = {kind: [clip for clip in clips if clip["class"] == kind] for kind in KINDS}
    there = [kind for kind, found in by_kind.items() if found]
    kinds = rng.permutation(len(there))[: sounding + silent]
    chosen = [by_kind[there[kind]][rng.integers(len(by_kind[there[kind]]))] for kind in kinds]
    heard = rng.permutation(len(chosen)) < sounding
    audios = [clip["audio"] if each else "" for clip, each in zip(chosen, heard, strict=True)]
    return {
        "id": name,
        "images": "|".join(clip["image"] for clip in chosen),
        "classes": "|".join(clip["class"] for clip in chosen),
        "audios": "|".join(audios),
    }
