"""A peak grows over the object it lies on, and `peel` takes one object after another."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from soundwhere.methods.scav.peeling import grow, peel


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


@given(st.integers(0, 100), st.sampled_from([(1, 3), (2, 2), (3, 1)]))
def test_in_a_picture_of_frames_every_map_keeps_to_one_of_its_own(seed: int, grid: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    similarity = torch.rand(2, 6, 6, generator=generator)
    maps = peel(similarity, torch.rand(2, 4, 6, 6, generator=generator), 2, grid)
    frames = maps.reshape(2, 2, grid[0], 6 // grid[0], grid[1], 6 // grid[1]).amax((3, 5)).flatten(2)
    assert ((frames > 0).sum(2) == 1).all()
    assert (frames.argmax(2)[:, 0] != frames.argmax(2)[:, 1]).all()
    best = similarity.reshape(2, grid[0], 6 // grid[0], grid[1], 6 // grid[1]).amax((2, 4)).flatten(1)
    assert torch.equal(frames.argmax(2), best.topk(2).indices)
    torch.testing.assert_close(frames.amax(2), best.topk(2).values)
