from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from soundwhere.metrics.listening import auroc, auroc_interval, confidence, frames_found, lit_share, mean_interval

values = st.lists(st.integers(0, 5), min_size=1, max_size=20).map(lambda v: np.array(v, dtype=np.float64))


@given(values, values)
def test_auroc_is_scikit_learns(positive: np.ndarray, negative: np.ndarray) -> None:
    labels = [1] * len(positive) + [0] * len(negative)
    assert auroc(positive, negative) == pytest.approx(roc_auc_score(labels, np.concatenate([positive, negative])))


def trio(sounding: tuple[int, int]) -> torch.Tensor:
    truth = torch.zeros(1, 2, 4, 12, dtype=torch.bool)
    for source, frame in enumerate(sounding):
        truth[0, source, 1:3, 4 * frame + 1 : 4 * frame + 3] = True
    return truth


@pytest.mark.parametrize("sounding", [(0, 1), (0, 2), (2, 1)])
def test_the_truth_finds_its_frames(sounding: tuple[int, int]) -> None:
    truth = trio(sounding)
    (found,) = frames_found(truth.float(), truth, (1, 3))
    assert found is not None
    assert found[:3] == (1, 1, 1)
    assert (found.chance, found.chance_peak) == (pytest.approx(1 / 3), pytest.approx(2 / 3))


def test_a_bright_silent_frame_is_no_find() -> None:
    truth = trio((0, 1))
    maps = truth.float()
    maps[0, 0, :, 8:] = 2  # the silent frame outshines both
    (found,) = frames_found(maps, truth, (1, 3))
    assert found is not None
    assert found[:3] == (0, 0, 0)


def test_a_faint_second_map_counts_by_mass_but_its_peak_may_lose() -> None:
    truth = trio((0, 1))
    maps = truth.float()
    maps[0, 1] *= 0.1
    maps[0, 0, 0, 11] = 0.5
    (found,) = frames_found(maps, truth, (1, 3))
    assert found is not None
    assert (found.by_peak, found.by_mass, found.peak) == (0, 1, 1)


def test_a_constant_map_finds_what_chance_does() -> None:
    (found,) = frames_found(torch.ones(1, 2, 4, 12), trio((0, 1)), (1, 3))
    assert found is not None
    assert found.peak == pytest.approx(found.chance_peak)


def test_nothing_to_find_where_all_sound() -> None:
    truth = trio((0, 1))[..., :8]
    assert frames_found(torch.rand(1, 2, 4, 8), truth, (1, 2)) == [None]


def test_a_source_without_a_mask_has_no_frame_to_find() -> None:
    truth = trio((0, 1))
    truth[0, 1] = False
    assert frames_found(torch.rand(1, 2, 4, 12), truth, (1, 3)) == [None]


def test_lit_share_and_confidence() -> None:
    maps = torch.tensor([[[[0.0, 0.5], [-1.0, 0.2]], [[0.4, 0.0], [0.0, 0.39]]], [[[-1.0] * 2] * 2, [[-2.0] * 2] * 2]])
    assert lit_share(maps, 0.4).tolist() == [0.5, 0]
    assert confidence(maps).tolist() == [0.5, 0]
    assert confidence(3 * maps)[0] == 1


def test_intervals_hold_their_value_and_shrink_with_scenes() -> None:
    rng = np.random.default_rng(0)
    few, many = rng.random(20), rng.random(2000)
    wide, narrow = mean_interval(few), mean_interval(many)
    assert wide.low < wide.value < wide.high
    assert narrow.high - narrow.low < (wide.high - wide.low) / 4
    assert mean_interval(few) == wide  # seeded
    same = auroc_interval(many, many, draws=50)
    assert same.low <= same.value == 0.5 <= same.high


def test_scenes_that_share_parts_are_drawn_by_their_parts() -> None:
    """One bad video of four spoils half of the scenes: drawn by videos, the mean is far less certain than by scenes."""
    made_of = [(a, b) for a in "abcd" for b in "abcd" if a < b] * 20
    values = np.array([float("a" not in parts) for parts in made_of])
    by_scene, by_part = mean_interval(values), mean_interval(values, made_of=made_of)
    assert by_scene.value == by_part.value == 0.5
    assert by_part.low < by_scene.low < by_scene.high < by_part.high
