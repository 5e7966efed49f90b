"""Scenes are read once, in an order in which each soon meets those that mislead about it; memory stays flat."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

from soundwhere.data.controls import absent_partners, nothing_for, partner
from soundwhere.data.selection import KnowsSeenKinds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence

    from torch import Tensor

    from soundwhere.evaluation.rows import Control
    from soundwhere.types import Scene

BATCH: Final = 16
KEPT: Final = 64
"""Scenes that stay in memory for others, beside those being looked at."""


class Remembered(NamedTuple):
    """A scene that was read, what networks made of it, and who of several threads may add to that."""

    scene: Scene
    impressions: dict[Hashable, Tensor]
    pen: Lock


class Reader:
    """Scenes by their numbers, read when asked for and kept as long as anybody will ask again.

    Several threads may ask between two steps.

    Args:
        scenes: All of them.
        needed: The numbers that each step will ask for, in the order of the steps.
        most: How many stay between two steps. If more are needed again, those needed last are read twice.
    """

    def __init__(self, scenes: Sequence[Scene], needed: Sequence[Collection[int]] = (), most: int = KEPT) -> None:
        self.scenes = scenes
        self._most = most
        self._memory: dict[int, Remembered] = {}
        self._step = 0
        self._uses: dict[int, list[int]] = {}
        for step in reversed(range(len(needed))):
            for number in needed[step]:
                self._uses.setdefault(number, []).append(step)

    def __getitem__(self, number: int) -> Remembered:
        known = self._memory.get(number)
        return known or self._memory.setdefault(number, Remembered(self.scenes[number], {}, Lock()))

    def end_step(self) -> None:
        """Forget what no later step needs, or what is needed last where too much is."""
        self._step += 1
        waits = {number: self._next_use(number) for number in self._memory}
        wanted = sorted((number for number, wait in waits.items() if wait is not None), key=lambda n: waits[n] or 0)
        self._memory = {number: self._memory[number] for number in wanted[: self._most]}

    def _next_use(self, number: int) -> int | None:
        uses = self._uses.get(number, [])
        while uses and uses[-1] < self._step:
            uses.pop()
        return uses[-1] if uses else None


@dataclass(frozen=True)
class View:
    """Some scenes of one size, and what is needed of others to mislead a method about them.

    Attributes:
        reader: Where scenes come from.
        numbers: Those looked at.
        absent: For each of them one whose classes are not seen in it, if there is one.
    """

    reader: Reader
    numbers: list[int]
    absent: list[int | None]

    @classmethod
    def of(cls, scenes: Sequence[Scene]) -> View:
        """Scenes of one size, all at once."""
        return cls(Reader(scenes), list(range(len(scenes))), [None] * len(scenes))

    @cached_property
    def scenes(self) -> list[Scene]:
        """The scenes looked at."""
        return [self.reader[number].scene for number in self.numbers]

    @property
    def partners(self) -> list[int]:
        """For each scene the one half the list away."""
        return [partner(number, len(self.reader.scenes)) for number in self.numbers]

    def can_hear(self, control: Control) -> list[bool]:
        """Whether there is a sound for each scene under a control."""
        if control in ("alone", "lone"):
            return [heard_apart(scene) for scene in self.scenes]
        found = [other is not None for other in self.absent]
        if control == "nothing":
            return [there or nothing_for(n) != "absent" for n, there in zip(self.numbers, found, strict=True)]
        return found if control == "absent" else [True] * len(found)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the pictures."""
        height, width = self.scenes[0].image.shape[:2]
        return height, width

    @cached_property
    def truth(self) -> Tensor:
        """The sounding objects, shape (B, M, H, W), bool."""
        return torch.from_numpy(np.stack([scene.masks for scene in self.scenes]))

    def recall(self, key: Hashable, numbers: Sequence[int], make: Callable[[list[Scene]], Tensor]) -> Tensor:
        """What a network makes of scenes, each being shown to it once.

        And alone: the last digits of what is made of several depend on how many they are, which would depend on what
        was looked at before, and so on where a run was resumed and on how many processes share the work.

        Args:
            key: Names the network and what it does.
            numbers: Of the scenes, whether looked at or others.
            make: From scenes to impressions, whose first size is their number.
        """
        known = {number: self.reader[number] for number in numbers}
        for each in known.values():
            with each.pen:
                if key not in each.impressions:
                    each.impressions[key] = make([each.scene])[0]
        asked = (key, *numbers)
        if asked not in self._recalled:
            self._recalled[asked] = torch.stack([known[number].impressions[key] for number in numbers])
        return self._recalled[asked]

    @cached_property
    def _recalled(self) -> dict[Hashable, Tensor]:
        """What was recalled of several scenes, to be asked for again under other controls."""
        return {}


