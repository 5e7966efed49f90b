from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from soundwhere.models.similarity import prepare, similarity_map


@pytest.fixture(scope="module")
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 5, 3, 4, generator=generator), 10 * torch.randn(2, 5, generator=generator)


def test_cosine_against_torch(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    features, embedding = pair
    expected = F.cosine_similarity(features, embedding[:, :, None, None], dim=1)
    torch.testing.assert_close(similarity_map(features, embedding), expected)


def test_dot_against_a_loop(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    features, embedding = pair
    found = similarity_map(features, embedding, "dot")
    for b in range(2):
        for y in range(3):
            for x in range(4):
                expected = sum(float(features[b, d, y, x] * embedding[b, d]) for d in range(5))
                assert found[b, y, x].item() == pytest.approx(expected, rel=1e-4)


def test_non_negative_sides_have_a_cosine_between_0_and_1(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    features, embedding = pair
    found = similarity_map(features.relu(), embedding.relu())
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-6


def test_a_silent_embedding_is_similar_to_nothing() -> None:
    assert similarity_map(torch.rand(1, 5, 2, 2), torch.zeros(1, 5)).abs().max() == 0


def test_prepare_leaves_dot_products_alone(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    assert prepare(pair[0], "dot") is pair[0]
    torch.testing.assert_close(prepare(pair[0], "cosine").norm(dim=1), torch.ones(2, 3, 4))
