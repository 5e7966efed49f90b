"""Short videos of the made-up world: things move about, and some of them start and stop sounding.

A thing looks the same whether it sounds or not; where a sound comes from can only be told by knowing the kinds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import pi
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import default_rng

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.synthetic.world import boxes
from soundwhere.errors import ConfigError
from soundwhere.files import write_json
from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.random import Generator
    from numpy.typing import NDArray

    from soundwhere.data.synthetic.objects import Thing
    from soundwhere.data.synthetic.world import World
    from soundwhere.types import Waveform

_FADE_S = 0.01
_MOVIE = 3  # stream of random numbers, beside those of `World`


@dataclass(frozen=True)
class ThingTruth:
    """One thing in a movie.

    Attributes:
        kind: What it is.
        sounding_s: When it sounds: (start, end) in seconds. Empty for a silent thing.
        boxes: For each frame left, top, right, bottom in pixels, right and bottom exclusive.
        areas: For each frame the number of its visible pixels.
    """

    kind: str
    sounding_s: tuple[tuple[float, float], ...]
    boxes: tuple[tuple[int, int, int, int], ...]
    areas: tuple[int, ...]


@dataclass(frozen=True)
class MovieTruth:
    """What is seen and heard in a movie. Frame i is shown from i / fps on."""

    video: str
    width: int
    height: int
    fps: int
    seconds: float
    things: tuple[ThingTruth, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    def write(self, path: Path) -> None:
        """Write as JSON."""
        write_json(path, self.to_dict())


def write_movie(
    path: Path, world: World, index: int, seconds: float = 6.0, fps: int = 25, sounding: int = 2, silent: int = 1
) -> MovieTruth:
    """Write movie `index` of a world as mp4, and its truth beside it as `<name>.truth.json`.

    Args:
        path: The video, ending in .mp4.
        world: Decides size and content. Its `seconds` do not matter here.
        index: Which movie, 0 or more; it begins with the picture of scene `index`.
        seconds: Length, rounded to whole frames; at least 2.
        fps: Frames per second.
        sounding: How many things sound at times.
        silent: How many never do.
    """
    if seconds < 2 or fps < 1:
        raise ConfigError(f"A movie of {seconds} s at {fps} fps cannot be made.", "Give at least 2 s and 1 fps.")
    frames = round(seconds * fps)
    world = replace(world, seconds=frames / fps)
    rng = default_rng([world.seed, _MOVIE, index])
    things = world.cast(index, sounding, silent)
    journey = _journey(rng, things, world.size, frames, fps)
    intervals = [_intervals(rng, frames, fps) for _ in range(sounding)]
    tracks = [
        world.sound(index, thing) * _gate(times, world.seconds)
        for thing, times in zip(things[:sounding], intervals, strict=True)
    ]
    mixture: Waveform = np.sum(tracks, axis=0, dtype=np.float32) if tracks else _gate((), world.seconds)
    mixture = mixture / max(1.0, float(np.abs(mixture).max()))

    height, width = world.size
    found = np.zeros((frames, len(things), 5), dtype=np.int64)
    with VideoWriter(path, width, height, fps, waveform=mixture) as video:
        for frame, moved in enumerate(journey):
            image, masks = world.picture(index, moved)
            found[frame, :, :4], found[frame, :, 4] = boxes(masks), masks.sum((1, 2))
            video.write(image)

    truth = MovieTruth(
        video=path.name,
        width=width,
        height=height,
        fps=fps,
        seconds=world.seconds,
        things=tuple(
            ThingTruth(
                kind=thing.kind,
                sounding_s=times,
                boxes=tuple((int(a), int(b), int(c), int(d)) for a, b, c, d, _ in seen),
                areas=tuple(int(area) for area in seen[:, 4]),
            )
            for thing, times, seen in zip(things, [*intervals, *[()] * silent], found.swapaxes(0, 1), strict=True)
        ),
    )
    truth.write(path.with_suffix(".truth.json"))
    return truth


def _intervals(rng: Generator, frames: int, fps: int) -> tuple[tuple[float, float], ...]:
    """When a thing sounds: from early to late in the movie, half of the time with a pause; at whole frames."""
    start, end = int(frames * rng.uniform(0, 0.25)), int(frames * rng.uniform(0.75, 1))
    pause, length = int(frames * rng.uniform(0.35, 0.5)), int(frames * rng.uniform(0.12, 0.2))
    if rng.random() < 0.5:
        return ((start / fps, end / fps),)
    return ((start / fps, pause / fps), ((pause + length) / fps, end / fps))


def _gate(intervals: tuple[tuple[float, float], ...], seconds: float) -> NDArray[np.float32]:
    """1 within the intervals, 0 outside, with short slopes inside, shape (N,)."""
    gate = np.zeros(round(seconds * SAMPLE_RATE_HZ), dtype=np.float32)
    slope = np.arange(1, round(_FADE_S * SAMPLE_RATE_HZ) + 1, dtype=np.float32) / (_FADE_S * SAMPLE_RATE_HZ)
    for start, end in intervals:
        part = gate[round(start * SAMPLE_RATE_HZ) : round(end * SAMPLE_RATE_HZ)]
        part[:] = 1
        part[: len(slope)] *= slope
        part[-len(slope) :] *= slope[::-1]
    return gate


def _journey(
    rng: Generator, things: tuple[Thing, ...], size: tuple[int, int], frames: int, fps: int
) -> list[tuple[Thing, ...]]:
    """The things in every frame: gentle curves that bounce off the edges and off each other, swaying a little."""
    count, (height, width) = len(things), size
    place = np.array([(thing.x, thing.y) for thing in things]).reshape(count, 2)
    radius = np.array([thing.radius for thing in things])
    heading = rng.uniform(0, 2 * pi, count)
    speed = min(size) / fps * rng.uniform(0.12, 0.3, count)
    velocity = speed[:, None] * np.stack([np.cos(heading), np.sin(heading)], axis=1)
    bend = rng.uniform(-0.4, 0.4, count) / fps  # radians a frame
    sway, phase, rate = rng.uniform(0.05, 0.25, count), rng.uniform(0, 2 * pi, count), rng.uniform(0.2, 0.5, count)
    low, high = radius[:, None], np.array([width, height]) - radius[:, None]
    journey = []
    for frame in range(frames):
        turn = sway * (np.sin(2 * pi * rate * frame / fps + phase) - np.sin(phase))
        journey.append(
            tuple(
                replace(thing, x=float(x), y=float(y), angle=thing.angle + float(angle))
                for thing, (x, y), angle in zip(things, place, turn, strict=True)
            )
        )
        along, aside = np.cos(bend)[:, None], np.sin(bend)[:, None] * [1, -1]
        velocity = along * velocity + aside * velocity[:, ::-1]
        velocity = np.where(place + velocity < low, np.abs(velocity), velocity)
        velocity = np.where(place + velocity > high, -np.abs(velocity), velocity)
        _bounce_apart(place, velocity, radius)
        place = np.clip(place + velocity, low, high)
    return journey


def _bounce_apart(place: NDArray[np.float64], velocity: NDArray[np.float64], radius: NDArray[np.float64]) -> None:
    """Change the velocities of things that are about to touch, as balls of equal weight do."""
    for first in range(len(place)):
        for second in range(first):
            gap = place[first] - place[second]
            normal = gap / np.hypot(*gap)
            closing = (velocity[first] - velocity[second]) @ normal
            if closing < 0 and np.hypot(*gap) + closing < radius[first] + radius[second] + 1:
                velocity[first] -= closing * normal
                velocity[second] += closing * normal
