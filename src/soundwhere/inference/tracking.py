"""What the network says of one frame becomes an answer: sources keep their numbers, maps are calm, silence is dark.

The maps of neighbouring frames are matched, so that source 1 stays the same thing.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from soundwhere.inference.result import Answer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.inference.settings import Settings

    Floats = NDArray[np.float32]

MEMORY_S = 2.0  # time constant of what a source is remembered by
SMOOTHING_S = 0.25  # time constant of the maps that are shown


class Follower:
    """Follows the sources of one clip, or of one camera, from frame to frame.

    Args:
        settings: What counts as sounding, and whether maps are smoothed.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tracker, self._smoother = Tracker(), Smoother()

    def follow(
        self,
        time_s: float,
        maps: Floats,
        confidence: Floats,
        embeddings: Floats,
        level_db: float,
        size: tuple[int, int],
    ) -> Answer:
        """The answer for the next frame.

        Args:
            time_s: Its time, later than the last one.
            maps: Shape (K, h, w), in [0, 1].
            confidence: Shape (K,), in [0, 1].
            embeddings: Shape (K, D).
            level_db: Level of the sound around it.
            size: Its height and width in pixels.
        """
        settings = self._settings
        audible = level_db >= settings.least_level_db
        order = self._tracker.order(time_s, maps, embeddings, audible & (confidence >= settings.least_confidence))
        shown, surety = maps[order], confidence[order]
        if not audible:
            self.pause()
        elif settings.smooth:
            shown, surety = self._smoother.smooth(time_s, shown, surety)
        sounding = audible & (surety >= settings.least_confidence)
        return Answer(time_s, shown, surety, sounding, level_db, size)

    def pause(self) -> None:
        """Nothing is heard: what comes after is not averaged with what was before."""
        self._smoother.forget()


class Tracker:
    """Follows K sources from frame to frame, in constant memory.

    Each source is remembered by running averages of its map (less the map's mean, so that only its shape counts) and of
    its audio embedding; the maps of a new frame are given to the sources so that the sum of both cosines is largest.
    """

    def __init__(self) -> None:
        self._maps: Floats | None = None
        self._embeddings: Floats | None = None
        self._time_s = 0.0

    def order(self, time_s: float, maps: Floats, embeddings: Floats, sure: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Say which map of this frame belongs to which source, and remember it.

        Args:
            time_s: Time of the frame, later than the last one.
            maps: Shape (K, h, w).
            embeddings: Shape (K, D).
            sure: Which maps show something, shape (K,); the others change no memory.

        Returns:
            For each source the number of its map, shape (K,).
        """
        flat = maps.reshape(len(maps), -1)
        flat = flat - flat.mean(1, keepdims=True)
        if self._maps is None or self._embeddings is None:
            if sure.any():  # before that there is nothing to remember
                self._maps, self._embeddings, self._time_s = flat.copy(), embeddings.copy(), time_s
            return np.arange(len(maps))
        likeness = _cosine(self._maps, flat) + _cosine(self._embeddings, embeddings)
        order = best_order(likeness)
        share = np.float32(weight(time_s - self._time_s, MEMORY_S)) * sure[order, None]
        self._maps = self._maps + share * (flat[order] - self._maps)
        self._embeddings = self._embeddings + share * (embeddings[order] - self._embeddings)
        self._time_s = time_s
        return order


def best_order(likeness: Floats) -> NDArray[np.intp]:
    """For each row of (K, K) its column, each once, so that their sum is largest; on ties the earliest order.

    All orders are tried, 5040 for the seven sources there may be: scipy, which knows better, takes as long to import as
    a minute of video to follow.
    """
    orders = _orders(len(likeness))
    best: NDArray[np.intp] = orders[likeness[np.arange(len(likeness)), orders].sum(1).argmax()]
    return best


@cache
def _orders(count: int) -> NDArray[np.intp]:
    return np.array(list(permutations(range(count))), np.intp)


class Smoother:
    """An exponential average over time that starts afresh after silence."""

    def __init__(self) -> None:
        self._last: tuple[Floats, ...] | None = None
        self._time_s = 0.0

    def smooth(self, time_s: float, *values: Floats) -> tuple[Floats, ...]:
        """The averages of these values and those before, each of the same shape."""
        if self._last is not None:
            share = np.float32(weight(time_s - self._time_s, SMOOTHING_S))
            values = tuple(last + share * (new - last) for last, new in zip(self._last, values, strict=True))
        self._last, self._time_s = values, time_s
        return values

    def forget(self) -> None:
        """Start afresh with the next values."""
        self._last = None


def weight(step_s: float, constant_s: float) -> float:
    """Weight of a new value in an exponential average after a step, so that the frame rate does not matter."""
    return 1 - math.exp(-step_s / constant_s)


def _cosine(first: Floats, second: Floats) -> Floats:
    """Cosine of every row of (K, n) with every row of (K, n), shape (K, K); 0 for a row of zeros."""
    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)[None]
    cosine: Floats = first @ second.T / np.maximum(lengths, 1e-12)
    return cosine
