"""How stage 1 learns to hear: a recipe, and what becomes of it with one thing changed.

A row's folder is a training run of its own; rows that are finished are not trained again, and one that was stopped goes
on. No label is read in training; scoring asks in which frame the similarity peaks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from soundwhere.analysis.ablation import train_row
from soundwhere.analysis.tables import Table, share
from soundwhere.errors import DataError
from soundwhere.evaluation.answers import model_scale, scene_batch, stage_one_similarity, upsample
from soundwhere.evaluation.evaluate import same_size
from soundwhere.metrics.listening import frames_found, mean_interval, solo_peaks
from soundwhere.models.registry import load_model
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.journal import preparing
from soundwhere.training.run import LATEST, STAGE_ONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.config import Config
    from soundwhere.methods.scav.model import SCAV
    from soundwhere.metrics.bootstrap import Interval
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Scene

    Changes = dict[str, dict[str, Any]]

FINE: Final = "14x14"
_COMPACT: Final = {"audio": "compact", "audio_weights": "none"}
CHANGES: Final[dict[str, Changes]] = {
    "recipe": {},
    "paper-loss": {"loss": {"stage_one": "paper"}},
    "duets": {"data": {"single_fraction": 0.0}},
    "curriculum": {"data": {"single_fraction": 0.5}},
    "max-pooling": {"model": {"pooling": "max"}},
    FINE: {"model": {"fine_grid": True}},
    "from-noise": {"model": {"audio_weights": "none"}},
    "compact": {"model": _COMPACT},
    "compact-paper-spectrogram": {"model": {**_COMPACT, "spectrogram": "paper"}},
    "compact-peers-spectrogram": {"model": {**_COMPACT, "spectrogram": "peers"}},
    "resnet18": {"model": {"audio": "resnet18", "audio_weights": "none"}},
    "no-interference": {"data": {"interference": 0.0}},
    "no-blanks": {"loss": {"blank": 0}},
}
"""What each row changes in the recipe, by section of the configuration."""


@dataclass(frozen=True)
class Hearing:
    """How a stage 1 hears, one value per scene.

    Attributes:
        solo: Share of a scene's sounds whose peak lies in the right frame when heard alone.
        frames: Whether the mixture's highest frames are the sounding ones; NaN where every frame sounds.
        peak: Whether the mixture's peak lies in a sounding frame; NaN likewise.
    """

    solo: NDArray[np.float64]
    frames: NDArray[np.float64]
    peak: NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """A trained stage 1: how it hears, after how much training."""

    hearing: Hearing
    steps: int
    seconds: float


def stage_one_rows(recipe: Config) -> dict[str, Config]:
    """The configuration of every row that the recipe's eye allows."""
    stage_one = replace(recipe, train=replace(recipe.train, stage="one"))
    rows = {}
    for name, changes in CHANGES.items():
        if name == FINE and recipe.model.visual != "mobilenet_v2":
            continue  # no other eye has a finer grid
        sections = {section: replace(getattr(stage_one, section), **values) for section, values in changes.items()}
        rows[name] = replace(stage_one, **sections)
    return rows


def train_and_score(
    config: Config, folder: Path, scenes: Sequence[Scene], grid: Grid, *, download: bool = False
) -> Row:
    """Train a row, or find it trained, and score it."""
    train_row(config, folder, download=download)
    _, progress = read_progress(folder / LATEST)
    with preparing("scoring") as tick:
        found = hearing(load_model(folder / STAGE_ONE), scenes, grid, tick)
    return Row(found, progress.step, progress.seconds)


def check_apart(scenes: Sequence[Scene]) -> None:
    """Refuse scenes whose sounds are not known apart: they do not tell how a sound is heard alone.

    Raises:
        DataError: There is one.
    """
    for scene in scenes:
        if not 1 <= len(scene.masks) == len(scene.sounds):
            raise DataError(
                f"The scene {scene.name} has {len(scene.masks)} sources and {len(scene.sounds)} separate sounds.",
                "Choose a benchmark with a recording of each source, such as real-duet.",
            )


@torch.inference_mode()
def hearing(
    model: SCAV, scenes: Sequence[Scene], grid: Grid, tick: Callable[[int, int], None] | None = None
) -> Hearing:
    """Ask a model's stage 1 where the sounds of scenes are, alone and mixed.

    Args:
        model: In eval mode.
        scenes: Whose sounds are known apart.
        grid: Rows and columns of frames in the pictures.
        tick: Called with the number of scenes done and of all.
    """
    solo: list[float] = []
    mixed: list[tuple[float, float]] = []
    for _, group in same_size(scenes):
        batch = scene_batch(group, scale=model_scale(model, group[0], grid))
        features = model.features(batch)
        truth = torch.from_numpy(np.stack([scene.masks for scene in group]))
        sounds = torch.from_numpy(np.stack([scene.sounds for scene in group])).unbind(1)
        alone = torch.stack([stage_one_similarity(model, features, sound) for sound in sounds], dim=1)
        solo += [found for found, _ in solo_peaks(upsample(alone, group), truth, grid)]
        both = upsample(stage_one_similarity(model, features, batch.mixture)[:, None], group)
        for found in frames_found(both, truth, grid):
            mixed.append((np.nan, np.nan) if found is None else (found.by_peak, found.peak))
        if tick is not None:
            tick(len(solo), len(scenes))
    frames, peak = np.array(mixed, dtype=np.float64).T
    return Hearing(np.array(solo), frames, peak)


def stage_one_results(rows: dict[str, Row]) -> tuple[list[Table], dict[str, Any]]:
    """The table of all rows, and its numbers as JSON values."""
    lines, values = [], {}
    for name, row in rows.items():
        found = [_mean(column) for column in (row.hearing.solo, row.hearing.frames, row.hearing.peak)]
        lines.append((name, *map(share, found), str(row.steps), f"{row.seconds / 60:.1f}"))
        values[name] = {
            **dict(zip(("solo", "frames", "peak"), (cell and asdict(cell) for cell in found), strict=True)),
            "steps": row.steps,
            "seconds": row.seconds,
        }
    table = Table(
        "Stage 1",
        ("changed", "solo peak (%)", "frames right (%)", "peak in a sounding frame (%)", "steps", "minutes"),
        tuple(lines),
        (
            "Solo peak: hearing one source alone, the similarity peaks in that source's frame.",
            "Frames right: hearing the mixture, the highest frames are exactly the sounding ones.",
            "Intervals: 95 %, bootstrap over scenes. Minutes: those of the optimiser's steps.",
        ),
    )
    return [table], values


def _mean(values: NDArray[np.float64]) -> Interval | None:
    known = values[~np.isnan(values)]
    return mean_interval(known) if len(known) else None
