"""Iterative object identification: objects are found one after the other until nothing left resembles the sound.

Shapes: B scenes, N cells (row by row), C channels, T iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Thresholds

BACKGROUND = -1
"""Group of the seeds that turn out to be background."""

_MARGIN = 1e-6  # of torch's own pairwise distance


@dataclass(frozen=True)
class Rules:
    """When identification ends, and what belongs together.

    Attributes:
        stop: Similarity below which nothing is looked for.
        background: Cosine to the background above which a seed is background.
        merge: Cosine above which two seeds are one object.
    """

    stop: float = 0.1
    background: float = 0.7
    merge: float = 0.6


class Identified(NamedTuple):
    """What every iteration found.

    Attributes:
        seeds: The cell that began it, shape (B, T), int64; in a scene that is finished, any cell.
        vectors: e, what is seen in that cell, shape (B, T, C); 0 once a scene is finished.
        joined: Cells that joined it, shape (B, T, N), bool.
    """

    seeds: Tensor
    vectors: Tensor
    joined: Tensor


def background_of(cells: Tensor, similarity: Tensor, thresholds: Thresholds) -> Tensor:
    """b, the mean over all cells of what is seen, weighted by how surely it is background.

    Args:
        cells: z, shape (B, N, C).
        similarity: S, shape (B, N).
        thresholds: Of the soft negative mask.

    Returns:
        Shape (B, C).
    """
    negative = torch.sigmoid((thresholds.negative - similarity) / thresholds.temperature)
    return (negative[..., None] * cells).mean(1)


@torch.no_grad()
def distances_between(cells: Tensor) -> Tensor:
    """From every cell (row) to every other as a seed (column), shape (B, N, N).

    As published, 1e-6 is added to each component of a difference.
    """
    return torch.cdist(cells + _MARGIN, cells)


def identify(cells: Tensor, similarity: Tensor, background: Tensor, stop: float) -> Identified:
    """Take the best cell that is left as a seed, let cells join that are nearer to it than to the background; repeat.

    A scene is finished when no cell joins or nothing is left that is similar enough; all are done when the last is.

    Args:
        cells: z, shape (B, N, C).
        similarity: S, shape (B, N).
        background: b, shape (B, C).
        stop: Similarity below which nothing is looked for.
    """
    rows = torch.arange(len(cells), device=cells.device)
    nearer = distances_between(cells) < F.pairwise_distance(cells, background[:, None]).detach()[..., None]
    left = similarity.detach().clone()
    free = torch.ones_like(left, dtype=torch.bool)
    going = torch.ones(len(cells), dtype=torch.bool, device=cells.device)
    found: list[tuple[Tensor, ...]] = []
    while going.any():
        seeds = left.argmax(1)
        joined = nearer[rows, :, seeds] & free
        found.append((seeds, cells[rows, seeds] * going[:, None], joined))
        left[joined] = 0
        free &= ~joined
        going = going & joined.any(1) & (left.amax(1) >= stop)
    return Identified(*(torch.stack(parts, dim=1) for parts in zip(*found, strict=True)))


def group(vectors: Tensor, background: Tensor, rules: Rules) -> list[int]:
    """Which seeds of one scene are one object, by the number of the seed that stands for it.

    Seeds that resemble the background are `BACKGROUND`. Every other one takes over the groups of all earlier seeds it
    resembles, background or not; so one seed may stand for a group through a chain of alike ones.

    Args:
        vectors: e, shape (T, C).
        background: b, shape (C,).
        rules: Cosines that decide.
    """
    unit = F.normalize(vectors.detach(), dim=1)
    alike = (unit @ unit.T > rules.merge).tolist()
    is_background = (unit @ F.normalize(background.detach(), dim=0) > rules.background).tolist()
    above = list(range(len(unit)))

    def root(number: int) -> int:
        while above[number] != number:
            number = above[number]
        return number

    for number, resembled in enumerate(alike):
        if is_background[number]:
            continue
        for earlier in range(number):
            if resembled[earlier]:
                above[root(earlier)] = root(number)
    return [BACKGROUND if is_background[number] else root(number) for number in range(len(unit))]


def object_loss(vectors: Tensor, background: Tensor, groups: Tensor) -> Tensor:
    """Seeds that stand for a group are drawn to their group, and away from every other seed and the background.

    As published, the other seeds include those of the background and the zeros of iterations after a scene was
    finished, so that the loss of a scene depends a little on how long the others of its batch took.

    Args:
        vectors: e, shape (B, T, C).
        background: b, shape (B, C).
        groups: Of every seed, shape (B, T), int64.

    Returns:
        The sum over objects, divided by B.
    """
    iterations = vectors.shape[1]
    keys = torch.arange(iterations, device=vectors.device)
    member = (groups[..., None] == keys).to(vectors.dtype)  # (B, seeds, keys)
    count = member.sum(1)
    inside = torch.einsum("btk,btc->bkc", member, vectors)
    outside = vectors.sum(1, keepdim=True) - inside
    counted = (count > 0) & (count < iterations) & vectors.detach().any(-1)
    key, own = vectors[counted], (inside / count.clamp_min(1)[..., None])[counted]
    others = (outside / (iterations - count).clamp_min(1)[..., None] + background[:, None])[counted]
    return (1 - F.cosine_similarity(key, own) + F.cosine_similarity(key, others)).sum() / len(vectors)


def object_maps(distances: Tensor, groups: list[int]) -> Tensor:
    """How near every cell of a scene is to each object: minus the mean distance to its seeds, by the first seed.

    Args:
        distances: From every cell to each of a scene's seeds, shape (T, N).
        groups: Of every seed.

    Returns:
        Shape (objects, N); there may be none.
    """
    keys = [key for key in dict.fromkeys(groups) if key != BACKGROUND]
    numbers = torch.tensor(groups, device=distances.device)
    maps = [-distances[numbers == key].mean(0) for key in keys]
    return torch.stack(maps) if maps else distances.new_zeros(0, distances.shape[1])
