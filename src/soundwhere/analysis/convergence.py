"""Selective convergence (tab:selective_convergence): does stage 1's one map settle on one of two sources?

The dominant source of a scene is the one the map overlaps more, so *any* single map shows a gap between dominant and
second source; the same two rows for a random, a constant and a feature-norm map say how much of it means something.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np
import torch

from soundwhere.errors import ConfigError, DataError
from soundwhere.evaluation.evaluate import (
    feature_norm_answer,
    fixed_answer,
    random_answer,
    same_size,
    score,
    stage_one_answer,
)
from soundwhere.metrics.baselines import constant_cells
from soundwhere.metrics.pairs import concatenate
from soundwhere.metrics.protocols import frame_wise
from soundwhere.training.run import STAGE_ONE, STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from soundwhere.evaluation.answers import Answer
    from soundwhere.methods.scav.model import SCAV
    from soundwhere.metrics.frames import Grid
    from soundwhere.metrics.pairs import PairScores
    from soundwhere.types import Scene

PAPER: Final = {
    "dominant": {"cap": 0.6339, "ciou@0.3": 0.6170, "auc": 0.3782},
    "second": {"cap": 0.1391, "ciou@0.3": 0.0362, "auc": 0.0812},
}
"""The paper's rows, on VGGSound-Duet."""
OTHER_SOUND: Final = "other sound"
"""What the row of a model is called that hears another scene."""


def by_dominance(pairs: PairScores) -> tuple[PairScores, PairScores]:
    """Split one map's scores against two sources into those of the dominant and of the second source of each scene.

    Args:
        pairs: Two rows per scene. Where both overlap equally, the one with the higher average precision is dominant.
    """
    first, second, wins = _rivals(pairs)
    return pairs[torch.where(wins, first, second)], pairs[torch.where(wins, second, first)]


def first_wins(pairs: PairScores) -> NDArray[np.bool_]:
    """Whether the first of each scene's two sources is the dominant one, in the order of the scenes' numbers."""
    wins: NDArray[np.bool_] = _rivals(pairs)[2].numpy()
    return wins


def _rivals(pairs: PairScores) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the first and of the second source of each scene, and whether the first is dominant."""
    order = torch.argsort(pairs.scene, stable=True)
    first, second = order.view(-1, 2).unbind(1)
    wins = (pairs.iou[first] > pairs.iou[second]) | (
        (pairs.iou[first] == pairs.iou[second]) & (pairs.ap[first] >= pairs.ap[second])
    )
    return first, second, wins


def convergence(model: SCAV, scenes: Sequence[Scene], sigma_px: float) -> dict[str, tuple[PairScores, PairScores]]:
    """Dominant and second source for stage 1's map, and for maps that did not listen.

    Args:
        model: In eval mode; its stage 1 answers.
        scenes: With two sources each.
        sigma_px: Width of the constant map's Gaussian, in the middle of the picture.
    """
    answers = {
        "stage 1": stage_one_answer(model),
        "feature norm": feature_norm_answer(model),
        "constant": fixed_answer(lambda height, width: constant_cells(height, width, (1, 1), sigma_px)),
        "random": random_answer(1),
    }
    return {name: by_dominance(score(answer, scenes)) for name, answer in answers.items()}


@dataclass(frozen=True)
class Observations:
    """Who answered what about N scenes of two sources each.

    Attributes:
        names: The scenes.
        pairs: By answer: two rows per scene, `scene` counting from 0.
        first_is_left: Whether the first source is the one further left, shape (N,), bool.
        level_db: Level of the left source above the right one, shape (N,); NaN where they share one recording.
        doublings: log2 of the left source's area over the right one's, shape (N,).
        left_out: How many scenes do not have two sources that are seen.
    """

    names: tuple[str, ...]
    pairs: dict[str, PairScores]
    first_is_left: NDArray[np.bool_]
    level_db: NDArray[np.float64]
    doublings: NDArray[np.float64]
    left_out: int

    def left_wins(self, answer: str) -> NDArray[np.bool_]:
        """Whether the left source is an answer's dominant one, shape (N,)."""
        wins: NDArray[np.bool_] = first_wins(self.pairs[answer]) == self.first_is_left
        return wins


