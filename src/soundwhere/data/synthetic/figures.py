"""The made-up world's shapes and textures: one figure for each kind of object.

A figure is drawn in its own coordinates, within the circle of radius 1 around (0, 0), x to the right and y downwards.
It is known by its outline and by the texture of its `MAIN` parts; colours are chosen elsewhere and tell nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray
    from PIL.ImageDraw import ImageDraw

    Array = NDArray[np.floating]

# What a pixel of a figure is made of. MAIN is plain or, where the texture says so, SECOND.
NOTHING, MAIN, SECOND, ACCENT, INK, LIGHT, PLAIN = range(7)

_CIRCLE = np.array([(np.cos(angle), np.sin(angle)) for angle in np.linspace(0, 2 * np.pi, 33)])


class Pen:
    """Draws in a figure's own coordinates onto an image of materials."""

    def __init__(self, draw: ImageDraw, matrix: Array, centre: Array) -> None:
        self._draw = draw
        self._matrix = matrix
        self._centre = centre
        self._scale = float(np.hypot(*matrix[:, 1]))

    def _place(self, points: Array) -> list[float]:
        return (points @ self._matrix.T + self._centre).ravel().tolist()

    def polygon(self, material: int, *points: tuple[float, float]) -> None:
        """Fill the polygon through these points."""
        self._draw.polygon(self._place(np.array(points)), fill=material)

    def ellipse(self, material: int, x: float, y: float, rx: float, ry: float, tilt: float = 0.0) -> None:
        """Fill an ellipse with half-axes `rx` and `ry`, turned by `tilt` radians."""
        points = _CIRCLE * (rx, ry)
        if tilt:
            points = points @ np.array([[np.cos(tilt), np.sin(tilt)], [-np.sin(tilt), np.cos(tilt)]])
        self._draw.polygon(self._place(points + np.array([x, y])), fill=material)

    def chord(self, material: int, x: float, y: float, rx: float, ry: float, start: float, stop: float) -> None:
        """Fill the part of an ellipse between two angles in turns, clockwise from the right."""
        self._draw.polygon(self._place(_arc(x, y, rx, ry, start, stop)), fill=material)

    def line(self, material: int, width: float, *points: tuple[float, float]) -> None:
        """Draw a line through these points."""
        self._line(material, width, np.array(points))

    def arc(
        self, material: int, width: float, x: float, y: float, rx: float, ry: float, start: float, stop: float
    ) -> None:
        """Draw a part of the edge of an ellipse, between two angles in turns."""
        self._line(material, width, _arc(x, y, rx, ry, start, stop))

    def _line(self, material: int, width: float, points: Array) -> None:
        thickness = max(1, round(width * self._scale))
        self._draw.line(self._place(points), fill=material, width=thickness, joint="curve")


def _arc(x: float, y: float, rx: float, ry: float, start: float, stop: float) -> Array:
    """Points on the edge of an ellipse between two angles in turns, shape (21, 2)."""
    angles = 2 * np.pi * np.linspace(start, stop, 21)
    return np.column_stack([x + rx * np.cos(angles), y + ry * np.sin(angles)])


def _guitar(pen: Pen, rng: Generator) -> None:
    wide, waist = rng.uniform(0.42, 0.54), rng.uniform(0.3, 0.38)
    pen.polygon(ACCENT, (-0.08, -0.85), (0.08, -0.85), (0.08, 0.3), (-0.08, 0.3))
    pen.polygon(INK, (-0.14, -0.99), (0.14, -0.99), (0.11, -0.72), (-0.11, -0.72))
    pen.ellipse(MAIN, 0, 0.08, waist, 0.28)
    pen.ellipse(MAIN, 0, 0.55, wide, 0.42)
    pen.polygon(ACCENT, (-0.08, -0.3), (0.08, -0.3), (0.08, 0.15), (-0.08, 0.15))
    pen.ellipse(INK, 0, 0.28, 0.16, 0.16)
    pen.polygon(INK, (-0.2, 0.66), (0.2, 0.66), (0.2, 0.74), (-0.2, 0.74))
    for x in (-0.04, 0.04):
        pen.line(LIGHT, 0.03, (x, -0.75), (x, 0.68))


