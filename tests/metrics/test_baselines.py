import math

import pytest
import torch

from soundwhere.metrics.baselines import constant_cells, everything_on, feature_norm, random_smooth


def test_the_constant_pair_is_a_gaussian_in_the_middle_of_each_half():
    maps = constant_cells(224, 448, (1, 2), sigma_px=70)
    assert maps.shape == (2, 224, 448)
    for half, map_ in enumerate(maps):
        y, x = 30, 100
        squared = (y - 111.5) ** 2 + (x - 111.5 - 224 * half) ** 2
        assert map_[y, x].item() == pytest.approx(math.exp(-squared / (2 * 70**2)), rel=1e-5)
    assert torch.allclose(maps[0], maps[1].flip(-1))


def test_cells_are_counted_row_by_row():
    maps = constant_cells(20, 30, (2, 3), sigma_px=3, cells=[5, 0])
    peaks = [divmod(int(map_.argmax()), 30) for map_ in maps]
    assert [(y // 10, x // 10) for y, x in peaks] == [(1, 2), (0, 0)]


def test_everything_on_is_a_mask():
    assert everything_on(3, 4).dtype == torch.bool
    assert everything_on(3, 4).sum() == 24


def test_random_maps_are_smooth_and_seeded():
    maps = random_smooth(224, 448, seed=3)
    assert maps.shape == (2, 224, 448)
    assert torch.equal(maps, random_smooth(224, 448, seed=3))
    assert not torch.equal(maps, random_smooth(224, 448, seed=4))
    assert maps.min() >= 0
    assert maps.max() <= 1
    assert maps.diff(dim=-1).abs().max() <= 1 / 32 + 1e-6


def test_the_feature_norm_is_cut_at_the_seams():
    features = torch.rand(2, 5, 2, 6, generator=torch.Generator().manual_seed(0))
    features[0, :, :, 4:] *= 5  # the third frame stands out in the first scene
    whole = feature_norm(features, 8, 24)
    assert whole.shape == (2, 1, 8, 24)
    pieces = feature_norm(features, 8, 24, grid=(1, 3))
    assert torch.equal(pieces.sum(1, keepdim=True), whole)
    assert all((pieces[:, k, :, 8 * j : 8 * j + 8] == 0).all() for k in range(3) for j in range(3) if j != k)
    strongest = feature_norm(features, 8, 24, grid=(1, 3), maps=2)
    assert strongest.shape == (2, 2, 8, 24)
    assert torch.equal(strongest[0, 0], pieces[0, 2])


def test_a_coarse_norm_at_its_own_size_is_the_norm():
    features = torch.tensor([[[[3.0, 0.0]], [[4.0, 1.0]]]])
    assert feature_norm(features, 1, 2).tolist() == [[[[5.0, 1.0]]]]
