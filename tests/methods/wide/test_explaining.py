"""Which of the things that are seen explain what is heard."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from soundwhere.methods.wide.explaining import (
    ELSEWHERE,
    EVIDENCE,
    elsewhere,
    evidence,
    explain,
    main_thing,
)


def picture(*things: int, size: int = 8) -> torch.Tensor:
    """A row of cells, each showing one of several things that have nothing in common, shape (1, C, 1, cells)."""
    return torch.eye(size)[list(things)].T[None, :, None]


def sound(*things: int, size: int = 8) -> torch.Tensor:
    """A sound whose moments are each due to one thing, shape (1, N, C)."""
    return torch.eye(size)[list(things)][None]


def test_a_moment_is_due_to_the_thing_that_it_fits() -> None:
    """An engine runs through four of five moments; what barks once is found all the same."""
    found = explain(picture(0, 0, 1, 1, 2, 2), sound(2, 2, 0, 2, 2), 2)
    assert [cell // 2 for cell in found.cells[0].tolist()] == [2, 0]  # the engine explains more
    assert found.owners[0].round().tolist() == [[1, 1, 0, 1, 1], [0, 0, 1, 0, 0]]
    assert found.maps.shape == (1, 2, 6)
    assert found.maps[0].argmax(1).tolist() in ([4, 0], [5, 1], [4, 1], [5, 0])


def test_one_thing_is_not_called_two() -> None:
    """Whatever is heard, cells that look alike never count as two things."""
    found = explain(picture(3, 3, 3, 5, size=8), sound(3, 3, 3), 2)
    first, second = found.cells[0].tolist()
    assert 3 in (first, second)
    assert first != second


@given(st.integers(0, 2**31 - 1), st.integers(2, 4))
def test_the_pair_is_the_best_of_all_pairs(seed: int, moments: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = torch.rand(1, 6, 2, 4, generator=generator) ** 4
    heard = F.normalize(torch.rand(1, moments, 6, generator=generator), dim=-1)
    found = explain(features, heard, 2)
    fits, alike = found.fits[0], found.alike[0]

    def explained(pair: tuple[int, ...]) -> float:
        return float(torch.stack([fits[:, cell] for cell in pair]).amax(0).mean())

    allowed = [pair for pair in combinations(range(8), 2) if alike[pair] <= 0.35]
    if allowed:
        assert explained(tuple(found.cells[0].tolist())) == pytest.approx(max(map(explained, allowed)), abs=1e-6)
    assert float(fits[:, found.cells[0, 0]].mean()) >= float(fits[:, found.cells[0, 1]].mean())
    torch.testing.assert_close(found.owners.sum(1), torch.ones(1, moments))


@pytest.mark.parametrize("sources", [1, 2, 3, 4])
def test_any_number_of_things(sources: int) -> None:
    found = explain(picture(0, 1, 2, 3, 4), sound(4, 4, 4, 1, 1, 0), sources)
    assert found.cells[0].tolist()[: min(3, sources)] == [4, 1, 0][:sources]
    assert len(set(found.cells[0].tolist())) == sources
    assert found.gains().shape == (1, sources)
    torch.testing.assert_close(found.gains().sum(), found.own.amax(1).mean())


def test_evidence_tells_one_sound_from_two() -> None:
    one, two = (evidence(explain(picture(0, 1, 2), heard, 2), heard)[0] for heard in (sound(0, 0, 0), sound(0, 0, 1)))
    assert one.shape == (EVIDENCE,)
    assert two[19] > one[19] + 0.2  # how far the second thing is ahead at best
    assert two[24] < one[24] - 0.2  # how alike the moments sound
    nothing = torch.zeros(2, 4, 8)
    assert evidence(explain(torch.zeros(2, 8, 1, 3), nothing, 2), nothing).isfinite().all()


def test_a_sound_of_something_else_fits_other_things_as_well() -> None:
    others = main_thing(torch.cat([picture(thing, thing, 7) for thing in range(4)]))
    here, absent = (elsewhere(picture(4, 4, 5), heard, heard, others)[0] for heard in (sound(4, 4), sound(3, 3)))
    assert here.shape == (ELSEWHERE,)
    assert here[3] < 0.5 < absent[3]  # the best of the other things
    assert here[4] > 0.9 > absent[4]  # what is seen


def test_the_main_thing_is_that_of_the_strongest_cell() -> None:
    seen = picture(2, 2, 5)
    seen[..., -1] *= 10
    thing = main_thing(seen)
    assert thing.shape == (1, 8)
    assert thing.argmax() == 5


@given(st.integers(1, 6), st.integers(0, 2**16))
def test_evidence_does_not_depend_on_the_order_of_moments(moments: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = torch.rand(1, 8, 2, 3, generator=generator)
    heard = torch.rand(1, moments, 8, generator=generator)
    shuffled = heard[:, torch.randperm(moments, generator=generator)]
    torch.testing.assert_close(
        evidence(explain(features, heard, 2), heard), evidence(explain(features, shuffled, 2), shuffled)
    )
