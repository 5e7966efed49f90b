from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from soundwhere.config import MethodConfig
from soundwhere.inference.localiser import Localiser
from soundwhere.inference.result import Answer, Result
from soundwhere.inference.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def result(red_and_blue: Any, squares_path: Path) -> Result:
    return Localiser(red_and_blue, "cpu", smooth=False).localise(squares_path)


def test_heatmaps_are_interpolated_in_time_and_enlarged(result: Result) -> None:
    assert result.heatmap(1.0).shape == (2, 128, 256)
    np.testing.assert_allclose(result.grid(1.0), result.maps[5], atol=1e-3)
    between = result.grid(1.05)
    np.testing.assert_allclose(between, 0.75 * np.float32(result.maps[5]) + 0.25 * result.maps[6], atol=1e-3)
    np.testing.assert_array_equal(result.grid(-3.0), result.grid(0.0))
    np.testing.assert_array_equal(result.grid(99.0), np.float32(result.maps[-1]))


def test_presence_slopes_where_a_source_stops(result: Result) -> None:
    last = int(np.flatnonzero(result.sounding[:, 0])[-1])
    assert result.presence(result.times[last])[0] == 1
    assert result.presence(result.times[last] + 0.1)[0] == pytest.approx(0.5)
    assert result.presence(result.times[last + 1])[0] == 0


def test_spans_leave_short_pauses_out(result: Result) -> None:
    sounding = np.zeros((25, 2), bool)
    sounding[[2, 3, 5, 12, 24], 0] = True
    spans = Result(**{**vars(result), "sounding": sounding}).spans(0)
    assert spans == [pytest.approx((0.4, 1.2)), pytest.approx((2.4, 2.6)), pytest.approx((4.8, 5.0))]


def test_shapes_and_ranges(result: Result) -> None:
    times, sources = len(result.times), result.sources
    assert result.maps.shape[:2] == (times, sources)
    assert result.peaks.shape == (times, sources, 2)
    assert result.boxes.shape == (times, sources, 4)
    assert (result.boxes[..., :2] <= result.boxes[..., 2:]).all()
    assert ((result.areas >= 0) & (result.areas <= 1)).all()
    assert result.path.name == "squares.mp4"
    assert {result.colour(0)[0], result.colour(1)[0]} == {"orange", "blue"}


def test_the_picture_shown_is_the_best_one(result: Result) -> None:
    assert result.sounding[int(result.best_time() * 5 + 0.5)].all()
    plain, drawn = np.asarray(result.show(4.9)), np.asarray(result.show())
    assert drawn.shape == (128, 256, 3)
    # in silence nothing is drawn: red stays red
    assert plain[100, 20].tolist() == pytest.approx([255, 0, 0], abs=25)
    assert (np.abs(drawn.astype(int) - plain).max(-1) > 40).mean() > 0.05


class Counts(MethodConfig):
    counts = True


@pytest.mark.parametrize(("heard", "shown"), [([True, True], 2), ([False, True], 1), ([False, False], 1)])
def test_where_sources_are_counted_only_those_that_sound_are_shown(
    result: Result, heard: list[bool], shown: int
) -> None:
    answers = [
        Answer(float(time_s), result.maps[n], result.confidence[n], np.array(heard), -20.0, result.size)
        for n, time_s in enumerate(result.times)
    ]
    counted = Result.collect(result.footage, answers, Settings(), Counts(), 5.0)
    assert counted.sources == shown
    np.testing.assert_array_equal(counted.sounding.any(0), heard if shown == 2 else [any(heard)])
    if heard == [False, True]:
        np.testing.assert_array_equal(counted.maps[:, 0], result.maps[:, 1])
    asked = Result.collect(result.footage, answers, Settings(sources=2), Counts(), 5.0)
    assert asked.sources == 2
    assert Result.collect(result.footage, answers, Settings(), MethodConfig(), 5.0).sources == 2
