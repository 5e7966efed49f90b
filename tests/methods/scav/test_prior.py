"""Algorithm 1 against a literal transcription with loops, and the maps for which the paper does not define it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from soundwhere.config import Thresholds
from soundwhere.methods.scav.prior import dominant_steps
from soundwhere.models.similarity import normalise_range

PAPER = Thresholds()
DEPTH, HEIGHT, WIDTH = 4, 3, 5


def features(seed: int = 0, samples: int = 2) -> Tensor:
    return torch.rand(samples, DEPTH, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(seed))


def similarity(seed: int = 0, samples: int = 2) -> Tensor:
    return torch.rand(samples, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(1000 + seed))


def distance(a: list[float], b: list[float]) -> float:
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def literal(scores: Tensor, cells: Tensor) -> list[list[float]]:
    """The appendix's Algorithm 1, step by step, for one sample."""
    places = [(i, j) for i in range(HEIGHT) for j in range(WIDTH)]
    s = {place: float(scores[place]) for place in places}
    v = {(i, j): [float(cells[d, i, j]) for d in range(DEPTH)] for i, j in places}
    background = {place: 1 - 1 / (1 + math.exp(-(s[place] - 0.65) / 0.03)) for place in places}
    total = sum(background[place] * s[place] for place in places)
    v_neg = [sum(background[p] * s[p] * v[p][d] for p in places) / total for d in range(DEPTH)]
    seed = v[max(places, key=lambda place: s[place])]
    raw = {place: distance(v[place], v_neg) - distance(v[place], seed) for place in places}
    low, high = min(raw.values()), max(raw.values())
    return [[(raw[i, j] - low) / (high - low) for j in range(WIDTH)] for i in range(HEIGHT)]


@settings(max_examples=40)
@given(st.integers(0, 200))
def test_against_the_literal_algorithm(seed: int) -> None:
    scores, cells = similarity(seed), features(seed)
    found = dominant_steps(scores, cells, PAPER).prior
    expected = torch.tensor([literal(s, c) for s, c in zip(scores, cells, strict=True)])
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@given(st.integers(0, 200), st.sampled_from([-3.0, -1.0, 0.0, 1.0, 10.0]), st.sampled_from([0.0, 1e-4, 1.0, 5.0]))
def test_always_between_0_and_1(seed: int, shift: float, scale: float) -> None:
    found = dominant_steps(scale * similarity(seed) + shift, features(seed), PAPER).prior
    assert found.isfinite().all()
    assert found.min() >= 0
    assert found.max() <= 1


def test_a_batch_is_its_samples_one_by_one() -> None:
    scores, cells = similarity(samples=4), features(samples=4)
    scores[2] = 0.3  # a degenerate map among proper ones
    alone = torch.cat([dominant_steps(scores[i : i + 1], cells[i : i + 1], PAPER).prior for i in range(4)])
    torch.testing.assert_close(dominant_steps(scores, cells, PAPER).prior, alone)


@pytest.mark.parametrize("level", [-1.0, 0.0, 0.3, 0.65, 1.0])
def test_a_constant_map_gives_one_half(level: float) -> None:
    assert (dominant_steps(torch.full((2, HEIGHT, WIDTH), level), features(), PAPER).prior == 0.5).all()


def test_equal_features_give_one_half() -> None:
    assert (dominant_steps(similarity(), torch.ones(2, DEPTH, HEIGHT, WIDTH), PAPER).prior == 0.5).all()


@pytest.mark.parametrize("scores", [similarity() - 2, 5 + similarity(), 1e-9 * similarity() - 1e-3])
def test_without_background_weights_the_background_is_the_mean(scores: Tensor) -> None:
    cells = features()
    mean = cells.mean((-2, -1), keepdim=True)
    peak = scores.flatten(1).argmax(1)
    seed = cells.flatten(2)[torch.arange(2), :, peak][..., None, None]
    spread = scores.flatten(1).amax(1) - scores.flatten(1).amin(1)
    expected = normalise_range((cells - mean).norm(dim=1) - (cells - seed).norm(dim=1))
    expected = torch.where(spread[:, None, None] < 1e-6, 0.5, expected)
    torch.testing.assert_close(dominant_steps(scores, cells, PAPER).prior, expected, rtol=1e-3, atol=1e-4)


def test_a_single_peak_is_its_own_object() -> None:
    scores = torch.zeros(1, HEIGHT, WIDTH)
    scores[0, 1, 2] = 0.9
    cells = torch.zeros(1, DEPTH, HEIGHT, WIDTH)
    cells[0, 0], cells[0, :, 1, 2] = 1, torch.tensor([0.0, 1, 0, 0])
    found = dominant_steps(scores, cells, PAPER).prior
    assert found[0, 1, 2] == 1
    assert found.sum() == pytest.approx(1)


def test_normalise_range_stretches_each_map_by_itself() -> None:
    maps = torch.stack([torch.arange(6.0).view(2, 3), -10 * torch.arange(6.0).view(2, 3), torch.full((2, 3), 7.0)])
    found = normalise_range(maps)
    torch.testing.assert_close(found[0], torch.arange(6.0).view(2, 3) / 5)
    torch.testing.assert_close(found[1], 1 - found[0])
    assert (found[2] == 0.5).all()
    torch.testing.assert_close(normalise_range(maps.transpose(1, 2)), found.transpose(1, 2))
