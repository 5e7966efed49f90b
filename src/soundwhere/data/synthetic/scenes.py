"""A held-out list of made-up scenes, as the other data sets give theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from soundwhere.data.lazy import Lazy

if TYPE_CHECKING:
    from soundwhere.data.synthetic.world import Layout, World
    from soundwhere.types import Scene

# Worlds kept for scoring: choices are made on `val`, figures reported on `test`. Training seeds are small numbers.
SPLIT_SEEDS: Final = {"val": 1_000_001, "test": 1_000_002}


class WorldScenes(Lazy[int, "Scene"]):
    """The first scenes of a world, made when they are asked for.

    Args:
        world: Where they come from.
        length: How many.
        sounding: Sounding things per scene.
        silent: Silent things per scene.
        layout: Where things may be.
    """

    def __init__(self, world: World, length: int, sounding: int = 2, silent: int = 1, layout: Layout = "free") -> None:
        super().__init__(range(length))
        self.world, self._things, self._layout = world, (sounding, silent), layout

    def make(self, record: int) -> Scene:
        """The scene of a number."""
        return self.world.scene(record, *self._things, layout=self._layout)

    def seen_kinds(self, index: int) -> frozenset[str]:
        """Kinds of all things of a scene, sounding or silent."""
        cast = self.world.cast(self.records[index], *self._things, self._layout)
        return frozenset(thing.kind for thing in cast)