def _bell(pen: Pen, rng: Generator) -> None:
    flare, neck = rng.uniform(0.72, 0.85), rng.uniform(0.34, 0.46)
    pen.ellipse(ACCENT, 0, 0.74, 0.2, 0.2)
    pen.ellipse(INK, 0, -0.84, 0.16, 0.15)
    pen.ellipse(MAIN, 0, -0.38, neck, 0.4)
    pen.polygon(
        MAIN, (-neck, -0.4), (neck, -0.4), (neck + 0.06, 0.1), (flare, 0.62), (-flare, 0.62), (-neck - 0.06, 0.1)
    )
    pen.ellipse(SECOND, 0, 0.62, flare, 0.13)
    pen.arc(LIGHT, 0.07, 0, -0.3, neck - 0.1, 0.3, 0.52, 0.7)


def _drum(pen: Pen, rng: Generator) -> None:
    wide, top = rng.uniform(0.74, 0.84), rng.uniform(0.22, 0.3)
    pen.line(ACCENT, 0.09, (-0.8, -0.6), (-0.1, -0.3))
    pen.line(ACCENT, 0.09, (0.8, -0.6), (0.1, -0.3))
    pen.ellipse(MAIN, 0, 0.52, wide, top)
    pen.polygon(MAIN, (-wide, -0.2), (wide, -0.2), (wide, 0.52), (-wide, 0.52))
    pen.arc(INK, 0.08, 0, 0.5, wide, top, 0.0, 0.5)
    pen.ellipse(INK, 0, -0.2, wide, top)
    pen.ellipse(LIGHT, 0, -0.2, wide - 0.1, top - 0.07)
    pen.line(ACCENT, 0.09, (-0.8, -0.6), (-0.15, -0.26))
    pen.line(ACCENT, 0.09, (0.8, -0.6), (0.15, -0.26))


def _siren(pen: Pen, rng: Generator) -> None:
    wide, tall = rng.uniform(0.44, 0.54), rng.uniform(0.75, 0.9)
    for turn in (0.55, 0.65, 0.75, 0.85, 0.95):
        x, y = np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)
        pen.line(ACCENT, 0.11, (0.74 * x, 0.1 + 0.85 * y), (0.97 * x, 0.1 + 1.08 * y))
    pen.chord(MAIN, 0, 0.45, wide, tall, 0.5, 1.0)
    pen.polygon(INK, (-0.62, 0.42), (0.62, 0.42), (0.62, 0.58), (-0.62, 0.58))
    pen.polygon(SECOND, (-0.72, 0.58), (0.72, 0.58), (0.62, 0.78), (-0.62, 0.78))
    pen.ellipse(LIGHT, -0.18, 0.0, 0.09, 0.2, 0.35)


def _car(pen: Pen, rng: Generator) -> None:
    roof, nose = rng.uniform(-0.5, -0.38), rng.uniform(0.5, 0.62)
    pen.polygon(PLAIN, (-0.6, -0.02), (-0.38, roof), (0.3, roof), (nose, -0.02))
    pen.polygon(LIGHT, (-0.46, -0.04), (-0.31, roof + 0.09), (-0.06, roof + 0.09), (-0.06, -0.04))
    pen.polygon(LIGHT, (0.04, -0.04), (0.04, roof + 0.09), (0.25, roof + 0.09), (nose - 0.13, -0.04))
    pen.polygon(MAIN, (-0.95, -0.02), (0.85, -0.02), (0.96, 0.15), (0.96, 0.38), (-0.95, 0.38))
    pen.polygon(ACCENT, (0.84, 0.06), (0.97, 0.06), (0.97, 0.2), (0.84, 0.2))
    for x in (-0.52, 0.52):
        pen.ellipse(INK, x, 0.4, 0.25, 0.25)
        pen.ellipse(LIGHT, x, 0.4, 0.11, 0.11)


