"""Training draws from the made-up world: scenes rendered once, then heard and seen a little differently every time."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from os import cpu_count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from soundwhere.data.draws import Example
from soundwhere.signals import ctrl_c_blocked

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from soundwhere.data.synthetic.world import World
    from soundwhere.types import Image

# Scenes a worker renders at a time: enough to make starting it worthwhile.
_CHUNK = 32
# Independent streams of random numbers; not from 0, because a generator is blind to zeros at the end of its seed
_SCENE, _ORDER = 1, 2


class Rendered(NamedTuple):
    """A scene as it is kept in memory: 0.3 MB at 128 x 128 with two sounds."""

    image: Image
    sounds: NDArray[np.float16]  # (S, N)


@dataclass(eq=False)
class SyntheticDraws:
    """Scenes of the made-up world with `sources` sounding things, in another order each epoch.

    A draw mirrors the picture, shifts the sounds in time and changes their levels at random. With `sources` less than
    the things that could sound, which of them do is random too, so single clips come with silent distractors.
    """

    native = False
    scenes: list[Rendered]
    sources: int
    gain_db: float
    seed: int

    def __len__(self) -> int:
        return len(self.scenes)

    def draw(self, number: int, pictures: bool = False) -> Example:
        """Draw `number`: a pure function of the seed and the number. The picture is never cached as features."""
        del pictures
        epoch, place = divmod(number, len(self))
        scene = self.scenes[_order(self.seed, epoch, len(self))[place]]
        rng = np.random.default_rng([self.seed, number, _SCENE])
        heard = rng.permutation(len(scene.sounds))[: self.sources]
        shift = rng.integers(scene.sounds.shape[1])
        gains = 10 ** (rng.uniform(-self.gain_db, self.gain_db, (len(heard), 1)) / 20)
        sounds = np.roll(scene.sounds[heard], shift, axis=1) * gains.astype(np.float32)
        image = scene.image[:, ::-1] if rng.random() < 0.5 else scene.image
        return Example(sounds, np.ascontiguousarray(image))


def render(
    world: World, count: int, sounding: int = 2, silent: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[Rendered]:
    """Render the first `count` scenes of a world on all cores.

    Args:
        world: Where they come from.
        count: How many.
        sounding: Things that can sound.
        silent: Things that never do.
        progress: Called with the number of scenes done and of all.
    """
    chunks = [range(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    jobs = [(world, chunk, sounding, silent) for chunk in chunks]
    scenes: list[Rendered] = []
    if len(jobs) == 1:
        scenes = _render_chunk(jobs[0])
        if progress is not None:
            progress(count, count)
        return scenes
    # spawn: a forked copy of a process that already runs torch's threads may hang
    pool = ProcessPoolExecutor(min(cpu_count() or 1, len(jobs)), mp_context=get_context("spawn"))
    try:
        with ctrl_c_blocked():
            parts = pool.map(_render_chunk, jobs)
        for part in parts:
            scenes.extend(part)
            if progress is not None:
                progress(len(scenes), count)
    finally:
        pool.shutdown(cancel_futures=True)
    return scenes


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """The order in which an epoch takes the scenes, kept because every draw of the epoch asks for it."""
    return np.random.default_rng([seed, epoch, _ORDER]).permutation(count)


def _render_chunk(job: tuple[World, range, int, int]) -> list[Rendered]:
    world, chunk, sounding, silent = job
    scenes = (world.scene(index, sounding, silent) for index in chunk)
    return [Rendered(scene.image, scene.sounds.astype(np.float16)) for scene in scenes]
