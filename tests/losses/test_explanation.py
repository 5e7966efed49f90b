from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.losses.explanation import explanation_contrast


def slow_contrast(fits: torch.Tensor, belongs: torch.Tensor) -> float:
    """Every picture that sounds by itself, in its place each silent one."""
    total, count = 0.0, 0
    for m, p in belongs.nonzero().tolist():
        others = [q for q in range(belongs.shape[1]) if belongs[m, q] and q != p]
        rivals = [q for q in range(belongs.shape[1]) if not belongs[m, q]]

        def explained(q: int, m: int = m, others: list[int] = others) -> float:
            moments = [max(float(moment[r]) for r in [q, *others]) for moment in fits[m]]
            return math.exp(60 * sum(moments) / len(moments))

        total += -math.log(explained(p) / (explained(p) + sum(map(explained, rivals))))
        count += 1
    return total / max(count, 1)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(0, 10_000))
def test_against_a_slow_reference(mixtures: int, moments: int, pictures: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    fits = torch.rand(mixtures, moments, pictures, generator=generator, dtype=torch.float64)
    belongs = (torch.rand(mixtures, pictures, generator=generator) < 0.5).double()
    assert float(explanation_contrast(fits, belongs)) == pytest.approx(slow_contrast(fits, belongs), abs=1e-9)


def test_what_another_explains_already_counts_for_nothing() -> None:
    """The first picture explains the first moment; beside it the second has to explain the other one."""
    belongs = torch.tensor([[1.0, 1.0, 0.0]])
    fits = torch.tensor([[[0.9, 0.0, 0.8], [0.0, 0.5, 0.1]]])
    good = explanation_contrast(fits, belongs)
    louder = explanation_contrast(fits + torch.tensor([[0.0, 0.3, 0.0], [0.0, 0.0, 0.0]]), belongs)
    torch.testing.assert_close(good, louder, atol=1e-6, rtol=0)
    silent = explanation_contrast(torch.tensor([[[0.9, 0.0, 0.8], [0.0, 0.1, 0.5]]]), belongs)
    assert silent > good + 5


def test_nothing_sounds_and_gradients_are_finite() -> None:
    fits = torch.rand(2, 3, 4, requires_grad=True)
    assert explanation_contrast(fits, torch.zeros(2, 4)).item() == 0
    explanation_contrast(fits, torch.eye(2, 4)).backward()
    assert fits.grad is not None
    assert fits.grad.isfinite().all()
    assert fits.grad.abs().max() > 0
