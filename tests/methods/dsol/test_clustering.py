from __future__ import annotations

import pytest
import torch

from soundwhere.errors import DataError
from soundwhere.methods.dsol.clustering import cluster_means, clusters_of_classes, k_means, nearest


def blobs(count: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    middles = torch.randn(4, 5, generator=generator) * 6
    owner = torch.arange(count) % 4
    return middles[owner] + 0.1 * torch.randn(count, 5, generator=generator), owner


def test_blobs_are_found_whatever_the_seed() -> None:
    points, owner = blobs()
    for seed in range(3):
        centres, numbers = k_means(points, 4, seed)
        assert torch.equal(numbers[:, None] == numbers, owner[:, None] == owner)
        assert torch.equal(nearest(points, centres), numbers)


def test_a_seed_gives_the_same_clusters_again() -> None:
    points = torch.randn(60, 8, generator=torch.Generator().manual_seed(3))
    first, second = (k_means(points, 7, seed=5) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_it_is_as_good_as_that_of_scikit_learn() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    points = torch.randn(80, 6, generator=torch.Generator().manual_seed(2)).double()
    centres, numbers = k_means(points, 5, seed=0)
    ours = float((points - centres[numbers]).square().sum())
    theirs = cluster.KMeans(5, n_init=10, random_state=0).fit(points.numpy()).inertia_
    assert ours <= 1.02 * theirs


def test_equal_points_and_too_few_points() -> None:
    centres, numbers = k_means(torch.ones(5, 3), 3, seed=0)
    assert centres.shape == (3, 3)
    assert torch.equal(numbers, numbers[:1].expand(5))
    with pytest.raises(DataError, match="2 clips cannot be put into 3 clusters"):
        k_means(torch.ones(2, 3), 3, seed=0)


def test_an_empty_cluster_keeps_what_it_was() -> None:
    otherwise = torch.full((3, 2), 7.0)
    means = cluster_means(torch.tensor([[0.0, 0.0], [2.0, 4.0], [5.0, 5.0]]), torch.tensor([0, 0, 2]), otherwise)
    assert means.tolist() == [[1, 2], [7, 7], [5, 5]]


def test_clusters_stand_for_the_class_of_most_of_their_clips_and_every_class_has_one() -> None:
    numbers = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
    labels = torch.tensor([0, 0, 1, 0, 0, 1, 1, 2, 1])
    stands = clusters_of_classes(numbers, labels, clusters=4, classes=3)
    assert stands.int().tolist() == [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]]
