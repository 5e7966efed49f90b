"""What the network says of one frame becomes an answer: sources keep their numbers, maps are calm, silence is dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soundwhere.inference.result import Answer
from soundwhere.inference.tracking import Smoother, Tracker

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from soundwhere.inference.settings import Settings

    Floats = NDArray[np.float32]


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
