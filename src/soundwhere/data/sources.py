"""From a configuration to the scenes it trains on."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Protocol

from soundwhere.constants import FRAME_PX
from soundwhere.data.clips import Together
from soundwhere.data.features import FeatureCache, encoder_id
from soundwhere.data.folder import FolderClips
from soundwhere.data.mixtures import Mixtures, NativeScenes, PoolPictures
from soundwhere.data.real_duet import RealDuet
from soundwhere.data.strength import StrengthPairs, feature_strength, strength_id
from soundwhere.data.synthetic.clips import WorldClips
from soundwhere.data.synthetic.draws import SyntheticDraws, render
from soundwhere.data.synthetic.world import World
from soundwhere.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor, nn

    from soundwhere.config import Config, DataConfig, ModelConfig
    from soundwhere.data.clips import ClipSource
    from soundwhere.data.draws import Draws
    from soundwhere.data.features import Pictures


class Seeing(Protocol):
    """What is needed of a model: its configuration and its visual encoder."""

    @property
    def config(self) -> ModelConfig:
        """Its architecture."""

    @property
    def visual(self) -> nn.Module:
        """From pictures (B, 3, H, W) to features (B, C, h, w)."""


def make_draws(
    config: Config, model: Seeing, sources: int, progress: Callable[[int, int], None] | None = None
) -> Draws:
    """The scenes a run trains on; features of a frozen visual encoder are computed here if they are not cached yet.

    Args:
        config: Everything a run depends on; `train` is that of one stage. Only stage 2 has targets and absent sounds.
        model: The model to be trained, with the weights its visual encoder starts from.
        sources: How many sounds a made mixture has; with 1 (single clips) there are no silent frames either.
        progress: Called with how many frames are encoded, or scenes rendered, and how many there are.
    """
    data, batch_size, seed = config.data, config.train.batch_size, config.train.seed
    frame_px = model.config.frame_px
    if data.source == "synthetic":
        silent = data.silent if sources > 1 else 0
        scenes = render(World(seed, (frame_px, frame_px)), data.scenes, sources, silent, progress)
        return SyntheticDraws(scenes, sources, data.gain_db, seed)
    clips = make_clips(data, frame_px)
    frozen = model.config.freeze_visual
    caches = _Caches(data, model, progress)
    if data.mixtures == "native":
        features = caches.features(clips, frame_px) if frozen else None
        return NativeScenes(
            clips, batch_size=batch_size, seed=seed, gain_db=data.gain_db, frame_px=frame_px, features=features
        )
    several = sources > 1
    whole = several and data.pool > 0
    loss = (config.loss.stage_two, config.loss.teacher)
    taught = several and config.train.stage != "one" and loss == ("distil", "strength")
    mixtures = Mixtures(
        clips,
        batch_size=batch_size,
        seed=seed,
        sources=sources,
        silent=data.silent if several else 0,
        vary_silent=several and data.vary_silent,
        layouts=data.layouts if several else ("side-by-side",),
        gain_db=data.gain_db,
        absent=data.absent if taught else 0,
        interference=0 if several else data.interference,
        frame_px=frame_px,
        pool=data.pool if several else 0,
        features=caches.features(clips, frame_px) if frozen and not whole else None,
        strength=caches.strength(clips, frame_px) if taught else None,
    )
    if frozen and whole:
        mixtures.features = caches.features(PoolPictures(mixtures), None)
    return mixtures


def make_strength_pairs(
    config: Config, model: Seeing, progress: Callable[[int, int], None] | None = None
) -> StrengthPairs:
    """What a strength head is fitted to: the frames of single clips. The arguments are those of `make_draws`."""
    frame_px = model.config.frame_px
    clips = make_clips(config.data, frame_px)
    caches = _Caches(config.data, model, progress)
    keys = sorted({clips.key(index) for index in range(len(clips))})
    return StrengthPairs(keys, caches.features(clips, frame_px), caches.strength(clips, frame_px))


class _Caches:
    """What a frozen encoder makes of pictures, computed where it is missing."""

    def __init__(self, data: DataConfig, model: Seeing, progress: Callable[[int, int], None] | None) -> None:
        self._folder = data.cache
        self._encoder = encoder_id(model.config.visual + "-fine" * model.config.fine_grid, model.visual)
        self._visual = model.visual
        self._device = next(model.visual.parameters()).device
        self._progress = progress

    def features(self, pictures: Pictures, side: int | None) -> FeatureCache:
        """Features of pictures, squashed to a side or as they are."""
        return self._filled(FeatureCache(self._folder, self._encoder, side), pictures, self._encode)

    def strength(self, frames: Pictures, side: int) -> FeatureCache:
        """Feature strength of single frames."""
        cache = FeatureCache(self._folder, strength_id(self._encoder), side)
        return self._filled(cache, frames, lambda images: feature_strength(images, self._encode))

    def _filled(self, cache: FeatureCache, pictures: Pictures, encode: Callable[[Tensor], Tensor]) -> FeatureCache:
        cache.fill(pictures, encode, progress=self._progress)
        return cache

    def _encode(self, images: Tensor) -> Tensor:
        features: Tensor = self._visual(images.to(self._device))
        return features


# Worlds whose things join the clips have seeds of their own: no picture and no sound of theirs is ever scored.
_MADE_UP_SEED = 1_000_003


def make_clips(data: DataConfig, frame_px: int = FRAME_PX) -> ClipSource:
    """The clips of a data set to train on, of real-duet or a folder of videos, and things of the made-up world."""
    if data.source == "synthetic":
        raise ConfigError("The made-up world has scenes, not clips.", "Choose --source real-duet or folder.")
    root = data_root(data)
    clips: ClipSource
    if data.source == "folder":
        clips = folder = FolderClips(root)
        if folder.problems:
            warnings.warn(folder.describe_problems(), stacklevel=2)
    else:
        if data.mixtures == "native":
            raise ConfigError(
                "real-duet has single-source clips, no native mixtures.",
                "Use --mixtures made, or --source folder with videos of several sources.",
            )
        clips = RealDuet(root).clips(data.split)
    if data.made_up:
        return Together(clips, WorldClips(World(_MADE_UP_SEED, (frame_px, frame_px)), data.made_up))
    return clips


def data_root(data: DataConfig) -> Path:
    """The folder of a data set, or an error if there is none: quick, to be asked before anything is written."""
    if data.root is None:
        raise ConfigError(f"The data source {data.source!r} needs a folder.", "Give it with --root FOLDER.")
    if not data.root.is_dir():
        raise DataError(f"{data.root} is no folder.", "Give the folder of the data set with --root.")
    return data.root
