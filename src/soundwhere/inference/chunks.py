"""A clip cut into chunks for the network: a few frames, and the windows of sound around them, each picture once."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

import numpy as np

from soundwhere.inference.ahead import ahead, spread
from soundwhere.inference.footage import SoundWindows, level_db
from soundwhere.media.image import resize

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from numpy.typing import NDArray

    from soundwhere.inference.footage import Footage
    from soundwhere.media.shrink import Undeveloped
    from soundwhere.types import Image, Waveform

_AHEAD = 4  # frames that are decoded before they are asked for


@dataclass(frozen=True, eq=False)
class Chunk:
    """B frames that go through the network together.

    Attributes:
        times_s: When they are on display, B times.
        pictures: Their P different pictures, RGB, shape (P, H, W, 3), uint8.
        shown: Which picture each frame shows, B numbers below P.
        windows: Which window of sound lies around each frame, B numbers that count on from chunk to chunk.
        sounds: The windows that no chunk before this one had, by number, shape (66150,).
        levels_db: The level of each of those.
    """

    times_s: list[float]
    pictures: NDArray[np.uint8]
    shown: list[int]
    windows: list[int]
    sounds: dict[int, Waveform]
    levels_db: dict[int, float]


def chunks(
    footage: Footage,
    pictures: Generator[tuple[float, Undeveloped], None, None],
    hop_s: float,
    batch: int,
    size: tuple[int, int],
    workers: int = 1,
) -> Generator[Chunk, None, None]:
    """Read a clip chunk by chunk, in constant memory.

    Args:
        footage: The clip.
        pictures: Its frames that are looked at, and their times; read by a thread of its own.
        hop_s: Distance between windows of sound; a frame has the one whose middle is nearest.
        batch: Frames in a chunk; the first ones have fewer, so that the first answer comes soon, and so may the last.
        size: Height and width at which the network sees pictures.
        workers: Threads that shrink pictures, beside the one that decodes.
    """
    hearing = SoundWindows(footage.sound, footage.start_s - hop_s)
    latest, image = -1, None
    with (
        closing(ahead(pictures, _AHEAD)) as decoded,
        closing(spread(partial(_shrunk, size), _fresh(decoded), workers)) as frames,
    ):
        sizes = chain((1, 2, 4), repeat(batch))
        while part := list(islice(frames, min(next(sizes), batch))):
            different: list[Image] = []
            shown: list[int] = []
            for _, fresh in part:
                if fresh is not None or not different:
                    image = image if fresh is None else fresh
                    assert image is not None  # the first is fresh
                    different.append(image)
                shown.append(len(different) - 1)
            windows = [int(time_s / hop_s + 0.5) for time_s, _ in part]
            sounds = {number: hearing.at(number * hop_s) for number in sorted(set(windows)) if number > latest}
            latest = windows[-1]
            yield Chunk(
                times_s=[time_s for time_s, _ in part],
                pictures=np.stack(different),
                shown=shown,
                windows=windows,
                sounds=sounds,
                levels_db={number: level_db(sound) for number, sound in sounds.items()},
            )


def single(image: Image, sound: Waveform, size: tuple[int, int]) -> Chunk:
    """One picture (H, W, 3) and one window of sound (66150,) that came together, as a chunk."""
    return Chunk([0.0], resize(image, size)[None], [0], [0], {0: sound}, {0: level_db(sound)})


def _fresh(frames: Iterable[tuple[float, Undeveloped]]) -> Iterator[tuple[float, Undeveloped | None]]:
    """Frames without those pictures that were there before: a video may hold one, and a photo has one only."""
    last = None
    for time_s, picture in frames:
        yield time_s, None if picture is last else picture
        last = picture


def _shrunk(size: tuple[int, int], frame: tuple[float, Undeveloped | None]) -> tuple[float, Image | None]:
    time_s, picture = frame
    return time_s, None if picture is None else picture.at(size)
