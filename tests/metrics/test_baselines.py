import math

import pytest
import torch

from soundwhere.metrics.baselines import constant_cells, constant_pair


def test_the_constant_pair_is_a_gaussian_in_the_middle_of_each_half():
    maps = constant_pair(224, 448, sigma_px=70)
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