def _bird(pen: Pen, rng: Generator) -> None:
    body, wing = rng.uniform(0.36, 0.44), rng.uniform(-0.35, 0.1)
    pen.line(INK, 0.06, (-0.05, 0.4), (-0.08, 0.85), (0.1, 0.85))
    pen.line(INK, 0.06, (0.15, 0.4), (0.12, 0.85), (0.3, 0.85))
    pen.polygon(SECOND, (-0.4, -0.05), (-0.98, -0.2), (-0.92, 0.12), (-0.72, 0.3), (-0.35, 0.35))
    pen.ellipse(MAIN, 0, 0.12, 0.56, body, -0.2)
    pen.polygon(ACCENT, (0.72, -0.5), (0.99, -0.32), (0.7, -0.24))
    pen.ellipse(PLAIN, 0.5, -0.38, 0.3, 0.29)
    pen.ellipse(LIGHT, 0.57, -0.44, 0.12, 0.12)
    pen.ellipse(INK, 0.59, -0.44, 0.065, 0.065)
    pen.polygon(ACCENT, (0.12, 0.0), (-0.2, -0.06), (-0.6, wing), (-0.32, 0.22), (-0.05, 0.2))


def _kettle(pen: Pen, rng: Generator) -> None:
    belly, spout = rng.uniform(0.54, 0.62), rng.uniform(-0.3, -0.15)
    pen.arc(INK, 0.11, 0, -0.3, 0.46, 0.58, 0.5, 1.0)
    pen.polygon(
        SECOND, (0.35, 0.38), (0.4, 0.05), (0.72, spout), (0.98, spout - 0.05), (0.88, spout + 0.14), (0.6, 0.45)
    )
    pen.ellipse(MAIN, -0.05, 0.32, belly, 0.5)
    pen.polygon(INK, (-0.5, 0.74), (0.4, 0.74), (0.36, 0.86), (-0.46, 0.86))
    pen.ellipse(ACCENT, -0.05, -0.14, 0.3, 0.11)
    pen.ellipse(INK, -0.05, -0.27, 0.09, 0.09)
    pen.arc(LIGHT, 0.08, -0.05, 0.32, belly - 0.15, 0.34, 0.55, 0.68)


def _face(pen: Pen, rng: Generator) -> None:
    jaw, mouth = rng.uniform(0.58, 0.66), rng.uniform(0.1, 0.2)
    pen.ellipse(PLAIN, -jaw, 0.12, 0.13, 0.18)
    pen.ellipse(PLAIN, jaw, 0.12, 0.13, 0.18)
    pen.ellipse(MAIN, 0, -0.1, jaw + 0.08, 0.84)
    pen.polygon(MAIN, (-jaw - 0.08, -0.1), (-jaw + 0.1, -0.1), (-jaw + 0.1, 0.45), (-jaw - 0.05, 0.45))
    pen.polygon(MAIN, (jaw + 0.08, -0.1), (jaw - 0.1, -0.1), (jaw - 0.1, 0.45), (jaw + 0.05, 0.45))
    pen.ellipse(LIGHT, 0, 0.2, jaw - 0.04, 0.72)
    pen.chord(MAIN, 0, -0.18, jaw, 0.6, 0.5, 1.0)
    for x in (-0.24, 0.24):
        pen.ellipse(INK, x, 0.06, 0.085, 0.11)
    pen.line(SECOND, 0.06, (0.0, 0.12), (0.05, 0.32), (-0.04, 0.32))
    pen.ellipse(INK, 0, 0.58, 0.24, mouth)
    pen.ellipse(ACCENT, 0, 0.62, 0.15, mouth * 0.5)


