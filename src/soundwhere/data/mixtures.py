"""Training scenes from clips: made mixtures of single-source clips, or videos that hold several sources as they are."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from soundwhere.constants import ENCODER_STRIDE_PX, FRAME_PX, MIXING_RMS, SOURCES
from soundwhere.data.clips import SeveralFrames
from soundwhere.data.draws import Example
from soundwhere.data.layout import Arrangement, Layout, arrange, check_layouts, compose, join, place_map
from soundwhere.data.memory import MEMORY
from soundwhere.errors import DataError
from soundwhere.media.audio import scale_to_rms
from soundwhere.media.image import resize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.data.clips import ClipSource
    from soundwhere.data.features import FeatureCache
    from soundwhere.types import Image, Waveform

    Level = Literal["equal-rms", "as-recorded"]

# Independent streams of random numbers; not from 0, because a generator is blind to zeros at the end of its seed
_SCENE, _LAYOUT, _ORDER, _PICTURE, _MOMENT, _FRAME = 1, 2, 3, 4, 5, 6

# Level of a sound that is heard but not seen, against one that is
_INTERFERENCE_DB = (-18.0, -3.0)


class Picture(NamedTuple):
    """What a scene shows: the frames it is made of, as numbers that their `ClipSource` knows, and where they lie."""

    cast: tuple[int, ...]
    layout: Layout
    arrangement: Arrangement

    @property
    def may_sound(self) -> range:
        """The frames that may sound: all but the one that others are pasted onto."""
        return range(int(self.layout == "pasted"), len(self.cast))


@dataclass(eq=False)
class Mixtures:
    """Scenes made of K single clips: their frames put together, their sounds to be summed, plus frames that are silent.

    Every clip is once an epoch the first of a scene; its partners are any clips with other pictures. Scene n is a pure
    function of the seed and n. Scenes of one step share a layout, so that they form a batch.

    With a `pool` there are only so many pictures, which return every epoch with other sounds. A frozen encoder sees
    them whole, each once. Without, features of single frames are joined, which differ beside the seams.

    Of clips with several frames any is shown, and 3 s of sound around it are heard; features and targets that are kept
    in a cache are those of the first.

    Attributes:
        clips: Single-source clips.
        batch_size: Scenes per step over all processes.
        seed: Decides everything that is drawn.
        sources: K, how many frames of a scene sound.
        silent: How many further frames are seen only.
        vary_silent: Draw that number for every step, from the least its layout allows to `silent`.
        layouts: Ways to put the frames together, one of which is drawn for every step.
        level: `equal-rms` scales each sound to RMS 0.1 first; `as-recorded` leaves it as it is.
        gain_db: Each sound is then scaled by a gain drawn within plus or minus this.
        absent: Share of scenes in which one sound is silent, or of a clip that is not shown; its target is empty.
        interference: Share of scenes with the sound of a further clip, which is not shown, 3 to 18 dB below the others.
        frame_px: Side to which each frame is squashed.
        pool: How many pictures there are, rounded up to whole steps; 0 for ever new ones.
        features: Filled cache to take features from, instead of pictures: of whole ones with a `pool`, else of frames.
        stored: Take features of frames from the clips themselves.
        targets: Filled cache of what a map of each frame is taught.
        cell_px: Side of a cell of the targets.
        moments: How many moments of each sound are drawn.
        labels: Numbers of the clips' classes, for methods that read them.
        captions: Embeddings of what is said of the clips' pictures, shape (clips, captions, D).
    """

    native = False
    clips: ClipSource
    _: KW_ONLY
    batch_size: int
    seed: int
    sources: int = SOURCES
    silent: int = 0
    vary_silent: bool = False
    layouts: Sequence[Layout] = ("side-by-side",)
    level: Level = "equal-rms"
    gain_db: float = 0.0
    absent: float = 0.0
    interference: float = 0.0
    frame_px: int = FRAME_PX
    pool: int = 0
    features: FeatureCache | None = None
    stored: bool = False
    targets: FeatureCache | None = None
    cell_px: int = ENCODER_STRIDE_PX
    moments: int = 1
    labels: NDArray[np.int64] | None = None
    captions: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        frozen = self.features is not None or self.stored
        check_layouts(self.layouts, self.sources, self.silent, self.pool, frozen)
        self.pool = -(-self.pool // self.batch_size) * self.batch_size
        self._frames = self.sources + self.silent
        first_only = self.targets is not None or self.features is not None
        self._choices = self.clips.frames if isinstance(self.clips, SeveralFrames) and not first_only else 1
        self._epoch, self._order = -1, np.empty(0, np.int64)
        found = _count_pictures(self.clips, self._frames)
        if found < self._frames:
            raise DataError(
                f"A scene of {self._frames} frames needs as many pictures, but there are {found}.",
                "Add clips, or lower --silent.",
            )

    def __len__(self) -> int:
        return self.pool or len(self.clips)

    def draw(self, number: int, pictures: bool = False) -> Example:
        """Draw a scene; its sounds come in no particular order.

        Args:
            number: Which scene; may exceed the length of an epoch.
            pictures: Give the picture even where features are cached.
        """
        picture = self.picture(number)
        rng = np.random.default_rng([self.seed, number, _SCENE])
        sounding = rng.permutation(picture.may_sound)[: self.sources]
        sounds = np.stack([self._sound(picture.cast[place], rng) for place in sounding])
        if rng.random() < self.interference:
            sounds[0] += self._unseen(rng, _INTERFERENCE_DB)
        targets = None
        if self.targets is not None:
            targets = np.stack([self._target(picture, place) for place in sounding])
            if rng.random() < self.absent:
                sounds[-1] = self._unseen(rng, (0.0, 0.0)) if rng.random() < 0.5 else 0
                targets[-1] = 0
        cast = [picture.cast[place] for place in sounding]
        clips = [index % len(self.clips) for index in cast]
        example = Example(
            sounds,
            targets=targets,
            moments=self._later(cast, number),
            labels=None if self.labels is None else self.labels[clips],
            captions=None if self.captions is None else self.captions[clips],
        )
        if pictures or (self.features is None and not self.stored):
            return example._replace(image=self.compose(picture))
        if self.pool and self.features is not None:
            return example._replace(features=self.features.get(self.key(picture)))
        return example._replace(features=join([self._encoded(n) for n in picture.cast], picture.layout, (1, 2)))

    def _encoded(self, number: int) -> NDArray[np.float16]:
        """Features of a frame."""
        if self.features is not None:
            return self.features.get(self.clips.key(number))
        assert isinstance(self.clips, SeveralFrames)
        return self.clips.features(number)

    def _later(self, cast: Sequence[int], number: int) -> NDArray[np.float32] | None:
        """The sounds of clips at further moments, if they are asked for, shape (M - 1, K, N)."""
        if self.moments == 1:
            return None
        rng = np.random.default_rng([self.seed, number, _MOMENT])
        return np.stack([[self._sound(index, rng) for index in cast] for _ in range(self.moments - 1)])

    def picture(self, number: int) -> Picture:
        """What scene `number` shows."""
        number = number % self.pool if self.pool else number
        rng = np.random.default_rng([self.seed, number, _PICTURE])
        step = np.random.default_rng([self.seed, number // self.batch_size, _LAYOUT])
        layout = self.layouts[int(step.integers(len(self.layouts)))]
        frames = self._frames
        if self.vary_silent and layout != "grid":
            frames = int(step.integers(self.sources + (layout == "pasted"), frames + 1))
        cast = tuple(int(index) for index in rng.permutation(self._cast(number, frames, rng)))
        if self._choices > 1:
            chosen = np.random.default_rng([self.seed, number, _FRAME]).integers(self._choices, size=len(cast))
            cast = tuple(index + int(frame) * len(self.clips) for index, frame in zip(cast, chosen, strict=True))
        return Picture(cast, layout, arrange(layout, frames, self.frame_px, rng))

    def compose(self, picture: Picture) -> Image:
        """Put a picture together."""
        return compose([self._frame(index) for index in picture.cast], picture.arrangement)

    def key(self, picture: Picture) -> str:
        """Names the content of a picture."""
        return "|".join([str(picture.arrangement), *(self.clips.key(number) for number in picture.cast)])

    def _cast(self, number: int, frames: int, rng: np.random.Generator) -> list[int]:
        """The clips of a picture."""
        epoch, place = divmod(number, len(self.clips))
        if epoch != self._epoch:
            order = np.random.default_rng([self.seed, epoch, _ORDER]).permutation(len(self.clips))
            self._epoch, self._order = epoch, order
        cast = [int(self._order[place])]
        while len(cast) < frames:
            partner = int(rng.integers(len(self.clips)))
            if self.clips.key(partner) not in {self.clips.key(index) for index in cast}:
                cast.append(partner)
        return cast

    def _target(self, picture: Picture, place: int) -> NDArray[np.float32]:
        assert self.targets is not None
        target = self.targets.get(self.clips.key(picture.cast[place]))[0].astype(np.float32)
        return place_map(target, picture.arrangement, place, self.cell_px)

    def _sound(self, index: int, rng: np.random.Generator) -> Waveform:
        gain = 10 ** (rng.uniform(-self.gain_db, self.gain_db) / 20)
        sound = self.clips.sound(index, rng)
        return scale_to_rms(sound, MIXING_RMS * gain) if self.level == "equal-rms" else sound * np.float32(gain)

    def _unseen(self, rng: np.random.Generator, range_db: tuple[float, float]) -> Waveform:
        """The sound of any clip: among hundreds, one that is shown hardly ever comes up."""
        level = MIXING_RMS * 10 ** (rng.uniform(*range_db) / 20)
        return scale_to_rms(self.clips.sound(int(rng.integers(len(self.clips))), rng), level)

    def _frame(self, number: int) -> Image:
        size = (self.frame_px, self.frame_px)
        if isinstance(self.clips, SeveralFrames):  # quick to read, and far more than memory holds
            return resize(self.clips.image(number), size)
        key = ("frame", self.clips.key(number), size)
        return MEMORY.get(key, lambda: resize(self.clips.image(number), size))


def _count_pictures(clips: ClipSource, wanted: int) -> int:
    """How many different pictures there are, up to as many as are wanted: millions are not looked at for that."""
    found: set[str] = set()
    for index in range(len(clips)):
        found.add(clips.key(index))
        if len(found) >= wanted:
            break
    return len(found)


class PoolPictures:
    """The whole pictures of a pool, as a cache of features wants them."""

    def __init__(self, mixtures: Mixtures) -> None:
        self._mixtures = mixtures

    def __len__(self) -> int:
        return self._mixtures.pool

    def key(self, index: int) -> str:
        """See `Pictures`."""
        return self._mixtures.key(self._mixtures.picture(index))

    def image(self, index: int) -> Image:
        """See `Pictures`."""
        return self._mixtures.compose(self._mixtures.picture(index))


@dataclass(eq=False)
class NativeScenes(Mixtures):
    """Videos that hold several sources as they are: one frame and its sound, whose parts nobody knows.

    The attributes are those of `Mixtures`.
    """

    native = True
    sources: int = 1
