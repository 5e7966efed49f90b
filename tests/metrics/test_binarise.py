import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from soundwhere.errors import ConfigError, DataError
from soundwhere.metrics.binarise import Rule, binarise, parse_rule

maps = hnp.arrays(np.float32, (2, 4, 5), elements=st.integers(-8, 8).map(lambda n: n / 8))
names = st.sampled_from(["minmax-0.5", "median", "median-strict", "max-fraction-0.2", "fixed-0.6", "top-area-0.25"])


def reference(values, name):
    """Each rule as a plain loop over one map."""
    flat = sorted(values.ravel().tolist())
    low, high = flat[0], flat[-1]
    keep = {
        "minmax-0.5": lambda v: low < high and (v - low) / (high - low) >= 0.5,
        "median": lambda v: v >= flat[len(flat) // 2],
        "median-strict": lambda v: v > flat[len(flat) // 2] or v == high,
        "max-fraction-0.2": lambda v: v >= np.float32(high * np.float32(0.2)),
        "fixed-0.6": lambda v: v >= np.float32(0.6),
        "top-area-0.25": lambda v: v >= flat[-5],
    }[name]
    return np.vectorize(keep, otypes=[bool])(values)


@given(maps, names)
def test_rules_equal_plain_loops(values, name):
    binary = binarise(torch.from_numpy(values), name).numpy()
    assert (binary == np.stack([reference(value, name) for value in values])).all()


@given(names)
def test_names_survive_a_round_trip(name):
    assert str(parse_rule(name)) == name


@pytest.mark.parametrize("name", ["otsu", "minmax", "median-0.5", "minmax-1.5", "minmax-0.5-", ""])
def test_unknown_rules_are_refused_with_the_known_ones(name):
    with pytest.raises(ConfigError, match="minmax"):
        parse_rule(name)


def test_a_constant_map_binarises_to_nothing_under_minmax():
    assert not binarise(torch.full((3, 4, 4), 0.7)).any()


def test_of_a_saturated_map_the_maximum_stays():
    saturated = torch.ones(4, 4)
    saturated[0] = 0.5  # three quarters at the maximum, which is also the median
    for name in ("median-strict", "top-area-0.5-strict"):
        assert binarise(saturated, name).tolist() == (saturated == 1).tolist()


@pytest.mark.parametrize("value", [0.35, -7.1, 1e-8])
@pytest.mark.parametrize(("mode", "align_corners"), [("bilinear", False), ("bicubic", False), ("bicubic", True)])
def test_rounding_errors_are_no_range(value, mode, align_corners):
    coarse = torch.full((1, 1, 7, 7), value)
    heat = torch.nn.functional.interpolate(coarse, size=(224, 224), mode=mode, align_corners=align_corners)
    assert not binarise(heat, "minmax-0.5").any()
    for name in ("median", "median-strict", "top-area-0.25"):
        assert binarise(heat, name).all()


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("name", ["minmax-0.5", "median", "max-fraction-0.3", "fixed-0.5", "top-area-0.25"])
def test_whole_numbers_are_binarised_as_real_ones(kind, name):
    values = torch.randint(0, 128, (3, 5, 7), generator=torch.Generator().manual_seed(0))
    values = values if kind == torch.uint8 else values - 100  # int8 would overflow between its ends
    assert torch.equal(binarise(values.to(kind), name), binarise(values.double(), name))


def test_masks_stay_as_they_are():
    mask = torch.ones(2, 3, 3, dtype=torch.bool)
    assert binarise(mask) is mask


def test_16_bit_maps_are_binarised():
    assert binarise(torch.tensor([[0.0, 0.4, 1.0]], dtype=torch.bfloat16)).tolist() == [[False, False, True]]


def test_a_nan_map_is_an_error_not_a_mask():
    with pytest.raises(DataError, match="NaN"):
        binarise(torch.tensor([[0.0, torch.nan]]), Rule("fixed", 0.5))
