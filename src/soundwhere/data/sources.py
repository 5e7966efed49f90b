"""From a configuration to the scenes it trains on."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Protocol

from soundwhere.data.features import FeatureCache, encoder_id
from soundwhere.data.folder import FolderClips
from soundwhere.data.mixtures import Mixtures, NativeScenes
from soundwhere.data.real_duet import RealDuet
from soundwhere.data.synthetic.draws import SyntheticDraws, render
from soundwhere.data.synthetic.world import World
from soundwhere.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import nn

    from soundwhere.config import Config, DataConfig, ModelConfig
    from soundwhere.data.clips import ClipSource
    from soundwhere.data.draws import Draws


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
        config: Everything a run depends on.
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
    clips = make_clips(data)
    features = None
    if model.config.freeze_visual:
        features = FeatureCache(data.cache, encoder_id(model.config.visual, model.visual), frame_px)
        device = next(model.visual.parameters()).device
        features.fill(clips, lambda pictures: model.visual(pictures.to(device)), progress=progress)
    if data.mixtures == "native":
        return NativeScenes(
            clips, batch_size=batch_size, seed=seed, gain_db=data.gain_db, frame_px=frame_px, features=features
        )
    return Mixtures(
        clips,
        batch_size=batch_size,
        seed=seed,
        sources=sources,
        silent=data.silent if sources > 1 else 0,
        layouts=data.layouts if sources > 1 else ("side-by-side",),
        gain_db=data.gain_db,
        frame_px=frame_px,
        features=features,
    )


def make_clips(data: DataConfig) -> ClipSource:
    """The clips of a data set to train on: real-duet's `train` split, or a folder of videos."""
    if data.source == "synthetic":
        raise ConfigError("The made-up world has scenes, not clips.", "Choose --source real-duet or folder.")
    root = data_root(data)
    if data.source == "folder":
        clips = FolderClips(root)
        if clips.problems:
            warnings.warn(clips.describe_problems(), stacklevel=2)
        return clips
    if data.mixtures == "native":
        raise ConfigError(
            "real-duet has single-source clips, no native mixtures.",
            "Use --mixtures made, or --source folder with videos of several sources.",
        )
    return RealDuet(root).clips("train")


def data_root(data: DataConfig) -> Path:
    """The folder of a data set, or an error if there is none: quick, to be asked before anything is written."""
    if data.root is None:
        raise ConfigError(f"The data source {data.source!r} needs a folder.", "Give it with --root FOLDER.")
    if not data.root.is_dir():
        raise DataError(f"{data.root} is no folder.", "Give the folder of the data set with --root.")
    return data.root
