"""A held-out list of made-up scenes, as the other data sets give theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, overload

if TYPE_CHECKING:
    from soundwhere.data.synthetic.world import Layout, World
    from soundwhere.types import Scene

# Worlds kept for scoring: choices are made on `val`, figures reported on `test`. Training seeds are small numbers.
SPLIT_SEEDS: Final = {"val": 1_000_001, "test": 1_000_002}


@dataclass(frozen=True)
class WorldScenes(Sequence["Scene"]):
    """The first scenes of a world, made when they are asked for.

    Attributes:
        world: Where they come from.
        length: How many.
        sounding: Sounding things per scene.
        silent: Silent things per scene.
        layout: Where things may be.
    """

    world: World
    length: int
    sounding: int = 2
    silent: int = 1
    layout: Layout = "free"

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Scene: ...
    @overload
    def __getitem__(self, index: slice) -> list[Scene]: ...
    def __getitem__(self, index: int | slice) -> Scene | list[Scene]:
        numbers = range(self.length)[index]
        if isinstance(numbers, range):
            return [self[number] for number in numbers]
        return self.world.scene(numbers, self.sounding, self.silent, layout=self.layout)

    def seen_kinds(self, index: int) -> frozenset[str]:
        """Kinds of all things of a scene, sounding or silent."""
        cast = self.world.cast(range(self.length)[index], self.sounding, self.silent, self.layout)
        return frozenset(thing.kind for thing in cast)
