from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from soundwhere.analysis.calibration import (
    Confidences,
    calibrate,
    calibration_results,
    calibration_table,
    choose_threshold,
    confidences,
    counting_results,
    cross_calibrate,
    error_curve,
    joined,
)
from soundwhere.data.selection import Selected
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import DataError
from soundwhere.media.image import normalise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.methods.scav.model import SCAV

SIDE = 64
SCENES = WorldScenes(World(5, (SIDE, SIDE), seconds=0.2), 6)
NAMES = list("abcdef")


def made(own: float, wrong: float, scenes: int = 200, seed: int = 0, spread: float = 0.1) -> Confidences:
    """Normal confidences, the right sound's and the wrong ones'."""
    rng = np.random.default_rng(seed)

    def draw(mean: float) -> NDArray[np.float64]:
        return rng.normal(mean, spread, (scenes, 2))

    kinds = ("absent sound", "swapped sound", "silence")
    return Confidences(draw(own), {kind: draw(wrong) for kind in kinds})


def test_the_threshold_balances_misses_and_false_alarms() -> None:
    """Two normal distributions of one width cross in the middle of their means."""
    found = made(0.7, 0.4, scenes=4000)
    threshold = choose_threshold(found)
    assert threshold == pytest.approx(0.55, abs=0.01)
    miss = (found.own < threshold).mean()
    alarms = np.mean([(found.wrong[kind] >= threshold).mean() for kind in ("absent sound", "silence")])
    assert miss == pytest.approx(alarms, abs=1e-3)


def test_separable_confidences_make_no_errors() -> None:
    found = Confidences(
        np.full((4, 2), 0.9),
        {"absent sound": np.full((4, 2), 0.2), "swapped sound": np.full((4, 2), 0.9), "silence": np.zeros((4, 2))},
    )
    result = calibrate(found, found, "here", "there")
    assert 0.2 < result.least_confidence < 0.9
    assert result.miss.value == result.false_alarms["absent sound"].value == 0
    assert result.false_alarms["swapped sound"].value == 1  # it did not decide
    assert result.auroc == {"absent sound": 1, "swapped sound": 0.5, "silence": 1}


def test_without_classes_swapped_sounds_decide() -> None:
    found = made(0.7, 0.4)
    unknown = Confidences(found.own, {**found.wrong, "absent sound": np.full_like(found.own, np.nan)})
    assert unknown.chosen_by == ("swapped sound", "silence")
    result = calibrate(unknown, unknown, "here", "there")
    assert set(result.false_alarms) == {"swapped sound", "silence"}
    assert result.false_alarms["swapped sound"].value == pytest.approx(result.miss.value, abs=0.05)


def test_each_half_is_judged_by_the_other() -> None:
    """Halves of different levels: the threshold of one is wrong for the other, which a threshold of all would hide."""
    low, high = made(0.5, 0.2, seed=1, spread=0.01), made(0.9, 0.6, seed=2, spread=0.01)
    both = Confidences(
        np.stack([low.own, high.own], 1).reshape(-1, 2),
        {kind: np.stack([low.wrong[kind], high.wrong[kind]], 1).reshape(-1, 2) for kind in low.wrong},
    )
    result = cross_calibrate(both, "everything")
    assert result.miss.value == pytest.approx(0.5)  # the low half, by a threshold of about 0.75
    assert result.false_alarms["silence"].value == pytest.approx(0.5)  # the high half, by one of about 0.35
    assert result.least_confidence == choose_threshold(both)
    assert "each half by the other's threshold" in calibration_table(result).notes[1]