def observe(
    models: dict[str, SCAV],
    scenes: Sequence[Scene],
    *,
    grid: Grid = (1, 1),
    sigma_px: float = 70.0,
    gain_db: float = 0.0,
    controls: bool = True,
    tick: Callable[[int], None] | None = None,
) -> Observations:
    """Ask stage 1 of every model, and answers that do not listen, about scenes that are read once.

    Args:
        models: By name, in eval mode.
        scenes: Those without exactly two sources are left out.
        grid: Rows and columns of frames in the pictures; the constant map lights the first of them.
        sigma_px: Width of the constant map's Gaussian.
        gain_db: Each sound's level is changed by a gain drawn within plus or minus this, by the scene's name.
        controls: Whether to ask anybody but the models.
        tick: Called with the number of scenes of each finished batch.

    Raises:
        DataError: No scene has two sources.
    """
    answers: dict[str, Answer] = {name: stage_one_answer(model, grid) for name, model in models.items()}
    deaf = {f"{name}, {OTHER_SOUND}": answer for name, answer in answers.items()} if controls else {}
    if controls:
        for name, model in list(models.items())[:1]:
            answers[f"feature norm of {name}"] = feature_norm_answer(model)
        answers["constant"] = fixed_answer(lambda height, width: constant_cells(height, width, grid, sigma_px, [0]))
        answers["random"] = random_answer(1)
    rows: dict[str, list[PairScores]] = {name: [] for name in (*models, *deaf, *answers)}
    names: list[str] = []
    facts: list[tuple[bool, float, float]] = []
    heard: NDArray[np.float32] | None = scenes[-1].sounds if deaf and len(scenes) else None
    for numbers, group in same_size(scenes):
        kept = [_with_gains(scene, gain_db) for scene in group if _is_duet(scene)]
        if kept:
            truth = torch.from_numpy(np.stack([scene.masks for scene in kept]))
            places = torch.arange(len(names), len(names) + len(kept))
            for name, answer in answers.items():
                rows[name].append(frame_wise(answer(kept), truth, scenes=places))
            # everybody hears the scene before
            before = [heard, *(scene.sounds for scene in kept[:-1])]
            for name, answer in deaf.items():
                swapped = [replace(s, sounds=other) for s, other in zip(kept, before, strict=True) if other is not None]
                rows[name].append(frame_wise(answer(swapped), truth, scenes=places))
            heard = kept[-1].sounds if deaf else None
            names += [scene.name for scene in kept]
            facts += map(_facts, kept)
        if tick is not None:
            tick(len(numbers))
    if not names:
        raise DataError("No scene has exactly two sources that are seen.", "Choose a benchmark of duets.")
    left, level, doublings = zip(*facts, strict=True)
    return Observations(
        tuple(names),
        {name: concatenate(parts) for name, parts in rows.items()},
        np.array(left),
        np.array(level),
        np.array(doublings),
        len(scenes) - len(names),
    )


def kept_steps(run: Path) -> list[tuple[int, Path]]:
    """The copies of stage 1 that a run kept, by step; none unless it was asked to (`--keep-every`).

    Raises:
        ConfigError: The folder holds no stage 1 at all.
    """
    paths = sorted((run / STEPS).glob("stage-one-*.safetensors"))
    if not paths and not (run / STAGE_ONE).is_file():
        raise ConfigError(f"{run} holds no {STAGE_ONE}.", "Give the folder of a run of `soundwhere train`.")
    return [(int(path.stem.removeprefix("stage-one-")), path) for path in paths]


def _is_duet(scene: Scene) -> bool:
    return len(scene.masks) == 2 and bool(scene.masks.any((1, 2)).all())


def _with_gains(scene: Scene, gain_db: float) -> Scene:
    """The scene with each sound's level changed at random, always in the same way."""
    if not gain_db:
        return scene
    rng = np.random.default_rng(crc32(scene.name.encode()))
    gains = 10 ** (rng.uniform(-gain_db, gain_db, (len(scene.sounds), 1)) / 20)
    return replace(scene, sounds=scene.sounds * gains.astype(np.float32))


def _facts(scene: Scene) -> tuple[bool, float, float]:
    """Whether the first source is the left one, the left one's level above the other's, and log2 of their areas."""
    areas = scene.masks.sum((1, 2))
    columns = scene.masks.sum(1) @ np.arange(scene.masks.shape[2]) / areas
    left = int(columns[1] < columns[0])
    level = np.nan
    if len(scene.sounds) == 2:
        power = np.square(scene.sounds, dtype=np.float64).mean(1)
        if power.min() > 0:
            level = float(10 * np.log10(power[left] / power[1 - left]))
    return left == 0, level, float(np.log2(areas[left] / areas[1 - left]))
