"""Training scenes from clips: made mixtures of single-source clips, or videos that hold several sources as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from soundwhere.constants import FRAME_PX, MIXING_RMS, SOURCES
from soundwhere.data.draws import Example
from soundwhere.data.layout import Layout, check_layout, join
from soundwhere.data.memory import MEMORY
from soundwhere.errors import DataError
from soundwhere.media.audio import scale_to_rms
from soundwhere.media.image import resize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.data.clips import ClipSource
    from soundwhere.data.features import FeatureCache
    from soundwhere.types import Image, Waveform

# Independent streams of random numbers; not from 0, because a generator is blind to zeros at the end of its seed
_SCENE, _LAYOUT, _ORDER = 1, 2, 3


class Mixtures:
    """Scenes made of K single clips: their frames joined, their sounds to be summed, plus frames that are silent.

    Every clip is once an epoch the first of a scene; its partners are any clips with other pictures. Scene n is a pure
    function of the seed and n. Scenes of one step share a layout, so that they form a batch.

    Args:
        clips: Single-source clips.
        batch_size: Scenes per step over all processes.
        seed: Decides everything that is drawn.
        sources: K, how many frames of a scene sound.
        silent: How many further frames are seen only.
        layouts: Ways to join the frames, one of which is drawn for every step.
        gain_db: Each sound is scaled to RMS 0.1, then by a gain drawn within plus or minus this.
        frame_px: Side to which each frame is squashed.
        features: Filled cache to take features from, instead of pictures.
    """

    native = False

    def __init__(
        self,
        clips: ClipSource,
        *,
        batch_size: int,
        seed: int,
        sources: int = SOURCES,
        silent: int = 0,
        layouts: Sequence[Layout] = ("side-by-side",),
        gain_db: float = 0.0,
        frame_px: int = FRAME_PX,
        features: FeatureCache | None = None,
    ) -> None:
        self._clips = clips
        self._batch_size = batch_size
        self._seed = seed
        self._sources = sources
        self._frames = sources + silent
        self._layouts = layouts
        self._gain_db = gain_db
        self._frame_px = frame_px
        self._features = features
        self._keys = [clips.key(index) for index in range(len(clips))]
        self._epoch, self._order = -1, np.empty(0, np.int64)
        for layout in layouts:
            check_layout(layout, self._frames)
        if len(set(self._keys)) < self._frames:
            raise DataError(
                f"A scene of {self._frames} frames needs as many pictures, but there are {len(set(self._keys))}.",
                "Add clips, or lower --silent.",
            )

    def __len__(self) -> int:
        return len(self._clips)

    def draw(self, number: int, pictures: bool = False) -> Example:
        """Draw a scene; its sounds come in no particular order.

        Args:
            number: Which scene; may exceed the length of an epoch.
            pictures: Give the picture even where features are cached.
        """
        rng = np.random.default_rng([self._seed, number, _SCENE])
        cast = self._cast(number, rng)
        sounds = np.stack([self._sound(index, rng) for index in cast[: self._sources]])
        frames = rng.permutation(cast)
        layout = self._layout(number)
        if self._features is not None and not pictures:
            cells = [self._features.get(self._keys[index]) for index in frames]
            return Example(sounds, features=join(cells, layout, axes=(1, 2)))
        return Example(sounds, image=join([self._frame(index) for index in frames], layout))

    def _cast(self, number: int, rng: np.random.Generator) -> list[int]:
        """The clips of a scene, those that sound first."""
        epoch, place = divmod(number, len(self))
        if epoch != self._epoch:
            order = np.random.default_rng([self._seed, epoch, _ORDER]).permutation(len(self))
            self._epoch, self._order = epoch, order
        cast = [int(self._order[place])]
        while len(cast) < self._frames:
            partner = int(rng.integers(len(self)))
            if self._keys[partner] not in {self._keys[index] for index in cast}:
                cast.append(partner)
        return cast

    def _layout(self, number: int) -> Layout:
        rng = np.random.default_rng([self._seed, number // self._batch_size, _LAYOUT])
        return self._layouts[int(rng.integers(len(self._layouts)))]

    def _sound(self, index: int, rng: np.random.Generator) -> Waveform:
        gain = 10 ** (rng.uniform(-self._gain_db, self._gain_db) / 20)
        return scale_to_rms(self._clips.sound(index, rng), MIXING_RMS * gain)

    def _frame(self, index: int) -> Image:
        size = (self._frame_px, self._frame_px)
        key = ("frame", self._keys[index], size)
        return MEMORY.get(key, lambda: resize(self._clips.image(index), size))


class NativeScenes(Mixtures):
    """Videos that hold several sources as they are: one frame and its sound, whose parts nobody knows.

    The arguments are those of `Mixtures`.
    """

    native = True

    def __init__(
        self,
        clips: ClipSource,
        *,
        batch_size: int,
        seed: int,
        gain_db: float = 0.0,
        frame_px: int = FRAME_PX,
        features: FeatureCache | None = None,
    ) -> None:
        super().__init__(
            clips, batch_size=batch_size, seed=seed, sources=1, gain_db=gain_db, frame_px=frame_px, features=features
        )