def test_every_wrong_sound_is_what_it_says(network: SCAV) -> None:
    found = confidences(network, SCENES, NAMES, (1, 1))
    assert found.own.shape == (6, 2)

    def sure(scene: int, sound: int | None) -> NDArray[np.float64]:
        sounds = np.zeros_like(SCENES[0].sounds) if sound is None else SCENES[sound].sounds
        with torch.no_grad():
            seen = network.see(normalise(SCENES[scene].image[None]))
            heard = network.hear(torch.from_numpy(sounds.sum(0))[None])
            return network.localise(seen, heard).confidence[0].double().numpy()

    np.testing.assert_allclose(found.own[1], sure(1, 1), atol=1e-5)
    np.testing.assert_allclose(found.wrong["swapped sound"][1], sure(1, 4), atol=1e-5)
    np.testing.assert_allclose(found.wrong["silence"][2], sure(2, None), atol=1e-5)
    for scene in range(6):
        strangers = [n for n in range(6) if not SCENES.seen_kinds(scene) & SCENES.seen_kinds(n)]
        row = found.wrong["absent sound"][scene]
        if strangers:
            assert any(np.allclose(row, sure(scene, other), atol=1e-5) for other in strangers)
        else:
            assert np.isnan(row).all()


def test_rates_run_from_all_alarms_to_all_misses() -> None:
    thresholds, curves = error_curve(made(0.7, 0.4))
    assert list(curves) == ["miss", *(f"false alarm, {kind}" for kind in ("absent sound", "swapped sound", "silence"))]
    assert (np.diff(curves["miss"]) >= 0).all()
    assert curves["miss"][0] == 0
    assert curves["false alarm, silence"][0] > 0.99
    assert len(thresholds) == len(curves["miss"])


def test_one_scene_is_too_few(network: SCAV) -> None:
    with pytest.raises(DataError, match="too few"):
        confidences(network, Selected(SCENES, [0]), ["a"], (1, 1))


def test_scenes_of_unknown_classes_have_no_absent_sound(network: SCAV) -> None:
    found = confidences(network, list(SCENES[:4]), list("abcd"), (1, 1))  # a list does not know what is seen
    assert found.own.shape == found.wrong["absent sound"].shape == (4, 2)
    assert np.isnan(found.wrong["absent sound"]).all()
    assert not np.isnan(found.wrong["swapped sound"]).any()
    report = calibration_results(calibrate(found, found, "here", "there"), found)
    assert [row[0] for row in report.tables[0].rows] == ["own sound", "swapped sound", "silence"]
    assert set(report.values["curves"]) == {"threshold", "miss", *(f"false alarm, {k}" for k in found.wrong)} - {
        "false alarm, absent sound"
    }


def test_lists_that_are_joined_choose_together() -> None:
    def counted(one: float, two: float) -> dict[str, NDArray[np.float64]]:
        """Sure of `two` where two sound, of `one` that a second does where it is alone, and of nothing else."""
        sure = {"own": (1.0, two), "alone": (1.0, one), "nothing": (0.0, 0.0), "silent": (0.0, 0.0)}
        return {name: np.tile(values, (6, 1)) for name, values in sure.items()}

    trios, duets = counted(one=0.2, two=0.5), counted(one=0.4, two=0.9)
    both = joined([trios, duets])
    assert {name: values.shape for name, values in both.items()} == dict.fromkeys(trios, (12, 2))
    assert [counting_results(each, trios, "", "")[0] for each in (trios, duets)] == pytest.approx([0.35, 0.65])
    threshold, report = counting_results(both, both, "trios and duets", "both")
    assert threshold == pytest.approx(0.45)
    assert report.values["counting"]["balanced"]["value"] == 1


def test_a_picture_may_stay_dark_where_almost_none_would_that_hears_its_own_sounds() -> None:
    own = np.linspace(0.2, 1, 801)
    sure = {
        "own": np.stack([own, own / 2], axis=1),
        "alone": np.full((801, 2), 0.5),
        "nothing": np.tile([0.05, 0.0], (801, 1)),
        "silent": np.zeros((801, 2)),
    }
    _, report = counting_results(sure, sure, "here", "there")
    dark = report.values["dark"]
    assert (own < 2 * dark["below"]).mean() == pytest.approx(0.005, abs=1 / 801)
    assert [dark[heard]["value"] for heard in ("own", "alone", "nothing", "silent")] == [0, 0, 1, 1]
    assert [row[0] for row in report.tables[1].rows] == [
        "both sounds",
        "either sound alone",
        "absent sounds and noise",
        "silence",
    ]
