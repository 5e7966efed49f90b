import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from soundwhere.metrics.functional import (
    auc,
    auc_shares,
    consensus_iou,
    dark_share,
    iou,
    leakage,
    pointing_game,
)

masks = hnp.arrays(np.bool_, (5, 7))
ious = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1))


@given(masks, masks)
def test_iou_is_that_of_sets_of_pixels(a, b):
    first, second = set(zip(*a.nonzero(), strict=True)), set(zip(*b.nonzero(), strict=True))
    expected = len(first & second) / len(first | second) if first | second else 0.0
    assert iou(torch.from_numpy(a), torch.from_numpy(b)).item() == pytest.approx(expected)


@given(masks, masks)
def test_where_all_annotators_agree_the_consensus_is_the_plain_iou(a, b):
    binary, truth = torch.from_numpy(a), torch.from_numpy(b)
    assert consensus_iou(binary, truth).item() == pytest.approx(iou(binary, truth).item())


@given(masks, hnp.arrays(np.float64, (5, 7), elements=st.sampled_from([0.0, 0.5, 1.0])))
def test_a_pixel_counts_by_how_many_agree_on_it(a, agreement):
    total = agreement.sum() + np.sum(a & (agreement == 0))
    expected = np.sum(a * agreement) / total if total else 0.0
    assert consensus_iou(torch.from_numpy(a), torch.from_numpy(agreement)).item() == pytest.approx(expected)


def test_dark_share_counts_pixels_up_to_the_gate():
    maps = torch.tensor([[[0.0, 0.2], [0.25, 1.0]], [[0.3, 0.3], [0.3, 0.1]]])
    assert dark_share(maps, 0.25).tolist() == [0.75, 0.25]


def test_iou_broadcasts_predictions_against_sources():
    a, b = torch.rand(3, 2, 1, 6, 8) > 0.5, torch.rand(3, 1, 4, 6, 8) > 0.5
    table = iou(a, b)
    assert table.shape == (3, 2, 4)
    assert table[1, 0, 2] == iou(a[1, 0, 0], b[1, 0, 2])


@given(ious)
def test_auc_is_the_trapezoid_of_the_success_rate(values):
    from sklearn.metrics import auc as area

    thresholds = np.arange(21) / 20
    rates = [np.mean(values >= threshold) for threshold in thresholds]
    assert auc(torch.from_numpy(values)).item() == pytest.approx(area(thresholds, rates), abs=1e-12)


@given(ious)
def test_auc_stays_near_the_mean_iou(values):
    tensor = torch.from_numpy(values)
    assert abs(auc(tensor) - tensor.mean()) <= 0.025 + 1e-12
    assert ((auc_shares(tensor) - tensor).abs() <= 0.025 + 1e-12).all()


def test_pointing_game_shares_equal_peaks():
    maps = torch.tensor([[[0.0, 1.0], [1.0, 0.2]], [[0.0, 0.1], [0.9, 0.2]]])
    truth = torch.tensor([[[False, True], [False, True]], [[False, False], [True, False]]])
    assert pointing_game(maps, truth).tolist() == [0.5, 1.0]


@given(masks)
def test_pointing_game_of_a_constant_map_is_the_covered_share(mask):
    assert pointing_game(torch.ones(5, 7), torch.from_numpy(mask)).item() == pytest.approx(mask.mean())


def test_leakage_is_the_share_on_others_and_0_for_an_empty_map():
    binary = torch.tensor([[[True, True, True, False]], [[False] * 4]])
    others = torch.tensor([[[False, True, False, True]], [[True] * 4]])
    assert leakage(binary, others).tolist() == [pytest.approx(1 / 3), 0.0]
