from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.methods.scav.decouplers import AudioDecoupler, VisualDecoupler, sinusoidal_positions
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from soundwhere.methods.scav.config import SCAVConfig


@given(st.sampled_from([4, 16, 128]), st.integers(1, 16), st.integers(1, 20))
def test_every_cell_has_a_position_of_its_own(dimension: int, height: int, width: int) -> None:
    positions = sinusoidal_positions(dimension, height, width)
    assert positions.shape == (dimension, height, width)
    assert positions.abs().max() <= 1
    cells = positions.flatten(1).T
    apart = torch.cdist(cells, cells, compute_mode="donot_use_mm_for_euclid_dist") + torch.eye(len(cells)) * 9
    assert apart.min() > 1e-3


def test_positions_are_sines_and_cosines_of_row_and_column() -> None:
    positions = sinusoidal_positions(8, 3, 5)
    for y in range(3):
        for x in range(5):
            expected = [
                value
                for place in (y, x)
                for wave in (math.sin, math.cos)
                for value in (wave(place), wave(place / 10_000 ** (2 / 4)))
            ]
            assert positions[:, y, x].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_cells_position_does_not_depend_on_the_grid() -> None:
    torch.testing.assert_close(sinusoidal_positions(16, 9, 14)[:, :4, :6], sinusoidal_positions(16, 4, 6))


@pytest.mark.parametrize("grid", [(1, 1), (2, 5), (7, 14)])
def test_shapes(grid: tuple[int, int]) -> None:
    part = torch.randn(2, 16, *grid)
    refined = VisualDecoupler(16, layers=2, heads=4)(part)
    assert refined.shape == part.shape
    assert AudioDecoupler(16, heads=4)(torch.randn(2, 16), refined).shape == (2, 16)


def test_the_visual_decoupler_keeps_cells_in_place() -> None:
    torch.manual_seed(0)
    decoupler, part = VisualDecoupler(16, layers=1, heads=2).eval(), torch.randn(1, 16, 3, 4)
    flipped = decoupler(part.flip(-1)).flip(-1)  # attention has no order of its own
    torch.testing.assert_close(flipped, decoupler(part), rtol=1e-4, atol=1e-5)


def test_sound_attends_to_what_is_seen() -> None:
    torch.manual_seed(0)
    decoupler, mixed = AudioDecoupler(16, heads=2), torch.randn(1, 16)
    one, other = (decoupler(mixed, torch.randn(1, 16, 2, 2)) for _ in range(2))
    assert (one - other).abs().max() > 1e-3


def test_the_branches_do_not_see_each_other(tiny: SCAVConfig) -> None:
    torch.manual_seed(0)
    model = SCAV(tiny).eval()
    features, heard = torch.rand(2, 128, 2, 4), torch.rand(2, 2, 128)
    prior = torch.zeros(2, 2, 4)
    prior[:, :, :2] = 1
    changed = features.clone()
    changed[:, :, :, 2:] += 1  # only where the second branch looks
    before, after = (model.decouple(f, heard, prior) for f in (features, changed))
    torch.testing.assert_close(before.features[:, 0], after.features[:, 0])
    torch.testing.assert_close(before.embeddings[:, 0], after.embeddings[:, 0])
    assert (before.features[:, 1] - after.features[:, 1]).abs().max() > 1e-3


def test_shared_weights_treat_both_branches_alike(tiny: SCAVConfig) -> None:
    torch.manual_seed(0)
    model = SCAV(tiny).eval()
    features, heard, prior = torch.rand(1, 128, 2, 2), torch.rand(1, 2, 128), torch.rand(1, 2, 2)
    there, back = model.decouple(features, heard, prior), model.decouple(features, heard, 1 - prior)
    torch.testing.assert_close(there.features, back.features.flip(1))
    torch.testing.assert_close(there.embeddings, back.embeddings.flip(1))


def test_unshared_decouplers_differ(tiny: SCAVConfig) -> None:
    torch.manual_seed(0)
    shared, apart = SCAV(tiny), SCAV(replace(tiny, share_decoupler=False)).eval()
    assert len(shared.visual_decouplers) == 1
    assert len(apart.visual_decouplers) == 2
    half = torch.full((1, 2, 2), 0.5)
    branches = apart.decouple(torch.rand(1, 128, 2, 2), torch.rand(1, 2, 128), half)
    assert (branches.features[:, 0] - branches.features[:, 1]).abs().max() > 1e-3
