"""Scenes changed so that an honest method must fail on them: another scene's sound or picture, or silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.types import Scene


class _Changed(Sequence["Scene"]):
    """Scenes with a change made to each when it is asked for."""

    def __init__(self, scenes: Sequence[Scene], change: Callable[[int], Scene]) -> None:
        self._scenes = scenes
        self._change = change

    def __len__(self) -> int:
        return len(self._scenes)

    @overload
    def __getitem__(self, index: int) -> Scene: ...
    @overload
    def __getitem__(self, index: slice) -> list[Scene]: ...
    def __getitem__(self, index: int | slice) -> Scene | list[Scene]:
        if isinstance(index, slice):
            return [self._change(number) for number in range(*index.indices(len(self)))]
        return self._change(range(len(self))[index])


def swap_sounds(scenes: Sequence[Scene]) -> Sequence[Scene]:
    """Each scene with the sounds of one half the list away: what a deaf method scores the same on."""
    return _Changed(scenes, lambda i: replace(scenes[i], sounds=scenes[_other(i, scenes)].sounds))


def silence(scenes: Sequence[Scene]) -> Sequence[Scene]:
    """Each scene with digital silence."""
    return _Changed(scenes, lambda i: replace(scenes[i], sounds=np.zeros_like(scenes[i].sounds)))


def swap_pictures(scenes: Sequence[Scene]) -> Sequence[Scene]:
    """Each scene's sounds and truth with the picture of another: what a blind method scores the same on.

    Pictures of another size would give the swap away, so the scenes must be of one size.
    """
    return _Changed(scenes, lambda i: replace(scenes[i], image=scenes[_other(i, scenes)].image))


def absent_partners(kinds: Sequence[frozenset[str]]) -> list[int | None]:
    """For each scene another one with no class in common, looked for from half the list away.

    Args:
        kinds: Classes seen in each scene, sounding or silent; empty if unknown.

    Returns:
        None where the classes are unknown or no scene fits.

    Example:
        >>> absent_partners([frozenset("ab"), frozenset("bc"), frozenset("cd"), frozenset()])
        [2, None, 0, None]
    """
    count = len(kinds)
    partners: list[int | None] = []
    for index, own in enumerate(kinds):
        others = ((index + max(1, count // 2) + step) % count for step in range(count))
        partners.append(next((j for j in others if own and kinds[j] and not own & kinds[j]), None))
    return partners


def partner(index: int, count: int) -> int:
    """The scene half the list away, whose sound or picture stands in for a scene's own."""
    return (index + max(1, count // 2)) % count


def _other(index: int, scenes: Sequence[Scene]) -> int:
    return partner(index, len(scenes))
