from itertools import permutations

import torch
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.metrics.matching import hungarian


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 10_000))
def test_total_quality_is_the_best_of_all_assignments(predictions, sources, seed):
    quality = torch.rand(3, predictions, sources, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    chosen = hungarian(quality, "zero")
    for table, answer in zip(quality, chosen, strict=True):
        slots = list(range(predictions)) + [-1] * max(0, sources - predictions)
        best = max(
            sum(table[k, m].item() for m, k in enumerate(order) if k >= 0) for order in permutations(slots, sources)
        )
        total = sum(table[k, m].item() for m, k in enumerate(answer.tolist()) if k >= 0)
        assert abs(total - best) < 1e-12
        used = [k for k in answer.tolist() if k >= 0]
        assert len(used) == len(set(used)) == min(predictions, sources)


def test_with_fewer_maps_than_sources_a_map_is_repeated_or_missing():
    quality = torch.tensor([[[0.2, 0.6, 0.1]]])
    assert hungarian(quality, "repeat").tolist() == [[0, 0, 0]]
    assert hungarian(quality, "zero").tolist() == [[-1, 0, -1]]


def test_a_left_over_source_takes_its_own_best_map():
    quality = torch.tensor([[[0.9, 0.0, 0.1], [0.0, 0.8, 0.3]]])
    assert hungarian(quality, "repeat").tolist() == [[0, 1, 1]]
