"""Scenes of the made-up world as files: pictures, sounds, masks and a manifest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image as Pillow

from soundwhere.data.synthetic.world import boxes
from soundwhere.errors import OutputError, shown
from soundwhere.files import atomic_path, make_folder, parse_json, write_csv, write_json
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.synthetic.world import Layout, World
    from soundwhere.types import Masks, Scene

COLUMNS = ("id", "image", "audio", "sounds", "masks", "silent_masks", "kinds", "boxes")


def write_scenes(
    world: World,
    folder: Path,
    count: int,
    sounding: int = 2,
    silent: int = 1,
    gain_db: float = 0.0,
    layout: Layout = "free",
) -> Path:
    """Write scenes 0 to `count` - 1 of a world, one folder each, and list them in `scenes.csv`.

    A scene's folder appears complete or not at all, and one that is there already is kept: after an interruption, or to
    have more scenes, run it again. The manifest is written last.

    Columns of the manifest: `id`; `image`; `audio` (the mixture); `sounds`, `masks` and `kinds` of the sounding things
    and `silent_masks`, each separated by `|`; `boxes` of the sounding things as JSON, left, top, right, bottom in
    pixels, right and bottom exclusive. Paths are relative to `folder`.

    Args:
        world: Where the scenes come from.
        folder: Created if need be. It holds scenes of one world with one setting only.
        count: How many scenes.
        sounding: As in `World.scene`, like what follows.
        silent: Silent things.
        gain_db: Range of levels.
        layout: Where things may be.

    Returns:
        The manifest.

    Raises:
        ConfigError: There are no such scenes.
        OutputError: The folder holds other scenes, or cannot be written.
    """
    world.cast(0, sounding, silent, layout)  # complains before the folder is claimed
    make_folder(folder)
    setting = {
        "seed": world.seed,
        "size": list(world.size),
        "seconds": world.seconds,
        "sounding": sounding,
        "silent": silent,
        "gain_db": gain_db,
        "layout": layout,
    }
    claim(folder / "world.json", setting)
    rows = []
    for index in range(count):
        scene = world.scene(index, sounding, silent, gain_db, layout)
        if not (folder / scene.name).is_dir():
            _write_scene(folder / scene.name, scene)
        rows.append(_row(scene))
    write_csv(folder / "scenes.csv", [COLUMNS, *rows])
    return folder / "scenes.csv"


def claim(path: Path, setting: dict[str, object]) -> None:
    """Note in a folder what its scenes or movies are made of, or check that it is what is noted there.

    Args:
        path: The note, a JSON file in that folder.
        setting: What they are made of, as JSON values.

    Raises:
        OutputError: The folder holds others, or cannot be written.
    """
    try:
        found = parse_json(path.read_bytes())
    except FileNotFoundError:
        write_json(path, setting)
        return
    except (OSError, ValueError) as error:
        raise OutputError(f"{path} cannot be read: {error}.", "Remove that folder or choose another one.") from error
    if found != setting:
        raise OutputError(
            f"{path.parent} was made with other settings: {shown(found)} instead of {shown(setting)}.",
            "Remove that folder or choose another one.",
        )


def _write_scene(folder: Path, scene: Scene) -> None:
    # What is louder than a 16-bit file can hold is made softer as a whole, so that the sounds still add up.
    softer = np.float32(1 / max(1.0, float(np.abs([scene.mixture, *scene.sounds]).max())))
    with atomic_path(folder) as temporary:
        make_folder(temporary)
        Pillow.fromarray(scene.image).save(temporary / "image.png")
        write_wav(temporary / "mixture.wav", softer * scene.mixture)
        for number, (sound, mask) in enumerate(zip(scene.sounds, scene.masks, strict=True), 1):
            write_wav(temporary / f"sound-{number}.wav", softer * sound)
            Pillow.fromarray(mask).save(temporary / f"mask-{number}.png")
        for number, mask in enumerate(_silent(scene), 1):
            Pillow.fromarray(mask).save(temporary / f"silent-{number}.png")


def _row(scene: Scene) -> list[str]:
    return [
        scene.name,
        f"{scene.name}/image.png",
        f"{scene.name}/mixture.wav",
        _files(scene, "sound-{}.wav", len(scene.sounds)),
        _files(scene, "mask-{}.png", len(scene.masks)),
        _files(scene, "silent-{}.png", len(_silent(scene))),
        "|".join(scene.kinds),
        json.dumps(boxes(scene.masks).tolist()),
    ]


def _files(scene: Scene, pattern: str, count: int) -> str:
    return "|".join(f"{scene.name}/{pattern.format(number)}" for number in range(1, count + 1))


def _silent(scene: Scene) -> Masks:
    return scene.masks[:0] if scene.silent_masks is None else scene.silent_masks
