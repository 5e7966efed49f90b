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
        "median-strict": lambda v: v > flat[len(flat) // 2],
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


def test_masks_stay_as_they_are():
    mask = torch.ones(2, 3, 3, dtype=torch.bool)
    assert binarise(mask) is mask


def test_16_bit_maps_are_binarised():
    assert binarise(torch.tensor([[0.0, 0.4, 1.0]], dtype=torch.bfloat16)).tolist() == [[False, False, True]]


def test_a_nan_map_is_an_error_not_a_mask():
    with pytest.raises(DataError, match="NaN"):
        binarise(torch.tensor([[0.0, torch.nan]]), Rule("fixed", 0.5))
