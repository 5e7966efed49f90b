"""Both forms of the stage-1 loss and the stage-2 loss against plain loops over samples and cells."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from soundwhere.config import Thresholds
from soundwhere.losses.contrastive import contrast, cross_sample_score, infonce_loss, paper_loss, source_loss

PAPER = Thresholds()
SAMPLES, CHANNELS, HEIGHT, WIDTH = 3, 5, 2, 4


@pytest.fixture(scope="module")
def pair() -> tuple[Tensor, Tensor]:
    """Features and embeddings of unit length, non-negative, so that cosines fall around the thresholds."""
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(SAMPLES, CHANNELS, HEIGHT, WIDTH, generator=generator, dtype=torch.float64) ** 2
    embedding = torch.rand(SAMPLES, CHANNELS, generator=generator, dtype=torch.float64) ** 2
    return F.normalize(features, dim=1), F.normalize(embedding, dim=1)


def plain_map(features: Tensor, embedding: Tensor) -> list[float]:
    """<v, a> of every cell of one picture (D, h, w) with one sound (D,)."""
    return [
        sum(float(features[d, y, x]) * float(embedding[d]) for d in range(CHANNELS))
        for y in range(HEIGHT)
        for x in range(WIDTH)
    ]


def plain_positive(cells: list[float]) -> float:
    mask = [1 / (1 + math.exp(-(s - 0.65) / 0.03)) for s in cells]
    return sum(m * s for m, s in zip(mask, cells, strict=True)) / sum(mask)


def plain_negative(cells: list[float]) -> float:
    mask = [1 - 1 / (1 + math.exp(-(s - 0.4) / 0.03)) for s in cells]
    return sum(m * s for m, s in zip(mask, cells, strict=True)) / sum(mask)


def plain_cross(features: Tensor, embedding: Tensor, i: int) -> float:
    """1/(hw) times the sum over j != i of <1, S_{i->j}>: this sound on the other pictures."""
    return sum(sum(plain_map(features[j], embedding[i])) / (HEIGHT * WIDTH) for j in range(len(features)) if j != i)


def plain_contrast(positive: float, negative: float) -> float:
    return -math.log(math.exp(positive) / (math.exp(positive) + math.exp(negative)))


def test_paper_form(pair: tuple[Tensor, Tensor]) -> None:
    features, embedding = pair
    losses = []
    for i in range(SAMPLES):
        own = plain_map(features[i], embedding[i])
        negative = plain_negative(own) + plain_cross(features, embedding, i)
        losses.append(plain_contrast(plain_positive(own), negative))
    assert paper_loss(features, embedding, PAPER).item() == pytest.approx(sum(losses) / SAMPLES, rel=1e-9)


def test_infonce_form(pair: tuple[Tensor, Tensor]) -> None:
    features, embedding = pair
    losses = []
    for i in range(SAMPLES):
        logits = [plain_positive(plain_map(features[i], embedding[j])) / 0.07 for j in range(SAMPLES)]
        hard = plain_negative(plain_map(features[i], embedding[i])) / 0.07
        total = sum(math.exp(logit) for logit in [*logits, hard])
        losses.append(-math.log(math.exp(logits[i]) / total))  # the right answer is on the diagonal
    assert infonce_loss(features, embedding, PAPER).item() == pytest.approx(sum(losses) / SAMPLES, rel=1e-9)


def test_cross_sample_term_leaves_the_own_picture_out(pair: tuple[Tensor, Tensor]) -> None:
    features, embedding = pair
    expected = [plain_cross(features, embedding, i) for i in range(SAMPLES)]
    torch.testing.assert_close(cross_sample_score(features, embedding), torch.tensor(expected, dtype=torch.float64))
    assert cross_sample_score(features[:1], embedding[:1]).item() == pytest.approx(0)


@pytest.mark.parametrize("cross_sample", [False, True])
def test_stage_two_loss_of_one_source(pair: tuple[Tensor, Tensor], cross_sample: bool) -> None:
    features, embedding = pair
    losses = []
    for i in range(SAMPLES):
        own = plain_map(features[i], embedding[i])
        negative = plain_negative(own) + (plain_cross(features, embedding, i) if cross_sample else 0)
        losses.append(plain_contrast(plain_positive(own), negative))
    found = source_loss(features, embedding, PAPER, cross_sample)
    assert found.item() == pytest.approx(sum(losses) / SAMPLES, rel=1e-9)


@pytest.mark.parametrize("form", [paper_loss, infonce_loss])
def test_the_right_sounds_cost_less_than_swapped_ones(form: object) -> None:
    pictures = torch.eye(4)[:, :, None, None].expand(-1, -1, 2, 2).clone()
    pictures[:, :, 1] = 0.5  # a background that is the same everywhere
    features = F.normalize(pictures, dim=1)
    assert form(features, torch.eye(4), PAPER) < form(features, torch.eye(4).roll(1, 0), PAPER)  # type: ignore[operator]


def test_contrast_does_not_overflow() -> None:
    huge = torch.tensor([1000.0, -1000.0])
    assert contrast(huge, -huge).item() == pytest.approx(1000)