def _clock(pen: Pen, rng: Generator) -> None:
    rim, hour, minute = rng.uniform(0.62, 0.7), rng.uniform(0, 2 * np.pi), rng.uniform(0, 2 * np.pi)
    for x in (-0.5, 0.5):
        pen.ellipse(ACCENT, x, -0.66, 0.26, 0.22, x)
        pen.line(INK, 0.13, (0.9 * x, 0.6), (1.15 * x, 0.86))
    pen.ellipse(MAIN, 0, 0.06, 0.83, 0.83)
    pen.ellipse(LIGHT, 0, 0.06, rim, rim)
    for turn in np.arange(0, 2 * np.pi, np.pi / 6):
        x, y = np.cos(turn), np.sin(turn)
        pen.line(INK, 0.07, (0.8 * rim * x, 0.06 + 0.8 * rim * y), (0.94 * rim * x, 0.06 + 0.94 * rim * y))
    pen.line(INK, 0.1, (0, 0.06), (0.35 * np.cos(hour), 0.06 + 0.35 * np.sin(hour)))
    pen.line(INK, 0.07, (0, 0.06), (0.5 * np.cos(minute), 0.06 + 0.5 * np.sin(minute)))


def _trumpet(pen: Pen, rng: Generator) -> None:
    flare, drop = rng.uniform(0.5, 0.62), rng.uniform(0.42, 0.52)
    pen.arc(SECOND, 0.15, -0.1, 0.5 * drop, 0.45, 0.5 * drop, 0.0, 1.0)
    for x in (-0.3, -0.1, 0.1):
        pen.line(INK, 0.06, (x, -0.34), (x, 0.0))
        pen.polygon(ACCENT, (x - 0.08, -0.1), (x + 0.08, -0.1), (x + 0.08, drop + 0.1), (x - 0.08, drop + 0.1))
        pen.ellipse(LIGHT, x, -0.34, 0.09, 0.07)
    above = ((-0.85, -0.12), (0.15, -0.14), (0.45, -0.24), (0.68, -0.4), (0.8, -flare))
    pen.polygon(MAIN, *above, *((x, -y) for x, y in reversed(above)))
    pen.polygon(INK, (-1.0, -0.17), (-0.85, -0.1), (-0.85, 0.1), (-1.0, 0.17))
    pen.ellipse(SECOND, 0.8, 0, 0.12, flare)


def _cloud(pen: Pen, rng: Generator) -> None:
    lean, puff = rng.uniform(-0.12, 0.12), rng.uniform(0.36, 0.46)
    for x in np.linspace(-0.6, 0.5, 5):
        pen.line(ACCENT, 0.1, (x + 0.1, 0.34), (x - 0.03, 0.6 if x > 0.2 else 0.8))
    pen.ellipse(MAIN, -0.55, 0.02, 0.38, 0.34)
    pen.ellipse(MAIN, 0.58, 0.04, 0.36, 0.32)
    pen.ellipse(MAIN, lean - 0.15, -0.25, puff, puff)
    pen.ellipse(MAIN, lean + 0.25, -0.14, 0.36, 0.36)
    pen.polygon(MAIN, (-0.6, 0.0), (0.6, 0.0), (0.6, 0.36), (-0.55, 0.36))


def _phone(pen: Pen, rng: Generator) -> None:
    dial, wide = rng.uniform(0.27, 0.34), rng.uniform(0.58, 0.66)
    pen.polygon(MAIN, (-0.34, -0.3), (0.34, -0.3), (wide, 0.72), (-wide, 0.72))
    pen.polygon(INK, (-wide, 0.72), (wide, 0.72), (wide, 0.8), (-wide, 0.8))
    pen.ellipse(LIGHT, 0, 0.25, dial, dial)
    for turn in np.arange(0, 2 * np.pi, np.pi / 4):
        pen.ellipse(INK, 0.66 * dial * np.cos(turn), 0.25 + 0.66 * dial * np.sin(turn), 0.05, 0.05)
    pen.arc(SECOND, 0.24, 0, -0.28, 0.72, 0.4, 0.5, 1.0)
    for x in (-0.72, 0.72):
        pen.ellipse(SECOND, x, -0.22, 0.25, 0.2)


