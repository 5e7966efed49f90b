"""A peak grows over the object it lies on, and `peel` takes one object after another."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from soundwhere.models.growth import grow, peel


@pytest.fixture
def scene() -> tuple[Tensor, Tensor]:
    """Two objects of 4 cells with features of their own on a weak background; the left one sounds more similar."""
    features = torch.zeros(1, 3, 4, 8)
    features[:, 2] = 0.1
    features[0, :, 1:3, 1:3] = torch.tensor([1.0, 0, 0])[:, None, None]
    features[0, :, 1:3, 5:7] = torch.tensor([0.0, 1, 0])[:, None, None]
    similarity = torch.full((1, 4, 8), 0.1)
    similarity[0, 1, 1], similarity[0, 2, 6] = 0.9, 0.7
    return similarity, features


def test_a_peak_grows_into_its_object(scene: tuple[Tensor, Tensor]) -> None:
    grown = grow(*scene)[0]
    assert grown[1:3, 1:3].min() > 0.9
    assert grown.sum() - grown[1:3, 1:3].sum() < 0.1


def test_peel_finds_both_objects_one_after_another(scene: tuple[Tensor, Tensor]) -> None:
    maps = peel(*scene, sources=2)
    assert maps.shape == (1, 2, 4, 8)
    left, right = maps[0]
    assert left[1:3, 1:3].min() > 0.8
    assert left[1:3, 5:7].max() < 0.1
    assert right[1:3, 5:7].min() > 0.6
    assert right[1:3, 1:3].max() < 0.1
    assert left.max() > right.max()  # as sure as the similarity of its peak


@pytest.mark.parametrize("similarity", [torch.zeros(2, 3, 3), -torch.ones(2, 3, 3), torch.ones(2, 3, 3)])
def test_maps_stay_between_0_and_1(similarity: Tensor) -> None:
    maps = peel(similarity, torch.rand(2, 4, 3, 3, generator=torch.Generator().manual_seed(0)), sources=3)
    assert maps.isfinite().all()
    assert maps.min() >= 0
    assert maps.max() <= 1
    assert grow(similarity, torch.zeros(2, 4, 3, 3)).isfinite().all()
