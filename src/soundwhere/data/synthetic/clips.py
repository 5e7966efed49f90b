"""Things of the made-up world as single-source clips, to train on together with clips of the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from soundwhere.data.memory import MEMORY

if TYPE_CHECKING:
    from soundwhere.data.synthetic.world import World
    from soundwhere.types import Image, Waveform


class WorldClips:
    """The first `count` scenes of a world with one thing each, which sounds."""

    def __init__(self, world: World, count: int) -> None:
        self._world = world
        self._count = count

    def __len__(self) -> int:
        return self._count

    def key(self, index: int) -> str:
        """See `ClipSource`."""
        return f"{self._world}|{index}"

    def image(self, index: int) -> Image:
        """See `ClipSource`."""
        return self._world.picture(index, self._world.cast(index, 1, 0))[0]

    def sound(self, index: int, rng: np.random.Generator | None = None) -> Waveform:
        """See `ClipSource`; a random part begins anywhere and goes round."""
        (thing,) = self._world.cast(index, 1, 0)
        sound = MEMORY.get(
            ("made-up", self.key(index)), lambda: self._world.sound(index, thing).astype(np.float16)
        ).astype(np.float32)
        return sound if rng is None else np.roll(sound, rng.integers(len(sound)))
