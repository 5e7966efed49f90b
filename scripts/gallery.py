"""Write the pictures of docs/gallery.md: made-up scenes, the sounding things outlined, and what the model says of them.

    python scripts/gallery.py docs/images/gallery

Scene i of the world is a pure function of the seed and i, and none is picked: the first six are shown, right or wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from soundwhere.data.synthetic.world import World
from soundwhere.inference.geometry import finer, upsample
from soundwhere.inference.localiser import Localiser
from soundwhere.inference.player import warm
from soundwhere.media.draw import contact_sheet, outline, overlay

MODEL = "scav-mobile"  # knows the made-up world
SEED = 7  # no split's
SCENES = 6
SIZE = (288, 384)


def main(folder: Path) -> None:
    """Draw every scene."""
    folder.mkdir(parents=True, exist_ok=True)
    localiser, world = Localiser(MODEL, "cpu"), World(SEED, SIZE)
    for number in range(SCENES):
        scene = world.scene(number, sounding=2, silent=1)
        maps, confidence, _ = localiser.look(scene.image, np.resize(scene.mixture, 66_150))
        truth = scene.image
        for mask in scene.masks:
            truth = outline(truth, mask)
        heat = upsample(warm(maps), finer(maps.shape[1:]), smooth=True)
        words = " and ".join(scene.kinds), "confidence " + ", ".join(f"{sure:.2f}" for sure in confidence)
        sheet = contact_sheet([[truth, overlay(scene.image, heat)]], [list(words)])
        Image.fromarray(sheet).save(folder / f"scene-{number + 1}.jpg", quality=85)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