def views(
    scenes: Sequence[Scene],
    controls: Iterable[Control] = (),
    *,
    batch: int = BATCH,
    alike: Callable[[Scene], Hashable] = lambda scene: scene.masks.shape,
    wanted: Callable[[Sequence[int]], bool] | None = None,
    tick: Callable[[int, int], None] | None = None,
) -> Iterator[View]:
    """Look at every scene.

    Args:
        scenes: All of them.
        controls: Under which methods will be asked: they decide which other scenes are needed.
        batch: Scenes at a time.
        alike: What scenes must have in common to be looked at together.
        wanted: Whether anything is still to be asked about some scenes; what is not wanted is not read.
        tick: Called with the number of scenes done and that of all.

    Yields:
        Scenes that are alike, all of a batch before the next.
    """
    for found in rounds(scenes, controls, batch=batch, alike=alike, wanted=wanted, tick=tick):
        yield from found


def rounds(
    scenes: Sequence[Scene],
    controls: Iterable[Control] = (),
    *,
    share: tuple[int, int] = (0, 1),
    at_once: int = 1,
    read: Callable[[Callable[[int], object], Iterable[int]], Iterable[object]] = map,
    batch: int = BATCH,
    alike: Callable[[Scene], Hashable] = lambda scene: scene.masks.shape,
    wanted: Callable[[Sequence[int]], bool] | None = None,
    tick: Callable[[int, int], None] | None = None,
) -> Iterator[list[View]]:
    """The one loop over scenes there is, shared by several processes: in each round, each looks at a batch or several.

    Args:
        scenes: As for `views`.
        controls: As for `views`.
        share: Which of how many processes this is.
        at_once: Batches that each process looks at in a round.
        read: Reads all scenes of a round, one after another or in several threads, as `map` and `Executor.map` do.
        batch: As for `views`.
        alike: As for `views`.
        wanted: As for `views`; all processes want the same.
        tick: Called with the number of scenes that all have done, and that of all scenes.

    Yields:
        The batches of this process as scenes that are alike; nothing where the last round has too few for all
        processes.
    """
    count = len(scenes)
    asked = set(controls)
    meets = bool({"shuffled", "blind"} & asked)
    absent = _absent(scenes) if {"absent", "nothing"} & asked else [None] * count
    order = _order_of_partners(count) if meets else list(range(count))
    batches = [order[start : start + batch] for start in range(0, count, batch)]  # the same ones in a resumed run
    steps = [numbers for numbers in batches if wanted is None or wanted(numbers)]
    rank, processes = share
    in_a_round = processes * at_once
    together = [steps[start : start + in_a_round] for start in range(0, len(steps), in_a_round)]
    own = [each[rank * at_once : (rank + 1) * at_once] for each in together]
    needed = [_needed(list(chain(*each)), count, meets, absent) for each in own]
    reader = Reader(scenes, needed)
    done = count - sum(map(len, steps))
    for mine, everybodys, soon in zip(own, together, needed, strict=True):
        deque(read(reader.__getitem__, soon), maxlen=0)
        yield [
            View(reader, group, [absent[number] for number in group])
            for numbers in mine
            for group in _alike(numbers, reader, alike)
        ]
        reader.end_step()
        done += sum(map(len, everybodys))
        if tick is not None:
            tick(done, count)


def _alike(numbers: Sequence[int], reader: Reader, alike: Callable[[Scene], Hashable]) -> Iterable[list[int]]:
    """The scenes of a batch, in groups that can be looked at together."""
    groups: dict[Hashable, list[int]] = {}
    for number in numbers:
        groups.setdefault(alike(reader[number].scene), []).append(number)
    return groups.values()


def _needed(numbers: Sequence[int], count: int, meets: bool, absent: Sequence[int | None]) -> set[int]:
    partners = {partner(number, count) for number in numbers} if meets else set()
    strangers = {other for number in numbers if (other := absent[number]) is not None}
    return {*numbers, *partners, *strangers}


def _order_of_partners(count: int) -> list[int]:
    """All numbers, each followed by its partner unless that came before.

    >>> _order_of_partners(6), _order_of_partners(5)
    ([0, 3, 1, 4, 2, 5], [0, 2, 4, 1, 3])
    """
    order: dict[int, None] = {}
    for start in range(count):
        number = start
        while number not in order:
            order[number] = None
            number = partner(number, count)
    return list(order)


def _absent(scenes: Sequence[Scene]) -> list[int | None]:
    if not isinstance(scenes, KnowsSeenKinds):
        return [None] * len(scenes)
    return absent_partners([scenes.seen_kinds(number) for number in range(len(scenes))])


def heard_apart(scene: Scene) -> bool:
    """Whether each of at least two sources can be heard alone."""
    return 2 <= len(scene.sounds) == len(scene.masks)
