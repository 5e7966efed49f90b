"""How many things sound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soundwhere.metrics.counting import best_threshold, count_right

KINDS = ["white", "absent", "absent", "pink", "absent", "absent"]


def everything(own, alone, nothing, silent):
    sure = {"own": own, "alone": alone, "nothing": nothing, "silent": silent}
    return {name: np.array(values, np.float64) for name, values in sure.items()}


def test_whoever_counts_right_has_every_figure_right():
    sure = everything([[0.9, 0.8]] * 6, [[0.9, 0.1]] * 6, [[0.2, 0.1]] * 6, [[0.0, 0.0]] * 6)
    found = {name: each.value for name, each in count_right(sure, KINDS, 0.5, draws=10).items()}
    assert {name for name, value in found.items() if value == 1} == {"two", "one", "nothing", "balanced"}
    assert {name for name, value in found.items() if value == 0} == {
        *("second", "absent", "white", "pink", "silent", "absent_at_misses")
    }


def test_always_two_is_right_a_third_of_the_time():
    ones = [[1.0, 1.0]] * 6
    found = count_right(everything(ones, ones, ones, ones), KINDS, 0.5, draws=10)
    assert found["balanced"].value == pytest.approx(1 / 3)
    assert found["second"].value == found["white"].value == found["silent"].value == 1


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_equals_counting_scene_by_scene(seed, threshold):
    rng = np.random.default_rng(seed)
    sure = everything(*(rng.random((12, 2)) for _ in range(4)))
    sure["nothing"][1] = np.nan  # no scene to take an absent sound from
    found = count_right(sure, KINDS * 2, threshold, draws=2)
    asked = [n for n in range(12) if n != 1]
    for figure, name, wanted in (("two", "own", 2), ("one", "alone", 1), ("nothing", "nothing", 0)):
        right = [sum(value >= threshold for value in sure[name][n]) == wanted for n in asked]
        assert found[figure].value == pytest.approx(sum(right) / len(asked))
    strict = sorted(value for n in asked for value in sure["own"][n])
    missed = 0.15 * (len(strict) - 1)
    below = int(missed)
    strict = strict[below] + (missed - below) * (strict[below + 1] - strict[below])
    alarms = [max(sure["nothing"][n]) >= strict for n in asked if KINDS[n % 6] == "absent"]
    assert found["absent_at_misses"].value == pytest.approx(sum(alarms) / len(alarms))


def test_a_lone_frame_with_a_second_source_is_noticed_where_it_was_looked_at():
    sure = everything([[0.9, 0.8]] * 6, [[0.9, 0.1]] * 6, [[0.2, 0.1]] * 6, [[0.0, 0.0]] * 6)
    assert "lone" not in count_right(sure, KINDS, 0.5, draws=2)
    sure["lone"] = np.array([[0.9, 0.7]] * 3 + [[0.9, 0.2]] * 3)
    found = count_right(sure, KINDS, 0.5, draws=20)
    assert found["lone"].value == 0.5
    assert found["second"].value == 0
    assert found["lone"].low < 0.5 < found["lone"].high


def test_nobody_was_asked():
    nothing = np.full((6, 2), np.nan)
    assert count_right(everything(nothing, nothing, nothing, nothing), KINDS, 0.5) == {}


@settings(max_examples=30)  # each of them counts ten times
@given(st.integers(0, 2**32 - 1))
def test_no_threshold_counts_better(seed):
    rng = np.random.default_rng(seed)
    sure = everything(*(rng.random((12, 2)) for _ in range(4)))
    best = count_right(sure, KINDS * 2, best_threshold(sure, KINDS * 2), draws=1)["balanced"].value
    others = [count_right(sure, KINDS * 2, threshold, draws=1)["balanced"].value for threshold in rng.random(9)]
    assert best >= max(others) - 1e-9


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0, 0.5))
def test_a_threshold_gives_no_more_second_sources_than_it_may(seed, most):
    rng = np.random.default_rng(seed)
    sure = everything(*(rng.random((12, 2)) for _ in range(4)))
    found = count_right(sure, KINDS * 2, best_threshold(sure, KINDS * 2, most), draws=1)
    others = [count_right(sure, KINDS * 2, threshold, draws=1) for threshold in rng.random(9)]
    assert found["second"].value <= most + 1e-9  # a threshold near 1 leaves none
    assert found["balanced"].value >= max((o["balanced"].value for o in others if o["second"].value <= most), default=0)
