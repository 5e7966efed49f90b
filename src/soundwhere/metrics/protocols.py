"""The paper's two protocols: each map over the full picture, or cropped to the frame that holds its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from soundwhere.errors import DataError
from soundwhere.metrics.binarise import DEFAULT_RULE, Rule, binarise
from soundwhere.metrics.functional import count, iou, leakage, pointing_game
from soundwhere.metrics.matching import Policy, hungarian
from soundwhere.metrics.pairs import PairScores
from soundwhere.metrics.precision import average_precision

if TYPE_CHECKING:
    from torch import Tensor

Grid = tuple[int, int]
"""Rows and columns of equal frames that a joined picture consists of."""


def frame_wise(
    maps: Tensor,
    truth: Tensor,
    rule: Rule | str = DEFAULT_RULE,
    policy: Policy = "repeat",
    scenes: Tensor | None = None,
) -> PairScores:
    """Score maps over the full frame, against truth that is zero outside its source (Eq. iou_def).

    Args:
        maps: Heatmaps in no particular order, shape (B, K, H, W), higher where it sounds; boolean maps are masks.
        truth: Sounding objects, shape (B, M, H, W), bool. A source with an empty mask (padding, a broken annotation)
            is left out, as the paper's delta_k does.
        rule: Binarisation rule.
        policy: What to do when K < M.
        scenes: Numbers of the scenes, shape (B,), int64; 0, 1 .. by default.

    Returns:
        One row per source with a mask.
    """
    _check(maps, truth)
    return score_views(maps[:, :, None], binarise(maps, rule)[:, :, None], truth, policy, scenes)


def source_wise(
    maps: Tensor,
    truth: Tensor,
    rule: Rule | str = DEFAULT_RULE,
    policy: Policy = "repeat",
    scenes: Tensor | None = None,
    grid: Grid = (1, 2),
) -> PairScores:
    """Binarise maps over the full frame, then score each in the frame of its source only (Eq. iou_source).

    Args:
        maps: As `frame_wise`.
        truth: As `frame_wise`; each source's frame is the one that holds most of its mask.
        rule: As `frame_wise`.
        policy: As `frame_wise`.
        scenes: As `frame_wise`.
        grid: Rows and columns of frames in the picture.

    Returns:
        One row per source with a mask.
    """
    _check(maps, truth)
    frames = frame_of_source(truth, grid)
    binary = binarise(maps, rule)
    return score_views(
        crop(maps, frames, grid), crop(binary, frames, grid), crop_own(truth, frames, grid), policy, scenes
    )


def score_views(
    views: Tensor, binary: Tensor, truth: Tensor, policy: Policy = "repeat", scenes: Tensor | None = None
) -> PairScores:
    """Match predictions to sources and score the matched pairs.

    Args:
        views: Map k as it is compared with source m, shape (B, K, M, h, w), or (B, K, 1, h, w) if the same for all.
        binary: The same, binarised.
        truth: Shape (B, M, h, w), bool.
        policy: What to do when K < M.
        scenes: Numbers of the scenes, shape (B,).

    Returns:
        One row per source with a mask.
    """
    batch, sources = truth.shape[:2]
    present = count(truth) > 0
    quality = iou(binary, truth[:, None])
    # an absent source must not take a prediction from a present one
    chosen = hungarian(quality.masked_fill(~present[:, None], -1.0), policy)

    rows = torch.arange(batch, device=truth.device)[:, None].expand(batch, sources)
    columns = torch.arange(sources, device=truth.device).expand(batch, sources)
    scene, source, prediction = rows[present], columns[present], chosen[present]
    view = torch.zeros_like(source) if views.shape[2] == 1 else source
    maps, masks, own = views[scene, prediction, view], binary[scene, prediction, view], truth[scene, source]
    others = truth.any(1)[scene] & ~own
    scores = {
        "iou": quality[scene, prediction, source],
        "ap": average_precision(maps, own),
        "pointing": pointing_game(maps, own),
        "leakage": leakage(masks, others),
    }
    answered = prediction >= 0  # a missing map scores 0
    scores = {name: torch.where(answered, score, 0.0) for name, score in scores.items()}
    return PairScores(scene=scene if scenes is None else scenes[scene], source=source, prediction=prediction, **scores)


def frame_of_source(truth: Tensor, grid: Grid) -> Tensor:
    """The frame, counted row by row, that holds most of each mask (B, M, H, W); shape (B, M), int64."""
    return count(_frames(truth, grid)).argmax(-1)


def crop(maps: Tensor, frames: Tensor, grid: Grid) -> Tensor:
    """Each map (B, K, H, W) in the frame of each source (B, M), shape (B, K, M, h, w)."""
    rows = torch.arange(len(maps), device=maps.device)[:, None]
    return _frames(maps, grid)[rows, :, frames].movedim(2, 1)


def crop_own(truth: Tensor, frames: Tensor, grid: Grid) -> Tensor:
    """Each mask (B, M, H, W) in its own frame (B, M), shape (B, M, h, w)."""
    rows = torch.arange(len(truth), device=truth.device)[:, None]
    columns = torch.arange(truth.shape[1], device=truth.device)
    return _frames(truth, grid)[rows, columns, frames]


def _frames(maps: Tensor, grid: Grid) -> Tensor:
    """Maps (..., H, W) cut into their frames, shape (..., rows x columns, h, w)."""
    height, width = maps.shape[-2:]
    if height % grid[0] or width % grid[1]:
        raise DataError(
            f"A map of {height} x {width} pixels is no grid of {grid[0]} x {grid[1]} equal frames.",
            "Source-wise scoring needs a picture joined from frames of one size; use frame_wise for other pictures.",
        )
    cells = maps.reshape(*maps.shape[:-2], grid[0], height // grid[0], grid[1], width // grid[1])
    return cells.movedim(-2, -3).flatten(-4, -3)


def _check(maps: Tensor, truth: Tensor) -> None:
    if maps.ndim != 4 or truth.ndim != 4 or len(maps) != len(truth) or maps.shape[-2:] != truth.shape[-2:]:
        raise DataError(
            f"Maps of shape {tuple(maps.shape)} cannot be scored against masks of shape {tuple(truth.shape)}.",
            "Both have four dimensions (scenes, maps or sources, height, width) and agree in all but the second.",
        )
    if not maps.shape[1]:
        raise DataError("There is no heatmap to score.", "A method answers with at least one map per scene.")
