"""Some scenes of a list, and scenes in which one source sounds alone, still made when asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from soundwhere.data.lazy import Lazy
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.types import Masks, Scene


@runtime_checkable
class KnowsMaskKinds(Protocol):
    """A list that tells who made each mask."""

    def mask_kinds(self, index: int) -> tuple[str, ...]:
        """One word per sounding object, in the order of `Scene.masks`."""


@runtime_checkable
class KnowsSeenKinds(Protocol):
    """A list that tells which classes are in a picture, without reading the picture."""

    def seen_kinds(self, index: int) -> frozenset[str]:
        """Classes of everything annotated, sounding or silent; empty if unknown."""


@runtime_checkable
class KnowsParts(Protocol):
    """A list whose scenes share parts, such as videos, so that they are not independent."""

    def made_of(self, index: int) -> tuple[str, ...]:
        """What a scene is made of."""


class Selected(Lazy[int, "Scene"]):
    """Scenes of a list by their numbers.

    Args:
        scenes: The list.
        numbers: Which of them, in the order wanted.
    """

    def __init__(self, scenes: Sequence[Scene], numbers: Sequence[int]) -> None:
        super().__init__(numbers)
        self._scenes = scenes

    def make(self, record: int) -> Scene:
        """The scene of a number."""
        return self._scenes[record]

    def made_of(self, index: int) -> tuple[str, ...]:
        """What a scene is made of; empty if the list does not tell."""
        return self._scenes.made_of(self.records[index]) if isinstance(self._scenes, KnowsParts) else ()

    def mask_kinds(self, index: int) -> tuple[str, ...]:
        """Who made each mask; empty if the list does not tell."""
        return self._scenes.mask_kinds(self.records[index]) if isinstance(self._scenes, KnowsMaskKinds) else ()

    def seen_kinds(self, index: int) -> frozenset[str]:
        """What is in the picture; empty if the list does not tell."""
        kinds = self._scenes.seen_kinds(self.records[index]) if isinstance(self._scenes, KnowsSeenKinds) else ()
        return frozenset(kinds)


class Solos(Selected):
    """Each scene with one of its sources sounding alone, in turn: the others are seen only.

    A map of the other frame is then plainly wrong, which on duets it never is.

    Args:
        scenes: The list; each scene has as many sounds as sources, at least two.
        numbers: Which of them.
    """

    def make(self, record: int) -> Scene:
        """The scene of a number, with one source alone."""
        scene = super().make(record)
        if not 2 <= len(scene.masks) == len(scene.sounds):
            raise DataError(
                f"The scene {scene.name} has {len(scene.masks)} sources and {len(scene.sounds)} separate sounds.",
                "Only scenes made of at least two separate clips can be scored as solos.",
            )
        one = record % len(scene.masks)
        silent: list[Masks] = [np.delete(scene.masks, one, axis=0)]
        silent += [] if scene.silent_masks is None else [scene.silent_masks]
        return replace(
            scene,
            sounds=scene.sounds[one : one + 1],
            masks=scene.masks[one : one + 1],
            kinds=scene.kinds[one : one + 1],
            silent_masks=np.concatenate(silent),
        )

    def mask_kinds(self, index: int) -> tuple[str, ...]:
        """Who made the mask of the one that sounds."""
        kinds = super().mask_kinds(index)
        return kinds[self.records[index] % len(kinds) :][:1] if kinds else ()
