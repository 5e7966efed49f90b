import numpy as np
import pytest
import torch

from soundwhere.errors import DataError
from soundwhere.metrics.bootstrap import intervals, paired_differences
from soundwhere.metrics.pairs import PairScores, summarise


def pairs(seed=0, scenes=200, shift=0.0):
    """Two pairs per scene that share most of their luck, so that scenes, not pairs, are independent."""
    generator = np.random.default_rng(seed)
    luck = generator.uniform(0, 0.8, scenes).repeat(2)
    iou = np.clip(luck + generator.uniform(0, 0.2, 2 * scenes) + shift, 0, 1)
    return PairScores.from_rows([(i // 2, i % 2, i % 2, v, v**2, float(v > 0.5), 1 - v) for i, v in enumerate(iou)])


def test_intervals_hold_the_value_and_repeat_with_the_seed():
    result = intervals(pairs())
    summary = summarise(pairs())
    for name, interval in result.items():
        assert interval.value == pytest.approx(summary[name])
        assert interval.low < interval.value < interval.high
    assert intervals(pairs()) == result
    assert intervals(pairs(), seed=1) != result


def test_intervals_equal_a_plain_resampling_of_scenes():
    scored = pairs()
    generator = np.random.default_rng(5)
    iou = scored.iou.numpy().reshape(-1, 2)
    means = [iou[generator.integers(200, size=200)].mean() for _ in range(4000)]
    wanted = np.quantile(means, [0.025, 0.975])
    found = intervals(scored, draws=4000)["mean_iou"]
    assert [found.low, found.high] == pytest.approx(wanted, abs=0.003)


def test_pairing_finds_a_difference_that_separate_intervals_hide():
    first, second = pairs(shift=0.02), pairs()
    apart, other = intervals(first)["mean_iou"], intervals(second)["mean_iou"]
    assert apart.low < other.high
    difference = paired_differences(first, second)["mean_iou"]
    assert 0 < difference.low < difference.value < difference.high
    assert difference.value == pytest.approx(apart.value - other.value)


def test_scenes_count_once_however_the_rows_lie():
    scored = pairs(scenes=20)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    for meaning in ("success", "scene-success", "mean-iou"):
        straight, shuffled = intervals(scored, meaning=meaning), intervals(scored[order], meaning=meaning)
        for name in straight:
            assert vars(straight[name]) == pytest.approx(vars(shuffled[name]))


def test_different_scenes_have_no_paired_difference():
    with pytest.raises(DataError, match="200 and 150 scenes, of which 150 are the same"):
        paired_differences(pairs(), pairs(scenes=150))
