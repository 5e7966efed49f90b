"""The paper's ablation (tab:ablation, tab:ablation_algorithm1) at any scale: every row from one shared stage 1.

A row's folder is a training run of its own. Rows that are finished are not trained again, and one that was stopped goes
on, so that the command can be given until the table is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from soundwhere.analysis.protocols import box_truth
from soundwhere.config import Config, changed_settings, from_dict, to_dict
from soundwhere.constants import SOURCES
from soundwhere.data.controls import partner
from soundwhere.data.features import encoder_id
from soundwhere.errors import ConfigError, DataError
from soundwhere.evaluation.answers import model_scale, scene_batch, stage_one_similarity
from soundwhere.evaluation.evaluate import same_size
from soundwhere.files import parse_json, write_json
from soundwhere.methods.files import sha256
from soundwhere.methods.scav.peeling import peel
from soundwhere.metrics.baselines import constant_cells
from soundwhere.metrics.pairs import PairScores, concatenate
from soundwhere.metrics.presets import find_preset, score
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import BEST, CHANGEABLE, LATEST, STAGE_ONE, train
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import Tensor

    from soundwhere.methods.scav.model import SCAV
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Scene

FULL, UNIFORM, ALONE, JOINT, CROSS, MINMAX, LITERAL = "full", "a", "b", "c", "d", "no-algorithm-1", "paper-loss"
PEEL, CONSTANT = "peel", "constant"
LABELS: Final = {
    FULL: "full",
    UNIFORM: "(a) uniform prior",
    ALONE: "(b) no stage 2",
    JOINT: "(c) joint training",
    CROSS: "(d) cross-sample negatives",
    MINMAX: "without Algorithm 1",
    LITERAL: "the paper's stage-2 loss",
    PEEL: "peel: stage 1, training-free",
    CONSTANT: "constant pair",
}
_ROW: Final = "row.json"
# How long and how fast it trains is part of what a row is; where things are and how it logs is not.
_IRRELEVANT: Final = CHANGEABLE - {
    *("train.steps_one", "train.steps_two", "train.learning_rate", "train.learning_rate_two", "train.clip_norm"),
}


@dataclass(frozen=True)
class RowScores:
    """One row on all scenes.

    Attributes:
        mask: Scored against the masks.
        box: Scored against the tightest boxes of the masks.
        swapped: Scored against the masks while hearing another scene.
    """

    mask: PairScores
    box: PairScores
    swapped: PairScores


def ablation_rows(recipe: Config) -> dict[str, Config]:
    """What each row trains, beginning with the full recipe; a row that would be another one again is left out.

    Cross-sample negatives (d) belong to the paper's stage-2 loss. Where the recipe has another one, the paper's loss is
    a row as well, and what (d) is compared with. Joint training (c) starts with an untrained ear and therefore takes
    the steps of both stages.
    """
    full = replace(recipe, train=replace(recipe.train, stage="two"))
    times = recipe.train
    joint = replace(
        times,
        stage="joint",
        steps_two=times.steps_one + times.steps_two,
        batch_size=times.of_stage("two").batch_size,
    )
    literal = replace(full, loss=replace(full.loss, stage_two="paper", cross_sample_negatives=False))
    rows = {
        FULL: full,
        UNIFORM: replace(full, model=replace(full.model, prior="uniform")),
        JOINT: replace(full, train=joint),
        LITERAL: literal,
        CROSS: replace(literal, loss=replace(literal.loss, cross_sample_negatives=True)),
        MINMAX: replace(full, model=replace(full.model, prior="minmax")),
    }
    kept: dict[str, Config] = {}
    for name, row in rows.items():
        if row not in kept.values():
            kept[name] = row
    return kept


def train_stage_one(recipe: Config, folder: Path, *, download: bool = False) -> Path:
    """Train the stage 1 that all rows share, unless that is done, and return its file."""
    # what only stage 2 reads does not make it another stage 1
    times = replace(recipe.train, stage="one", steps_two=1, batch_size_two=None, learning_rate_two=None)
    config = replace(recipe, train=times)
    train_row(config, folder, download=download)
    return folder / STAGE_ONE


def train_row(config: Config, folder: Path, *, start: Path | None = None, download: bool = False) -> Path:
    """Train one row in its folder, go on with it, or find it finished; returns the file of the model.

    Args:
        config: Of the row.
        folder: Of the row.
        start: The shared stage 1; None trains from the beginning.
        download: As in `train`.

    Raises:
        ConfigError: The folder holds a row of other settings, or of another stage 1.
    """
    origin = None if start is None else sha256(start)
    latest = folder / LATEST
    _claim(folder / _ROW, config, origin, begun=latest.exists())
    if latest.exists():
        _, progress = read_progress(latest)
        steps = config.train.steps_one if progress.stage == "one" else config.train.steps_two
        # stage 1's file follows its last checkpoint
        if progress.step < steps or (progress.stage == "one" and not (folder / STAGE_ONE).is_file()):
            train(config, folder, resume=True)
    else:
        train(config, folder, start=start, download=download)
    return folder / BEST


def _claim(path: Path, config: Config, origin: str | None, begun: bool) -> None:
    """Note in a folder what is trained there or, where that has begun, make sure that it is what is noted."""
    if not (begun and path.is_file()):
        write_json(path, {"config": to_dict(config), "stage_one": origin})
        return
    try:
        noted = parse_json(path.read_bytes())
        before, from_one = from_dict(Config, noted["config"], str(path)), noted["stage_one"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} does not say what was trained there ({type(error).__name__}: {error}).",
            "Move that folder away, or give another --out.",
        ) from error
    changed = sorted(set(changed_settings(before, config)) - _IRRELEVANT)
    if from_one != origin:
        changed.append("the stage 1 it starts from")
    if changed:
        raise ConfigError(
            f"{path.parent} holds a row that was trained with other settings: {', '.join(changed)}.",
            "Give the settings it was trained with, or another --out.",
        )


def score_rows(
    models: dict[str, SCAV],
    scenes: Sequence[Scene],
    grid: Grid,
    *,
    sigma_px: float = 70.0,
    tick: Callable[[int], None] | None = None,
) -> dict[str, RowScores]:
    """Score every row, `peel` on the shared stage 1, and a constant pair; scenes are read once.

    Models with one and the same frozen eye share its features.

    Args:
        models: By row, in eval mode; the row of stage 1 alone is the one that is peeled.
        scenes: With masks of at least one source each.
        grid: Rows and columns of frames in the pictures.
        sigma_px: Width of the constant pair's Gaussians.
        tick: Called with the number of scenes of each finished batch.

    Raises:
        DataError: A scene has no source.
    """
    preset = find_preset("scav")
    parts: dict[str, tuple[list[PairScores], ...]] = {name: ([], [], []) for name in (*models, PEEL, CONSTANT)}
    eyes = {name: encoder_id(model.config.visual, model.visual) for name, model in models.items()}
    for numbers, group in same_size(scenes):
        if not len(group[0].masks):
            raise DataError(f"The scene {group[0].name} has no source.", "Choose a benchmark with sounding objects.")
        truth = torch.from_numpy(np.stack([scene.masks for scene in group]))
        _, boxed = box_truth(truth.numpy())
        others = [scenes[partner(number, len(scenes))].mixture for number in numbers]
        answers = _answers(models, eyes, group, torch.from_numpy(np.stack(others)), grid)
        height, width = group[0].image.shape[:2]
        places = grid if grid != (1, 1) else (1, SOURCES)
        fixed = constant_cells(height, width, places, sigma_px, range(SOURCES)).expand(len(group), -1, -1, -1)
        answers[CONSTANT] = fixed, fixed
        where = torch.tensor(numbers)
        for name, (own, swapped) in answers.items():
            for found, maps, target in zip(parts[name], (own, own, swapped), (truth, boxed, truth), strict=True):
                found.append(score(maps, target, preset, grid, where))
        if tick is not None:
            tick(len(group))
    return {name: RowScores(*map(concatenate, found)) for name, found in parts.items() if found[0]}


@torch.inference_mode()
def _answers(
    models: dict[str, SCAV], eyes: dict[str, str], scenes: Sequence[Scene], others: Tensor, grid: Grid
) -> dict[str, tuple[Tensor, Tensor]]:
    """Maps (B, K, h, w) of every row with the scenes' own sound and with others' (B, N)."""
    seen: dict[str, Tensor] = {}
    answers = {}
    for name, model in models.items():
        device = next(model.parameters()).device
        batch = scene_batch(scenes, device, model_scale(model, scenes[0], grid))
        if eyes[name] not in seen:
            seen[eyes[name]] = model.features(batch)
        features = seen[eyes[name]]
        sounds = batch.mixture, others.to(device)
        own, swapped = (model.localise(Batch(sound, features=features)).similarity.float().cpu() for sound in sounds)
        answers[name] = own, swapped
        if name == ALONE:
            maps = [
                peel(stage_one_similarity(model, features, sound), features, SOURCES, grid).cpu() for sound in sounds
            ]
            answers[PEEL] = maps[0], maps[1]
    return answers
