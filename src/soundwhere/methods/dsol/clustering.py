"""k-means with a seed, and which class a cluster stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from soundwhere.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

_ROUNDS = 100  # at most; a few dozen are usual
_STARTS = 10  # the best of which is kept


def k_means(points: Tensor, clusters: int, seed: int) -> tuple[Tensor, Tensor]:
    """Centres and the cluster of every point, the best of ten runs from k-means++ starts.

    Args:
        points: Shape (N, C), on any device; computed in double precision on the CPU, so that processes agree.
        clusters: K, at most N.
        seed: Decides the starts.

    Returns:
        Centres (K, C) in the order found, float64, and numbers of clusters (N,), int64.

    Raises:
        DataError: There are fewer points than clusters.
    """
    if len(points) < clusters:
        raise DataError(
            f"{len(points)} clips cannot be put into {clusters} clusters.", "Add clips, or lower --clusters."
        )
    points = points.detach().double().cpu()
    generator = torch.Generator().manual_seed(seed)
    runs = [_run(points, _starts(points, clusters, generator)) for _ in range(_STARTS)]
    centres, numbers, _ = min(runs, key=lambda run: run[2])
    return centres, numbers


def nearest(points: Tensor, centres: Tensor) -> Tensor:
    """The number of the centre (K, C) that is nearest to each point (N, C), shape (N,), int64."""
    return torch.cdist(points.to(centres), centres).argmin(1)


def _starts(points: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """k-means++: each further start is drawn with a chance that grows with the squared distance to those there are."""
    chosen = [int(torch.randint(len(points), (1,), generator=generator))]
    while len(chosen) < clusters:
        distance = torch.cdist(points, points[chosen]).amin(1).square()
        distance = distance if distance.sum() > 0 else torch.ones_like(distance)  # fewer different points than clusters
        chosen.append(int(torch.multinomial(distance, 1, generator=generator)))
    return points[chosen]


def _run(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor, float]:
    """Centres, numbers of clusters, and the sum of squared distances; an empty cluster keeps its centre."""
    numbers = nearest(points, centres)
    for _ in range(_ROUNDS):
        centres = cluster_means(points, numbers, centres)
        before, numbers = numbers, nearest(points, centres)
        if torch.equal(before, numbers):
            break
    return centres, numbers, float((points - centres[numbers]).square().sum())


def cluster_means(points: Tensor, numbers: Tensor, otherwise: Tensor) -> Tensor:
    """The mean of each cluster's points.

    Args:
        points: Shape (N, C).
        numbers: Of their clusters, shape (N,).
        otherwise: What stands for an empty cluster, shape (K, C).
    """
    count = torch.bincount(numbers, minlength=len(otherwise))
    sums = torch.zeros_like(otherwise).index_add_(0, numbers, points.to(otherwise))
    return torch.where(count[:, None] > 0, sums / count.clamp_min(1)[:, None], otherwise)


def clusters_of_classes(numbers: Tensor, labels: Tensor, clusters: int, classes: int) -> Tensor:
    """Which clusters stand for a class, shape (classes, clusters), bool, from clips whose class is known.

    A cluster stands for the class that most of its clips are of. A class that no cluster stands for takes the one with
    the largest share of its clips, so that every class has a map.

    Args:
        numbers: Of the clips' clusters, shape (N,).
        labels: Of their classes, shape (N,).
        clusters: How many clusters there are.
        classes: How many classes there are.
    """
    counts = torch.zeros(classes, clusters, dtype=torch.int64)
    counts.index_put_((labels, numbers), torch.ones_like(labels), accumulate=True)
    stands = torch.zeros(classes, clusters, dtype=torch.bool)
    stands[counts.argmax(0), torch.arange(clusters)] = counts.amax(0) > 0
    without = ~stands.any(1)
    stands[without, counts[without].argmax(1)] = True
    return stands
