"""From settings to the scenes that a stage trains on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from soundwhere.constants import FRAME_PX
from soundwhere.data.captions import read_captions
from soundwhere.data.clips import Clips, KnowsKinds, Together
from soundwhere.data.features import FeatureCache
from soundwhere.data.folder import FolderClips
from soundwhere.data.mixtures import Mixtures, NativeScenes, PoolPictures
from soundwhere.data.real_duet import RealDuet
from soundwhere.data.shard_cache import remote_address
from soundwhere.data.shards import ShardClips
from soundwhere.data.synthetic.clips import WorldClips
from soundwhere.data.synthetic.draws import SyntheticDraws, render
from soundwhere.data.synthetic.world import World
from soundwhere.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from soundwhere.config import DataConfig
    from soundwhere.data.clips import ClipSource
    from soundwhere.data.draws import Draws
    from soundwhere.data.features import Eye, Features, Pictures
    from soundwhere.types import Image

    Encode = Callable[[Tensor], Tensor]  # pictures (B, 3, H, W) of any size to features (B, C, h, w)
    Progress = Callable[[int, int], None]  # what is done, and what there is


@dataclass(frozen=True)
class FrameTarget:
    """Where in a single clip's frame its thing is, guessed from the frame alone: what a map may be taught.

    Attributes:
        name: Names what is made and how, so that what is kept is never taken for something else.
        make: From normalised pictures (B, 3, H, W) and a frozen encoder to maps (B, 1, n, m).
    """

    name: str
    make: Callable[[Tensor, Eye], Tensor]


@dataclass(frozen=True)
class Needs:
    """What a stage needs of a scene.

    Attributes:
        sounds: How many things sound in a made mixture; 1 is a single clip, with no silent frames.
        separate: Whether the sounds are needed apart, which native mixtures cannot give.
        target: What a map of each sounding frame is taught, if anything.
        labels: Whether class names are read. Self-supervised methods never ask for them.
        moments: How many moments of each clip are heard.
        captions: File with the embeddings of what captions say of the clips' pictures, if they are needed.
    """

    sounds: int = 2
    separate: bool = False
    target: FrameTarget | None = None
    labels: bool = False
    moments: int = 1
    captions: Path | None = None


def make_draws(
    data: DataConfig,
    needs: Needs,
    *,
    batch_size: int,
    seed: int,
    frame_px: int,
    eye: Eye | None = None,
    progress: Progress | None = None,
) -> Draws:
    """The scenes a stage trains on; features of a frozen visual encoder are computed here if they are not cached yet.

    Args:
        data: What is trained on.
        needs: What the stage needs of it.
        batch_size: Scenes per step over all processes.
        seed: Decides everything that is drawn.
        frame_px: Side of a frame.
        eye: A frozen visual encoder, whose features are given instead of pictures.
        progress: Called with how many frames are encoded, or scenes rendered, and how many there are.
    """
    several = needs.sounds > 1
    if data.source == "synthetic":
        if needs.labels or needs.moments > 1 or needs.captions:
            raise ConfigError("This method trains on clips.", "Choose --source real-duet or folder.")
        world = World(seed, (frame_px, frame_px))
        scenes = render(world, data.scenes, needs.sounds, data.silent if several else 0, progress)
        return SyntheticDraws(scenes, needs.sounds, data.gain_db, seed)
    clips = make_clips(data, frame_px, needs.labels)
    caches = None if eye is None else _Caches(data.cache, eye, progress)
    captions = None
    if needs.captions is not None:
        captions = read_captions(needs.captions, [clips.key(index) for index in range(len(clips))])
    # shards are too many to be encoded before the first step: what is not stored in them is encoded when it is seen
    sharded = data.source == "shards"
    stored = eye is not None and isinstance(clips, ShardClips) and clips.has_features(eye.name, frame_px)
    if data.mixtures == "native":
        features = caches.features(clips, frame_px) if caches and not sharded else None
        return NativeScenes(
            clips,
            batch_size=batch_size,
            seed=seed,
            gain_db=data.gain_db,
            frame_px=frame_px,
            features=features,
            captions=captions,
            stored=stored,
        )
    whole = several and data.pool > 0
    target = needs.target if several else None
    if target is not None and caches is None:
        raise ConfigError("What maps are taught is made by a frozen visual encoder.", "Add --freeze-visual.")
    mixtures = Mixtures(
        clips,
        batch_size=batch_size,
        seed=seed,
        sources=needs.sounds,
        silent=data.silent if several else 0,
        vary_silent=several and data.vary_silent,
        layouts=data.layouts if several else ("side-by-side",),
        level=data.level,
        gain_db=data.gain_db,
        absent=data.absent if target else 0,
        interference=0 if several else data.interference,
        frame_px=frame_px,
        pool=data.pool if several else 0,
        features=caches.features(clips, frame_px) if caches and not whole and not sharded else None,
        stored=stored and not whole,
        targets=caches.targets(clips, frame_px, target) if caches and target else None,
        cell_px=eye.stride_px if eye else 1,
        moments=needs.moments,
        labels=_numbered(clips) if needs.labels else None,
        captions=captions,
    )
    if caches and whole:
        mixtures.features = caches.features(PoolPictures(mixtures), None)
    return mixtures


class Frames:
    """Frames of single clips: what a frozen encoder sees of each, shape (C, h, w), float16.

    Args:
        data: Where clips come from.
        eye: The encoder.
        frame_px: Side to which frames are squashed.
        progress: Called with the frames done and their total.
        most: Take at most so many of the clips, chosen by chance, always the same ones.

    Attributes:
        pictures: The clips taken.
        keys: Of their pictures, each once.
    """

    def __init__(
        self, data: DataConfig, eye: Eye, frame_px: int, progress: Progress | None = None, most: int | None = None
    ) -> None:
        clips = make_clips(data, frame_px)
        self.pictures = _Some(clips, np.random.default_rng(0).permutation(len(clips))[:most])
        self.keys = sorted({self.pictures.key(index) for index in range(len(self.pictures))})
        self._features = _Caches(data.cache, eye, progress).features(self.pictures, frame_px)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> Features:
        return self._features.get(self.keys[index])


class FramePairs:
    """Frames of single clips: what a frozen encoder sees (C, h, w), and their target (1, n, m), as float16 arrays.

    Args:
        data: Where clips come from.
        eye: The encoder.
        frame_px: Side to which frames are squashed.
        target: What is made of each frame.
        progress: Called with the frames done and their total.
        most: Take at most so many of the clips, chosen by chance, always the same ones.
    """

    def __init__(
        self,
        data: DataConfig,
        eye: Eye,
        frame_px: int,
        target: FrameTarget,
        progress: Progress | None = None,
        most: int | None = None,
    ) -> None:
        self._frames = Frames(data, eye, frame_px, progress, most)
        self._targets = _Caches(data.cache, eye, progress).targets(self._frames.pictures, frame_px, target)

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: int) -> tuple[Features, Features]:
        return self._frames[index], self._targets.get(self._frames.keys[index])


class _Some:
    """Some of the pictures of clips."""

    def __init__(self, clips: ClipSource, numbers: NDArray[np.int64]) -> None:
        self._clips, self._numbers = clips, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def key(self, index: int) -> str:
        """See `Pictures`."""
        return self._clips.key(int(self._numbers[index]))

    def image(self, index: int) -> Image:
        """See `Pictures`."""
        return self._clips.image(int(self._numbers[index]))


class _Caches:
    """What a frozen encoder makes of pictures, computed where it is missing."""

    def __init__(self, folder: Path | None, eye: Eye, progress: Progress | None) -> None:
        self._folder, self._eye, self._progress = folder, eye, progress

    def features(self, pictures: Pictures, side: int | None) -> FeatureCache:
        """Features of pictures, squashed to a side or as they are."""
        return self._filled(FeatureCache(self._folder, self._eye.name, side), pictures, self._eye.encode)

    def targets(self, frames: Pictures, side: int, target: FrameTarget) -> FeatureCache:
        """What maps of single frames are taught."""
        cache = FeatureCache(self._folder, f"{self._eye.name}-{target.name}", side)
        return self._filled(cache, frames, lambda images: target.make(images, self._eye))

    def _filled(self, cache: FeatureCache, pictures: Pictures, encode: Encode) -> FeatureCache:
        cache.fill(pictures, encode, progress=self._progress)
        return cache


# Worlds whose things join the clips have seeds of their own: no picture and no sound of theirs is ever scored.
_MADE_UP_SEED = 1_000_003


def class_names(data: DataConfig) -> tuple[str, ...]:
    """The classes of the clips trained on, in the order of their numbers; for methods that read labels alone."""
    return tuple(sorted(set(_kinds(make_clips(data, labels=True)))))


def _numbered(clips: ClipSource) -> NDArray[np.int64]:
    """The number of every clip's class."""
    kinds = _kinds(clips)
    names = sorted(set(kinds))
    return np.array([names.index(kind) for kind in kinds], dtype=np.int64)