def _bee(pen: Pen, rng: Generator) -> None:
    fat, spread = rng.uniform(0.36, 0.44), rng.uniform(0.25, 0.6)
    pen.polygon(INK, (-0.7, 0.08), (-0.99, 0.2), (-0.7, 0.34))
    pen.ellipse(LIGHT, -0.2, -0.45, 0.24, 0.46, -spread)
    pen.ellipse(LIGHT, 0.18, -0.45, 0.22, 0.44, spread * 0.6)
    pen.line(INK, 0.05, (0.7, -0.05), (0.78, -0.4), (0.95, -0.48))
    pen.line(INK, 0.05, (0.62, -0.05), (0.6, -0.42), (0.7, -0.58))
    pen.ellipse(PLAIN, 0.62, 0.16, 0.28, 0.28)
    pen.ellipse(MAIN, -0.1, 0.2, 0.64, fat)
    pen.ellipse(INK, 0.7, 0.1, 0.08, 0.1)


def _frog(pen: Pen, rng: Generator) -> None:
    eye, wide = rng.uniform(0.2, 0.26), rng.uniform(0.62, 0.72)
    for side in (-1, 1):
        pen.ellipse(SECOND, 0.52 * side, 0.55, 0.3, 0.2, 0.5 * side)
        pen.ellipse(PLAIN, 0.4 * side, -0.55, eye + 0.06, eye + 0.06)
    pen.ellipse(MAIN, 0, 0.15, wide, 0.68)
    for side in (-1, 1):
        pen.ellipse(LIGHT, 0.4 * side, -0.58, eye, eye)
        pen.ellipse(INK, 0.4 * side, -0.58, 0.09, 0.13)
    pen.chord(INK, 0, 0.0, 0.52, 0.3, 0.0, 0.5)
    pen.chord(ACCENT, 0, 0.03, 0.42, 0.18, 0.0, 0.5)


def _scallops(u: Array, v: Array) -> Array:
    row = np.floor(6 * v)
    texture: Array = 0.5 - np.hypot((4 * u + 0.5 * row) % 1 - 0.5, 6 * v - row - 0.1)
    return texture


FIGURES: dict[str, tuple[Callable[[Pen, Generator], None], Callable[[Array, Array], Array]]] = {
    "guitar": (_guitar, lambda u, v: np.sin(34 * u + 2 * np.sin(4 * v)) - 0.2),
    "bell": (_bell, lambda u, v: np.sin(15 * v)),
    "drum": (_drum, lambda u, v: np.sin(14 * (v + 0.28 * np.abs((2.2 * u) % 2 - 1)))),
    "siren": (_siren, lambda u, v: np.sin(26 * np.sqrt(u * u + (v - 0.45) ** 2))),
    "car": (_car, lambda u, v: np.abs(v - 0.16) - 0.09),
    "bird": (_bird, _scallops),
    "kettle": (_kettle, lambda u, v: np.sin(17 * (u + v))),
    "face": (_face, lambda u, v: np.sin(30 * u + 3 * v) - 0.3),
    "clock": (_clock, lambda u, v: np.sin(16 * np.arctan2(v - 0.06, u))),
    "trumpet": (_trumpet, lambda u, v: np.maximum(np.sin(22 * u), np.sin(22 * v)) - 0.75),
    "cloud": (_cloud, lambda u, v: np.sin(17 * u + 5 * np.sin(9 * v)) + np.sin(19 * v + 4 * np.sin(11 * u)) - 0.7),
    "phone": (_phone, lambda u, v: np.sin(13 * u) * np.sin(13 * v)),
    "bee": (_bee, lambda u, v: np.sin(13 * u)),
    "frog": (_frog, lambda u, v: np.sin(11 * u) * np.sin(11 * v) - 0.3),
}
