"""Soft masks and their scores: the plain formula where it can be computed, and sense where it cannot."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from soundwhere.config import Thresholds
from soundwhere.losses.contrastive import contrast
from soundwhere.losses.thresholding import negative_score, positive_score

PAPER = Thresholds()


def maps(low: float, high: float) -> st.SearchStrategy[torch.Tensor]:
    values = st.floats(low, high, width=32)
    return hnp.arrays("float32", (2, 2, 3), elements=values).map(torch.from_numpy)


def plain_scores(cells: list[float]) -> tuple[float, float]:
    """Eqs. masks, positive_score and the first term of negative_score, as they are written."""
    positive = [1 / (1 + math.exp(-(s - 0.65) / 0.03)) for s in cells]
    negative = [1 - 1 / (1 + math.exp(-(s - 0.4) / 0.03)) for s in cells]
    p = sum(m * s for m, s in zip(positive, cells, strict=True)) / sum(positive)
    n = sum(m * s for m, s in zip(negative, cells, strict=True)) / sum(negative)
    return p, n


@settings(max_examples=40)
@given(maps(-20, 20))
def test_scores_lie_within_the_map_however_far_from_the_thresholds(similarity: torch.Tensor) -> None:
    low, high = similarity.amin((-2, -1)), similarity.amax((-2, -1))
    slack = 1e-5 * similarity.abs().amax().clamp_min(1)
    for score in (positive_score(similarity, PAPER), negative_score(similarity, PAPER)):
        assert score.shape == (2,)
        assert ((low - slack <= score) & (score <= high + slack)).all()


@settings(max_examples=40)
@given(maps(0.25, 0.75))
def test_scores_agree_with_the_plain_formula_where_it_does_not_underflow(similarity: torch.Tensor) -> None:
    expected = torch.tensor([plain_scores(cells.flatten().tolist()) for cells in similarity])
    torch.testing.assert_close(positive_score(similarity, PAPER), expected[:, 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(negative_score(similarity, PAPER), expected[:, 1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("level", [-0.9, -0.5, -0.1, 0.0, 0.05])
def test_low_similarities_still_have_a_positive_score(level: float) -> None:
    similarity = level + 0.05 * torch.rand(4, 7, 7, generator=torch.Generator().manual_seed(0))
    score = positive_score(similarity, PAPER)
    assert (score >= similarity.amin((-2, -1))).all()
    # an epsilon in the denominator would win against soft masks of about 1e-17 and make every score 0
    if level < -0.1:
        assert (score < level / 2).all()


def test_the_loss_cannot_be_lowered_by_pushing_every_similarity_down() -> None:
    similarity = 0.1 * torch.rand(4, 7, 7, generator=torch.Generator().manual_seed(0))

    def loss(shift: float) -> float:
        return float(contrast(positive_score(similarity + shift, PAPER), negative_score(similarity + shift, PAPER)))

    collapsed = [loss(-0.5), loss(-0.8)]
    assert min(collapsed) >= loss(0) - 1e-3
    assert min(collapsed) > 0.6  # log 2 is what a map that tells nothing apart costs


def test_gradients_far_below_the_thresholds_are_alive_and_raise_the_peak() -> None:
    similarity = (-0.5 + 0.1 * torch.rand(1, 5, 5, generator=torch.Generator().manual_seed(1))).requires_grad_()
    positive_score(similarity, PAPER).sum().backward()
    gradient = similarity.grad
    assert gradient is not None
    assert gradient.isfinite().all()
    assert gradient.flatten()[similarity.flatten().argmax()] > 0.1
