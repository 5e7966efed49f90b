from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.metrics.matching import match


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 10_000))
def test_total_quality_is_the_best_of_all_assignments(predictions, sources, seed):
    quality = torch.rand(3, predictions, sources, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    chosen = match(quality, policy="zero")
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
    assert match(quality, policy="repeat").tolist() == [[0, 0, 0]]
    assert match(quality, policy="zero").tolist() == [[-1, 0, -1]]


def test_a_left_over_source_takes_its_own_best_map():
    quality = torch.tensor([[[0.9, 0.0, 0.1], [0.0, 0.8, 0.3]]])
    assert match(quality, policy="repeat").tolist() == [[0, 1, 1]]


def test_many_maps_go_through_the_hungarian_algorithm():
    quality = torch.rand(2, 6, 5, generator=torch.Generator().manual_seed(0))
    for table, answer in zip(quality, match(quality), strict=True):
        best = max(sum(table[k, m].item() for m, k in enumerate(order)) for order in permutations(range(6), 5))
        assert sum(table[k, m].item() for m, k in enumerate(answer.tolist())) == pytest.approx(best)


def test_ties_are_broken_by_the_second_quality_and_only_ties():
    quality = torch.tensor([[[0.2, 0.2], [0.2, 0.2]], [[0.5, 0.1], [0.1, 0.5]]])
    asked = []

    def second(scenes):
        asked.extend(scenes.tolist())
        return torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]).expand(len(scenes), 2, 2)

    assert match(quality, tie_break=second).tolist() == [[1, 0], [0, 1]]
    assert asked == [0]


def test_given_order_needs_no_quality():
    quality = torch.tensor([[[0.0, 0.9], [0.9, 0.0]]])
    assert match(quality, "given").tolist() == [[0, 1]]
    assert match(quality[:, :1], "given", "zero").tolist() == [[0, -1]]
    assert match(quality[:, :1], "given", "repeat").tolist() == [[0, 0]]


def test_greedy_takes_the_best_free_source_in_turn():
    quality = torch.tensor([[[0.4, 0.3], [0.5, 0.0]]])  # the second map finds its source taken and fits no other
    assert match(quality, "greedy").tolist() == [[0, -1]]
    assert match(torch.tensor([[[0.4, 0.3], [0.5, 0.1]]]), "greedy").tolist() == [[0, 1]]


def test_an_empty_map_leaves_the_free_sources_to_those_after_it():
    nothing = [torch.nan, torch.nan]
    quality = torch.tensor([[[0.1, 0.4], nothing, [0.2, 0.9]], [nothing, [0.3, 0.2], [0.1, 0.1]]])
    assert match(quality, "greedy").tolist() == [[2, 0], [0, 1]]
