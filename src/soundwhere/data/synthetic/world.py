"""Scenes of the made-up world: textured things at arbitrary places, some of which sound.

Scene i of a world is a pure function of (seed, i, arguments): the same seed and library versions give the same arrays,
in any order and in any process. Worlds with different seeds share the kinds of things but no picture and no sound, so a
held-out split is simply another seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import TYPE_CHECKING, Literal

import numpy as np

from soundwhere.constants import CLIP_S, FRAME_PX, MIXING_RMS, SAMPLE_RATE_HZ
from soundwhere.data.synthetic.backgrounds import random_background
from soundwhere.data.synthetic.figures import FIGURES
from soundwhere.data.synthetic.objects import Thing, paint, random_palette
from soundwhere.data.synthetic.sounds import synthesise
from soundwhere.errors import ConfigError
from soundwhere.types import Scene

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from soundwhere.types import Image, Masks

Layout = Literal["free", "side-by-side", "stacked"]

KINDS: tuple[str, ...] = tuple(FIGURES)
SMALLEST, LARGEST = 0.24, 0.46  # diameters of things, as a share of the picture's short side

# Independent streams of random numbers for the parts of one scene
_CAST, _BACKGROUND, _SOUND = range(3)


@dataclass(frozen=True)
class World:
    """An endless supply of scenes that needs no download.

    Attributes:
        seed: Decides everything; use another one for held-out scenes.
        size: Height and width of the pictures in pixels.
        seconds: Length of the sounds.
    """

    seed: int = 0
    size: tuple[int, int] = (FRAME_PX, FRAME_PX)
    seconds: float = CLIP_S

    def __post_init__(self) -> None:
        if self.seed < 0 or min(self.size) < 32 or self.seconds * SAMPLE_RATE_HZ < 1:
            raise ConfigError(
                f"A made-up world of seed {self.seed}, size {self.size}, {self.seconds} s cannot be made.",
                "The seed must be 0 or more, both sides at least 32 pixels, and the sounds at least one sample long.",
            )

    def scene(
        self, index: int, sounding: int = 2, silent: int = 1, gain_db: float = 0.0, layout: Layout = "free"
    ) -> Scene:
        """Make one scene.

        Args:
            index: Which scene, 0 or more.
            sounding: How many things sound.
            silent: How many further things are seen only. All things of a scene are of different kinds.
            gain_db: Each sound's level is `MIXING_RMS` times a gain drawn within plus or minus this.
            layout: Things anywhere (`free`), or one in each column (`side-by-side`) or row (`stacked`) of the picture.
        """
        things = self.cast(index, sounding, silent, layout)
        image, masks = self.picture(index, things)
        sounds = np.stack([self.sound(index, thing, gain_db) for thing in things[:sounding]] or [self._silence()])
        return Scene(
            name=f"made-up-{self.seed}-{index}",
            image=image,
            sounds=sounds[:sounding],
            masks=masks[:sounding],
            kinds=tuple(thing.kind for thing in things[:sounding]),
            silent_masks=masks[sounding:],
        )

    def cast(self, index: int, sounding: int, silent: int, layout: Layout = "free") -> tuple[Thing, ...]:
        """The things of a scene, the sounding ones first; in a layout these come from left to right or downwards."""
        count = sounding + silent
        if min(index, sounding, silent) < 0 or count > len(KINDS):
            raise ConfigError(
                f"Scene {index} with {sounding} sounding and {silent} silent things cannot be made.",
                f"Index and numbers must be 0 or more, with at most {len(KINDS)} things of different kinds in a scene.",
            )
        rng = self._rng(_CAST, index)
        palettes = [random_palette(rng) for _ in range(count)]
        kinds = rng.permutation(len(KINDS))[:count]
        cells = _cells(rng, self.size, sounding, silent, layout)
        places = _places(rng, cells, min(self.size))
        return tuple(
            Thing(
                kind=KINDS[kind],
                palette=palette,
                style=int(rng.integers(2**31)),
                x=float(x),
                y=float(y),
                radius=float(radius),
                angle=float(rng.uniform(-pi / 6, pi / 6)),
                mirrored=bool(rng.integers(2)),
            )
            for kind, palette, (x, y, radius) in zip(kinds, palettes, places, strict=True)
        )

    def picture(self, index: int, things: tuple[Thing, ...]) -> tuple[Image, Masks]:
        """Draw things on the background of scene `index`.

        Returns:
            The picture, shape (H, W, 3), uint8, and the visible pixels of each thing, shape (len(things), H, W), bool.
        """
        canvas = random_background(self._rng(_BACKGROUND, index), self.size)
        masks = np.zeros((len(things), *self.size), dtype=np.bool_)
        for number, thing in enumerate(things):
            masks[number] = paint(canvas, thing)
            masks[:number] &= ~masks[number]
        return np.array(canvas), masks

    def sound(self, index: int, thing: Thing, gain_db: float = 0.0) -> NDArray[np.float32]:
        """The sound of a thing in scene `index`, shape (N,), float32, at its level in the mixture."""
        rng = self._rng(_SOUND, index, KINDS.index(thing.kind))
        level = MIXING_RMS * 10 ** (rng.uniform(-gain_db, gain_db) / 20)
        return synthesise(thing.kind, rng, len(self._silence())) * np.float32(level)

    def _silence(self) -> NDArray[np.float32]:
        return np.zeros(round(self.seconds * SAMPLE_RATE_HZ), dtype=np.float32)

    def _rng(self, *stream: int) -> Generator:
        return np.random.default_rng([self.seed, *stream])


def boxes(masks: Masks) -> NDArray[np.int64]:
    """The tightest boxes around masks, shape (S, 4): left, top, right, bottom in pixels, right and bottom exclusive.

    An empty mask has the box (0, 0, 0, 0).

    >>> mask = np.zeros((1, 5, 8), dtype=np.bool_)
    >>> mask[0, 1:3, 4:8] = True
    >>> boxes(mask)
    array([[4, 1, 8, 3]])
    """
    found = np.zeros((len(masks), 4), dtype=np.int64)
    for box, mask in zip(found, masks, strict=True):
        columns, rows = np.flatnonzero(mask.any(0)), np.flatnonzero(mask.any(1))
        if len(rows):
            box[:] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    return found


def _cells(
    rng: Generator, size: tuple[int, int], sounding: int, silent: int, layout: Layout
) -> list[tuple[float, float, float, float]]:
    """The part of the picture (left, top, right, bottom) each thing is confined to, in the order of the things."""
    (height, width), count = size, sounding + silent
    if layout == "free":
        return [(0, 0, width, height)] * count
    # Which slots stay silent is drawn, so that the place of a thing tells nothing about whether it sounds.
    slots = rng.permutation(count)
    slots[:sounding].sort()
    if layout == "side-by-side":
        return [(slot * width / count, 0, (slot + 1) * width / count, height) for slot in slots]
    return [(0, slot * height / count, width, (slot + 1) * height / count) for slot in slots]


def _places(
    rng: Generator, cells: list[tuple[float, float, float, float]], short: int
) -> list[tuple[float, float, float]]:
    """Centre and radius of each thing: anywhere in its cell, circles apart, smaller where it gets crowded."""
    radii = short * rng.uniform(SMALLEST, LARGEST, len(cells)) / 2
    while True:
        places: list[tuple[float, float, float]] = []
        for (left, top, right, bottom), drawn in zip(cells, radii, strict=True):
            radius = min(drawn, (right - left) / 2 - 1, (bottom - top) / 2 - 1)
            for _ in range(30):
                x, y = rng.uniform(left + radius, right - radius), rng.uniform(top + radius, bottom - radius)
                if all((x - a) ** 2 + (y - b) ** 2 > (radius + r + 2) ** 2 for a, b, r in places):
                    places.append((x, y, radius))
                    break
        if len(places) == len(cells):
            return places
        radii = 0.95 * radii
