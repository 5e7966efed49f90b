import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score

from soundwhere.errors import DataError
from soundwhere.metrics import kernels
from soundwhere.metrics.functional import average_precision, pointing_game

shapes = st.tuples(st.integers(1, 6), st.integers(1, 8))


@st.composite
def scored(draw):
    """A map with many ties, or of any float32 values at all, and its truth."""
    shape = draw(shapes)
    tied = st.sampled_from([-1.5, -0.25, -0.0, 0.0, 0.25, 0.5, 1.0])
    anything = st.floats(width=32, allow_nan=False, allow_infinity=False)
    scores = draw(hnp.arrays(np.float32, shape, elements=draw(st.sampled_from([tied, anything]))))
    return scores, draw(hnp.arrays(np.bool_, shape))


@given(scored())
def test_equals_scikit_learn_with_ties_and_extreme_values(case):
    scores, truth = case
    value = average_precision(torch.from_numpy(scores), torch.from_numpy(truth)).item()
    wide = np.ptp(scores.astype(float)) > 1e-5 * abs(scores).max()  # less is a constant but for rounding
    expected = average_precision_score(truth.ravel(), scores.ravel() * wide) if truth.any() else 0.0
    assert value == pytest.approx(expected, abs=1e-6)


def test_equals_scikit_learn_on_a_batch_of_full_size_maps():
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(2, 3, 7, 14, generator=generator) * 2 - 1
    maps = torch.nn.functional.interpolate(coarse, size=(224, 448), mode="bilinear")
    truth = torch.zeros(2, 3, 224, 448, dtype=torch.bool)
    truth[..., 40:180, 60:200] = True
    values = average_precision(maps, truth)
    assert values.shape == (2, 3)
    for index in np.ndindex(2, 3):
        expected = average_precision_score(truth[index].flatten(), maps[index].flatten())
        assert values[index].item() == pytest.approx(expected, abs=1e-6)


@given(scored(), st.randoms())
def test_the_order_of_pixels_does_not_matter(case, random):
    scores, truth = case
    order = list(range(scores.size))
    random.shuffle(order)
    straight = average_precision(torch.from_numpy(scores), torch.from_numpy(truth))
    shuffled = average_precision(
        torch.from_numpy(scores.reshape(1, -1)[:, order]), torch.from_numpy(truth.reshape(1, -1)[:, order])
    )
    assert straight.item() == pytest.approx(shuffled.item(), abs=1e-12)
    assert 0 <= straight.item() <= 1


def test_a_constant_map_has_the_precision_of_chance():
    truth = torch.zeros(10, 10, dtype=torch.bool)
    truth[:3] = True
    assert average_precision(torch.full((10, 10), -0.3), truth).item() == pytest.approx(0.3)
    assert average_precision(truth, truth).item() == 1.0


@pytest.mark.parametrize("align_corners", [False, True])
def test_an_enlarged_constant_map_has_the_precision_of_chance(align_corners):
    coarse = torch.full((1, 1, 4, 4), 0.35)
    heat = torch.nn.functional.interpolate(coarse, size=(50, 50), mode="bicubic", align_corners=align_corners)
    assert heat.unique().numel() > 1  # rounding errors
    truth = torch.zeros(50, 50, dtype=torch.bool)
    truth[10:30, 20:30] = True
    assert average_precision(heat, truth).item() == pytest.approx(200 / 2500)
    assert pointing_game(heat, truth).item() == pytest.approx(200 / 2500)


@pytest.mark.parametrize("bad", [torch.nan, -torch.nan, torch.inf, -torch.inf])
def test_maps_that_are_not_finite_are_refused(bad):
    with pytest.raises(DataError, match="NaN or infinity"):
        average_precision(torch.tensor([[0.1, bad]]), torch.tensor([[True, False]]))


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, torch.float16])
def test_other_floating_types_are_scored(kind):
    maps, truth = torch.tensor([[0.75, 0.5, 0.25]], dtype=kind), torch.tensor([[True, False, True]])
    assert average_precision(maps, truth).item() == pytest.approx(5 / 6)


@given(scored())
def test_a_map_ranked_once_has_the_same_precision_to_the_digit(case):
    scores, truth = case
    counts = kernels.reached(scores)
    for each in (truth, ~truth):
        assert kernels.average_precision_at(counts, each) == kernels.average_precision(scores, each)


@given(scored())
def test_a_mask_has_the_precision_of_a_map_of_0_and_1_to_the_digit(case):
    scores, truth = case
    mask = scores > 0
    for each in (truth, ~truth, mask, ~mask):
        assert kernels.average_precision(mask, each) == kernels.average_precision(mask.astype(np.float32), each)
