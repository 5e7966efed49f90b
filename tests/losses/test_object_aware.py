"""OCA and ORI against plain loops over the paper's formulas: nothing was published to compare with."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from soundwhere.config import Thresholds
from soundwhere.losses.object_aware import caption_contrast, masked_means, region_isolation
from soundwhere.losses.transport import cell_distances, sinkhorn_distance


def unit(*shape: int, dim: int = -1, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(*shape, generator=generator, dtype=torch.float64), dim=dim)


def test_masked_means_are_weighted_means_of_cells() -> None:
    features = unit(2, 5, 3, 4, dim=1)
    similarity = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = masked_means(features, similarity, Thresholds())
    for number, sign, threshold in ((0, 1, 0.65), (1, -1, 0.4)):
        for item in range(2):
            mean = torch.zeros(5, dtype=torch.float64)
            for row in range(3):
                for column in range(4):
                    soft = 1 / (1 + math.exp(-sign * (float(similarity[item, row, column]) - threshold) / 0.03))
                    mean += soft * features[item, :, row, column]
            assert torch.allclose(found[number][item], mean / mean.norm())


def plain_contrast(foreground, background, references, temperature, alike) -> float:
    """The formula, term by term."""
    count = len(foreground)
    captions = {"f": [], "b": []}
    for item in range(count):
        mean = references[item, :-1].mean(0)
        captions["f"].append(mean / mean.norm())
        captions["b"].append(references[item, -1])
    total = 0.0
    for seen, own, opposite in ((foreground, "f", "b"), (background, "b", "f")):
        for i in range(count):
            positive = math.exp(float(seen[i] @ captions[own][i]) / temperature)
            hard = math.exp(float(seen[i] @ captions[opposite][i]) / temperature)
            soft = 0.0
            for j in range(count):
                if j != i and float(captions[own][i] @ captions[own][j]) <= alike:
                    soft += math.exp(float(seen[i] @ captions[own][j]) / temperature)
            total -= math.log(positive / (positive + hard + soft)) / count
    return total / 2


@pytest.mark.parametrize("alike", [-0.2, 0.3, 2.0])
def test_caption_contrast_agrees_with_a_plain_loop(alike: float) -> None:
    foreground, background, references = unit(6, 4), unit(6, 4, seed=1), unit(6, 3, 4, seed=2)
    found = caption_contrast(foreground, background, references, 0.07, alike)
    assert float(found) == pytest.approx(plain_contrast(foreground, background, references, 0.07, alike), rel=1e-12)


def test_pictures_with_the_same_captions_are_no_negatives() -> None:
    foreground, background = unit(2, 4), unit(2, 4, seed=1)
    twice = unit(1, 3, 4, seed=2).expand(2, -1, -1)
    both = caption_contrast(foreground, background, twice, 0.07, 0.9)
    alone = [caption_contrast(foreground[i : i + 1], background[i : i + 1], twice[:1], 0.07, 0.9) for i in range(2)]
    assert float(both) == pytest.approx(float(sum(alone)) / 2)


def test_region_isolation_agrees_with_a_plain_loop() -> None:
    features, references = unit(2, 5, 2, 3, dim=1), unit(2, 3, 5, seed=1)
    cost, total = cell_distances(2, 3), 0.0
    for item in range(2):
        maps = []
        for reference in references[item]:
            cells = torch.stack([features[item, :, p // 3, p % 3] @ reference for p in range(6)])
            maps.append((cells - cells.min()) / (cells.max() - cells.min()))
        for n in range(3):
            for m in range(3):
                if n != m:
                    region, outside = maps[n] + 1e-6, 1 - maps[m] + 1e-6
                    pair = region / region.sum(), outside / outside.sum()
                    total += float(sinkhorn_distance(*pair, cost, 0.05, 50)) / 2
    assert float(region_isolation(features, references)) == pytest.approx(total, rel=1e-9)


def test_regions_apart_cost_less_than_regions_on_each_other() -> None:
    left = torch.zeros(1, 2, 4, 4)
    left[:, 0, :, :2], left[:, 1, :, 2:] = 1, 1  # half of the picture shows one thing, half the other
    apart, together = torch.eye(2)[None], torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    assert region_isolation(left, apart) < 0.05 < region_isolation(left, together)


def test_a_picture_that_is_the_same_everywhere_has_finite_gradients() -> None:
    features = F.normalize(torch.ones(1, 4, 3, 3), dim=1).requires_grad_(True)
    region_isolation(features, unit(1, 2, 4).float()).backward()
    assert torch.isfinite(features.grad).all()
