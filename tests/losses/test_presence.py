from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.losses.presence import multi_positive_contrast, presence_loss


def slow_contrast(logits: torch.Tensor, belongs: torch.Tensor) -> float:
    """Every positive by itself, against the negatives of its row and of its column."""
    total, count = 0.0, 0
    for m, p in belongs.nonzero().tolist():
        row = [math.exp(logits[m, q]) for q in range(logits.shape[1]) if not belongs[m, q]]
        column = [math.exp(logits[n, p]) for n in range(logits.shape[0]) if not belongs[n, p]]
        own = math.exp(logits[m, p])
        total += -math.log(own / (own + sum(row))) - math.log(own / (own + sum(column)))
        count += 1
    return total / max(count, 1)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 10_000))
def test_contrast_against_a_slow_reference(mixtures: int, pictures: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(mixtures, pictures, generator=generator, dtype=torch.float64)
    belongs = (torch.rand(mixtures, pictures, generator=generator) < 0.4).double()
    assert float(multi_positive_contrast(logits, belongs)) == pytest.approx(slow_contrast(logits, belongs), abs=1e-9)


def test_two_that_sound_at_once_do_not_compete() -> None:
    belongs = torch.tensor([[1.0, 1.0, 0.0]])
    alone = multi_positive_contrast(torch.tensor([[2.0, -50.0, 0.0]]), belongs)
    together = multi_positive_contrast(torch.tensor([[2.0, 50.0, 0.0]]), belongs)
    first = math.log1p(math.exp(-2.0))  # of the first picture: the third is its only rival, whatever the second does
    assert float(alone) == pytest.approx((first + 50) / 2, rel=1e-4)
    assert float(together) == pytest.approx(first / 2, rel=1e-4)


def test_presence_weighs_both_kinds_however_many_there_are() -> None:
    belongs = torch.zeros(1, 100)
    belongs[0, 0] = 1
    assert float(presence_loss(torch.zeros(1, 100), belongs)) == pytest.approx(4 * math.log(2))
    sure = torch.where(belongs > 0, 20.0, -20.0)
    assert float(presence_loss(sure, belongs)) < 1e-6
    assert presence_loss(torch.zeros(2, 3), torch.zeros(2, 3)).isfinite()  # nothing sounds
