"""Every evaluation that a published implementation was recorded with, against ours: the same pixels, the same figures.

The recorded maps have four awkward cases; in the last, the map is flat. There, released code thresholds the rounding
errors that upsampling leaves, which ours does not: `RANKED_ROUNDING` names where that shows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from soundwhere.metrics.binarise import binarise
from soundwhere.metrics.detection import Detections, detection_f1, detection_precision, top_quarter
from soundwhere.metrics.functional import auc, average_precision, consensus_iou, dark_share
from soundwhere.metrics.pairs import PairScores, concatenate
from soundwhere.metrics.presets import Preset, find_preset, score, summarise_as, upsample

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    Recorded = dict[str, NDArray[np.generic]]

FLAT = 4
RANKED_ROUNDING = {
    "jsa_picture_slot_iou": FLAT,
    "jsa_object_iou": 19 - FLAT,
    "slavc_test_median_sound_iou": FLAT,
    "slavc_test_median_object_iou": FLAT,
    "slavc_test_median_combined_iou": FLAT,
}
TAU = 0.03


@pytest.fixture(scope="module")
def recorded(shared: Path) -> Recorded:
    path = shared / "oracles" / "evaluators.npz"
    if not path.is_file():
        pytest.skip("needs the recorded evaluations in oracles/ beside the repository")
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.fixture(scope="module")
def truth(recorded: Recorded) -> Tensor:
    """The boxes of each case, shape (20, 1, 224, 224)."""
    assert (recorded["truth_lvs_packed"] == recorded["truth_packed"]).all()
    return torch.from_numpy(np.unpackbits(recorded["truth_packed"], axis=1).reshape(20, 1, 224, 224).astype(bool))


def maps_of(recorded: Recorded, name: str) -> Tensor:
    return torch.from_numpy(recorded[name])[:, None].float()


def enlarged(maps: Tensor, mode: str, align_corners: bool) -> Tensor:
    """Maps at 224 x 224 as a network gives them that enlarges its maps itself, rounding errors and all."""
    return torch.nn.functional.interpolate(maps, size=(224, 224), mode=mode, align_corners=align_corners)


def stretched(maps: Tensor) -> Tensor:
    low, high = maps.amin((-2, -1), keepdim=True), maps.amax((-2, -1), keepdim=True)
    return ((maps - low) / (high - low)).nan_to_num(0.0)


def same_pixels(recorded: Recorded, name: str, maps: Tensor, truth: Tensor, preset: Preset) -> PairScores:
    """Check each IoU, but for one that ranks rounding errors; it is put in so that figures can be compared."""
    pairs = score(maps, truth, preset, grid=(1, 1))
    expected, ours = recorded[name], pairs.iou.numpy()
    rounding = np.arange(20) == RANKED_ROUNDING.get(name, -1)
    np.testing.assert_array_equal(ours[~rounding], expected[~rounding])
    assert (ours[rounding] != expected[rounding]).all()
    return replace(pairs, iou=torch.from_numpy(expected))


def test_lvs(recorded: Recorded, truth: Tensor) -> None:
    preset = find_preset("lvs")
    figures = summarise_as(same_pixels(recorded, "lvs_iou", maps_of(recorded, "map_14x14"), truth, preset), preset)
    assert figures["ciou@0.5"] == recorded["lvs_success_at_half"]
    assert figures["auc"] == pytest.approx(recorded["lvs_auc"], abs=1e-12)


def test_ez_vsl(recorded: Recorded, truth: Tensor) -> None:
    preset = find_preset("ez-vsl")
    sound, seen = maps_of(recorded, "map_7x7"), maps_of(recorded, "object_map_7x7")
    both = [stretched(upsample(maps, (224, 224), preset)) for maps in (sound, seen)]
    answers = {"sound": sound, "object": seen, "combined": 0.4 * both[0] + 0.6 * both[1]}
    for name, maps in answers.items():
        figures = summarise_as(same_pixels(recorded, f"ez_test_{name}_iou", maps, truth, preset), preset)
        ours = [figures[figure] for figure in ("ciou@0.5", "mean_iou", "auc")]
        np.testing.assert_allclose(ours, recorded[f"ez_test_{name}_stats"], rtol=0, atol=1e-12)
    validation = replace(preset, upsampling="bicubic", align_corners=False)
    figures = summarise_as(same_pixels(recorded, "ez_validation_iou", sound, truth, validation), validation)
    np.testing.assert_allclose([figures["ciou@0.5"], figures["auc"]], recorded["ez_validation_stats"], atol=1e-12)


def test_jsa(recorded: Recorded, truth: Tensor) -> None:
    preset = find_preset("jsa")
    sound, seen = maps_of(recorded, "map_7x7"), maps_of(recorded, "object_map_7x7")
    parts = [stretched(enlarged(maps, "bicubic", False)) for maps in (sound, seen, seen.flip(0))]
    answers = {
        "sound": sound,
        "picture_slot": seen,
        "sound_picture": 0.4 * parts[0] + 0.6 * parts[1],
        "object": seen.flip(0),
        "sound_object": 0.4 * parts[0] + 0.6 * parts[2],
        "all": 0.4 * parts[0] + 0.3 * parts[1] + 0.3 * parts[2],
    }
    returned = []
    for name, maps in answers.items():
        figures = summarise_as(same_pixels(recorded, f"jsa_{name}_iou", maps, truth, preset), preset)
        returned += [figures["ciou@0.5"], figures["auc"]]
    np.testing.assert_allclose(returned, recorded["jsa_returned"], rtol=0, atol=1e-12)


def test_on_a_flat_map_recorded_scores_are_those_of_rounding_errors(recorded: Recorded, truth: Tensor) -> None:
    """Their rule gives nothing for a flat map without rounding errors (the sound's), and a patch for one with them."""
    heat = enlarged(maps_of(recorded, "object_map_7x7")[FLAT : FLAT + 1], "bicubic", False)
    assert 0 < (heat.amax() - heat.amin()) / heat.amax() < 3e-6
    patch, own = stretched(heat) >= 0.6, truth[FLAT : FLAT + 1]
    assert ((patch & own).sum() / (patch | own).sum().double()).item() == recorded["jsa_picture_slot_iou"][FLAT]
    assert recorded["jsa_sound_iou"][FLAT] == 0
    assert score(heat, own, find_preset("jsa"), grid=(1, 1)).iou.item() == 0
    # under a median everything is on, as in the code whose rounding errors cancel
    everything = own.double().mean().item()
    assert recorded["avgn_first_iou"][FLAT] == recorded["ez_test_object_iou"][FLAT] == everything
    assert score(heat, own, find_preset("slavc-relative"), grid=(1, 1)).iou.item() == everything


def test_avgn(recorded: Recorded, truth: Tensor) -> None:
    preset = replace(find_preset("avgn"), levels=(0.1, 0.3, 0.5))
    maps, scored = maps_of(recorded, "slavc_map_7x7"), []
    for place, name in enumerate(("first", "second")):
        cases = torch.from_numpy(recorded["avgn_pairs"][:, place])
        pairs = same_pixels(recorded, f"avgn_{name}_iou", maps[cases][:, :, None], truth[cases], preset)
        np.testing.assert_allclose(pairs.ap, recorded[f"avgn_{name}_piap_swapped"], rtol=0, atol=1e-12)
        figures = summarise_as(pairs, preset)
        rates = [figures[f"ciou@{x}"] for x in (0.1, 0.3, 0.5)]
        assert rates == recorded[f"avgn_{name}_precision_at_10_30_50"].tolist()
        assert figures["auc"] == pytest.approx(recorded[f"avgn_{name}_auc"], abs=1e-12)
        confidence = top_quarter(_scaled(enlarged(maps[cases], "bicubic", False)))[:, 0]
        f1 = detection_f1(Detections(pairs.iou.numpy(), confidence, np.ones(20, bool)), 0.3)
        scored.append([figures["ciou@0.1"], figures["cap"], f1])
    np.testing.assert_allclose(np.mean(scored, axis=0), recorded["avgn_returned"], rtol=0, atol=1e-12)


def _scaled(maps: Tensor) -> Tensor:
    """Cosines divided by the temperature, brought to [0, 1]."""
    return (maps + 1 / TAU) / (2 / TAU)


@pytest.mark.parametrize("rule", ["fixed", "median"])
def test_slavc(recorded: Recorded, truth: Tensor, rule: str) -> None:
    preset = find_preset("slavc" if rule == "fixed" else "slavc-relative")
    sound = _scaled(enlarged(maps_of(recorded, "slavc_map_7x7"), "bicubic", True))
    seen = enlarged(maps_of(recorded, "object_map_7x7"), "bicubic", True) / 2.5
    for name, maps in {"sound": sound, "object": seen, "combined": 0.9 * sound + 0.1 * seen}.items():
        prefix = f"slavc_test_{rule}_{name}"
        found, pairs = _detections(recorded, f"{prefix}_iou", maps, truth, preset)
        np.testing.assert_array_equal(found.confidence, recorded[f"{prefix}_confidence"])
        figures = summarise_as(pairs, preset)
        ours = [figures["ciou@0.5"], detection_precision(found), detection_f1(found)]
        np.testing.assert_allclose(ours, recorded[f"{prefix}_precision_ap_f1"], rtol=0, atol=1e-12)
        ours = [detection_precision(found, level) for level in (0.5, 0.75)]
        np.testing.assert_allclose(ours, recorded[f"{prefix}_ap_all_at_50_75"], rtol=0, atol=1e-12)
        assert figures["auc"] == pytest.approx(recorded[f"{prefix}_auc_visible"], abs=1e-12)
        gates = np.sort(found.confidence)[::2]
        curve = [round(100 * detection_f1(found, gate=gate), 1) for gate in gates]
        assert curve == recorded[f"{prefix}_f1_curve_all_at_50"].tolist()


def test_slavc_while_it_trains(recorded: Recorded, truth: Tensor) -> None:
    preset = replace(find_preset("slavc-relative"), align_corners=False)
    maps = maps_of(recorded, "slavc_map_7x7")
    found, pairs = _detections(recorded, "slavc_validation_iou", maps, truth, preset)
    confidence = top_quarter(_scaled(enlarged(maps, "bicubic", False)))[:, 0]
    found = found._replace(confidence=confidence)
    ours = [summarise_as(pairs, preset)["ciou@0.5"], detection_precision(found), detection_f1(found)]
    np.testing.assert_allclose(ours, recorded["slavc_validation_precision_ap_f1"], rtol=0, atol=1e-12)


def _detections(
    recorded: Recorded, name: str, maps: Tensor, truth: Tensor, preset: Preset
) -> tuple[Detections, PairScores]:
    """The visible cases' pairs; cases without a box are left out of them and are the negatives."""
    visible = np.ones(20, dtype=bool)
    visible[recorded["silent_cases"]] = False
    own = truth & torch.from_numpy(visible)[:, None, None, None]
    pairs = score(maps, own, preset, grid=(1, 1))
    assert pairs.scene.tolist() == np.flatnonzero(visible).tolist()
    expected = recorded[name]
    assert not np.nan_to_num(expected[~visible]).any()
    rounding = np.flatnonzero(visible) == RANKED_ROUNDING.get(name, -1)
    np.testing.assert_array_equal(pairs.iou.numpy()[~rounding], expected[visible][~rounding])
    assert (pairs.iou.numpy()[rounding] != expected[visible][rounding]).all()
    pairs = replace(pairs, iou=torch.from_numpy(expected[visible]))
    confidence = top_quarter(maps)[:, 0]
    return Detections(np.nan_to_num(expected), confidence, visible), pairs


def test_noprior(recorded: Recorded, truth: Tensor) -> None:
    preset = find_preset("noprior")
    maps = torch.from_numpy(recorded["noprior_map_14x7"]).reshape(20, 3, 14, 7)
    joined = torch.zeros(20, 2, 448, 224, dtype=torch.bool)
    joined[:, 0, :224], joined[:, 1, 224:] = truth[:, 0], truth[:, 0].roll(-7, 0)
    ends = recorded["noprior_scores_per_case"].cumsum()
    scored, piaps = [], []
    for case, (count, end) in enumerate(zip(recorded["noprior_map_count"].tolist(), ends.tolist(), strict=True)):
        own = maps[case : case + 1, :count]
        pairs = score(own, joined[case : case + 1], preset, grid=(2, 1))
        rows = slice(end - len(pairs), end)
        # their one NaN is 0 / 0: nothing is on, and the truth is erased
        np.testing.assert_array_equal(pairs.iou.sort().values, np.sort(np.nan_to_num(recorded["noprior_iou"][rows])))
        expected = np.sort(recorded["noprior_cap_binary"][rows])
        np.testing.assert_allclose(pairs.ap.sort().values, expected, rtol=0, atol=1e-12)
        assert recorded["noprior_right_count"][case] == (count == 2)
        scored.append(pairs)
        summed = upsample(own, (448, 224), preset).sum(1)[0]
        halves = torch.cat([binarise(half, preset.rule) for half in summed.chunk(2)])
        piaps.append(average_precision(halves, joined[case].any(0)).item())
    np.testing.assert_allclose(piaps, recorded["noprior_piap"], rtol=0, atol=1e-12)
    figures = summarise_as(concatenate(scored), preset)
    # the IoU of that one is 0 here, which reaches the threshold 0 as NaN does not
    area = figures["auc"] - 0.025 / len(recorded["noprior_iou"])
    ours = [figures["ciou@0.5"], figures["ciou@0.3"], figures["cap"], np.mean(piaps), area]
    np.testing.assert_allclose(ours, recorded["noprior_summary"], rtol=0, atol=1e-12)


def _classes(recorded: Recorded, side: int) -> tuple[Tensor, Tensor]:
    """The maps of a frame's two classes, shape (20, 2, 14, 14), and their boxes, shape (20, 2, side, side)."""
    own = torch.from_numpy(recorded["dsol_maps"])[torch.arange(20)[:, None], recorded["dsol_box_map_index"]]
    truth = torch.zeros(20, 2, side, side, dtype=torch.bool)
    for index in np.ndindex(20, 2):
        x, y, width, height = recorded["dsol_boxes"][index] * side
        truth[index][int(y) : int(y + height), int(x) : int(x + width)] = True
    return own, truth


@pytest.mark.parametrize(("preset", "name"), [("dsol", "duet"), ("dsol-synthetic", "synthetic")])
def test_dsol(recorded: Recorded, preset: str, name: str) -> None:
    pairs = score(*_classes(recorded, 224), find_preset(preset), grid=(1, 1))
    np.testing.assert_array_equal(pairs.iou.reshape(20, 2).mean(1), recorded[f"dsol_{name}_frame_iou"])
    figures = summarise_as(pairs, find_preset(preset))
    dark = dark_share(upsample(torch.from_numpy(recorded["dsol_maps"]), (224, 224), find_preset(preset)))
    absent = torch.ones(20, 11, dtype=torch.bool).scatter_(1, torch.from_numpy(recorded["dsol_box_map_index"]), False)
    nsa = dark[absent].reshape(20, 9).mean(1)
    if name == "duet":
        np.testing.assert_allclose(nsa, recorded["dsol_duet_frame_nsa"], rtol=0, atol=1e-12)
    ours = [figures["auc"], figures["ciou@0.3"], figures["ciou@0.5"], nsa.mean().item()]
    np.testing.assert_allclose(ours, recorded[f"dsol_{name}_auc_at30_at50_nsa"], rtol=0, atol=1e-12)


def test_coarse_to_fine(recorded: Recorded) -> None:
    preset = find_preset("coarse-to-fine")
    figures = summarise_as(score(*_classes(recorded, 256), preset, grid=(1, 1)), preset)
    ours = [figures["ciou@0.5"], figures["auc"]]
    np.testing.assert_allclose(ours, recorded["c2f_audioset_at50_auc"], rtol=0, atol=1e-12)


def test_coarse_to_fine_with_annotators_who_disagree(recorded: Recorded) -> None:
    agreement = torch.zeros(20, 256, 256)
    for case, boxes in enumerate(recorded["boxes_norm"]):
        for left, top, right, bottom in (256 * boxes[(boxes != -1).any(1)].clip(0, 1)).astype(int).tolist():
            agreement[case, top:bottom, left:right] += 0.5
    maps = torch.from_numpy(recorded["c2f_map_16x16"]).repeat_interleave(16, 1).repeat_interleave(16, 2)
    ious = consensus_iou(binarise(maps, "fixed-0.001-strict"), agreement.clamp_max(1))
    np.testing.assert_array_equal(ious, recorded["c2f_iou"])
    ours = [auc(ious).item(), (ious >= 0.5).double().mean().item()]
    np.testing.assert_allclose(ours, recorded["c2f_auc_at50"], rtol=0, atol=1e-12)


def test_nothing_that_was_recorded_is_left_out(recorded: Recorded) -> None:
    """The names above cover the file: an evaluation recorded later is not forgotten."""
    families = {name.split("_")[0] for name in recorded}
    inputs = {"map", "boxes", "truth", "object", "silent"}
    assert families - inputs == {"lvs", "ez", "slavc", "avgn", "jsa", "noprior", "dsol", "c2f"}