def _kinds(clips: ClipSource) -> Sequence[str]:
    kinds = clips.kinds if isinstance(clips, KnowsKinds) else None
    if kinds is None:
        raise ConfigError(
            "This method reads class labels, and these clips have none.",
            "Use --source real-duet without --made-up, or a method that needs no labels.",
        )
    return kinds


def make_clips(data: DataConfig, frame_px: int = FRAME_PX, labels: bool = False) -> ClipSource:
    """The clips of a data set to train on, of real-duet, a folder of videos or shards, and things of the made-up world.

    Labels are read only if they are asked for.
    """
    if data.source == "synthetic":
        raise ConfigError("The made-up world has scenes, not clips.", "Choose --source real-duet or folder.")
    root = data_root(data)
    clips: ClipSource
    if data.source == "shards":
        clips = ShardClips(root, labels, data.shard_cache, data.shard_cache_gb)
    elif data.source == "folder":
        clips = folder = FolderClips(root)
        if folder.problems:
            warnings.warn(folder.describe_problems(), stacklevel=2)
    else:
        if data.mixtures == "native":
            raise ConfigError(
                f"{data.source} has single-source clips, no native mixtures.",
                "Use --mixtures made, or --source folder with videos of several sources.",
            )
        clips = _photos_and_sounds(RealDuet(root), data, labels)
    if data.made_up:
        return Together(clips, WorldClips(World(_MADE_UP_SEED, (frame_px, frame_px)), data.made_up))
    return clips


def _photos_and_sounds(data_set: RealDuet, data: DataConfig, labels: bool) -> ClipSource:
    clips = data_set.clips(data.split, labels, None if data.left_out == "none" else data.left_out)
    if data.source == "real-duet" or labels:  # the labels of videos are not the classes of photos
        return clips
    return Together(clips, Clips(data_set.videos(data.split)))


def data_root(data: DataConfig) -> Path:
    """The folder of a data set, or an error if there is none: quick, to be asked before anything is written."""
    if data.root is None:
        raise ConfigError(f"The data source {data.source!r} needs a folder.", "Give it with --root FOLDER.")
    if remote_address(data.root):
        if data.source != "shards":
            raise ConfigError(f"{data.source} is read from folders, not from {data.root}.", "Use --source shards.")
    elif not data.root.is_dir():
        rebuilt = data.source in ("real-duet", "wide-duet")
        built = " `soundwhere benchmark build` makes it from downloads." if rebuilt else ""
        raise DataError(f"{data.root} is not a folder.", f"Give the folder of the data set with --root.{built}")
    return data.root
