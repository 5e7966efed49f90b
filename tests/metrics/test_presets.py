"""Each preset against a plain loop over one scene that does what its origin's released code does."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from soundwhere.errors import ConfigError, DataError
from soundwhere.metrics.presets import PRESETS, find_preset, score, summarise_as, upsample

SIDE = 32


@pytest.fixture
def scenes():
    """Coarse maps (6, 2, 4, 8) of two frames side by side, and one box in each frame; weights of 1 / 16 are exact."""
    generator = torch.Generator().manual_seed(7)
    maps = torch.rand(6, 2, 4, 8, generator=generator)
    truth = torch.zeros(6, 2, SIDE, 2 * SIDE, dtype=torch.bool)
    for scene in range(6):
        for source in range(2):
            y, x = torch.randint(0, SIDE // 2, (2,), generator=generator).tolist()
            high, wide = torch.randint(5, SIDE // 2, (2,), generator=generator).tolist()
            truth[scene, source, y : y + high, source * SIDE + x : source * SIDE + x + wide] = True
    return maps, truth


def resized(maps, mode, align_corners=False, size=(SIDE, 2 * SIDE)):
    return torch.nn.functional.interpolate(maps, size=size, mode=mode, align_corners=align_corners).numpy()


def minmax(values):
    return (values - values.min()) / (values.max() - values.min())


def ciou(mask, truth):
    return np.sum(mask * truth) / (np.sum(truth) + np.sum(mask * (truth == 0)))


def median(values):
    return np.sort(values.ravel())[values.size // 2]


def success(ious, x):
    return np.mean(np.array(ious) >= x)


def test_lvs_keeps_pixels_above_the_median(scenes):
    maps, truth = scenes[0][:, :1], scenes[1][:, :1]
    heats = resized(maps, "bilinear")
    ious = [ciou(heat[0] > median(heat[0]), box[0]) for heat, box in zip(heats, truth.numpy(), strict=True)]
    pairs = score(maps, truth, find_preset("lvs"))
    assert pairs.iou.tolist() == pytest.approx(ious)
    summary = summarise_as(pairs, find_preset("lvs"))
    assert summary["ciou@0.5"] == success(ious, 0.5)
    assert "cap" not in summary


def test_ez_vsl_aligns_corners(scenes):
    maps, truth = scenes[0][:, :1], scenes[1][:, :1]
    heats = resized(maps, "bilinear", align_corners=True)
    ious = [ciou(heat[0] >= median(heat[0]), box[0]) for heat, box in zip(heats, truth.numpy(), strict=True)]
    assert score(maps, truth, find_preset("ez-vsl")).iou.tolist() == pytest.approx(ious)


def test_jsa_thresholds_at_0_6(scenes):
    maps, truth = scenes[0][:, :1], scenes[1][:, :1]
    heats = resized(maps, "bicubic")
    ious = [ciou(minmax(heat[0]) >= 0.6, box[0]) for heat, box in zip(heats, truth.numpy(), strict=True)]
    assert score(maps, truth, find_preset("jsa")).iou.tolist() == pytest.approx(ious)


def test_avgn_scores_single_frames_in_the_given_order_with_swapped_precision(scenes):
    _, truth = scenes
    frames = torch.rand(6, 1, 2, 4, 4, generator=torch.Generator().manual_seed(1))  # one map for each frame
    ious, piaps = [], []
    for scene in range(6):
        for source in range(2):
            pred = resized(frames[scene, :, source][None], "bicubic", size=(SIDE, SIDE))[0, 0]
            infer = pred >= median(pred)
            box = truth[scene, source, :, source * SIDE : (source + 1) * SIDE].numpy()
            ious.append(ciou(infer, box))
            piaps.append(average_precision_score(infer.ravel(), box.ravel().astype(float)))
    pairs = score(frames, truth, find_preset("avgn"))
    assert pairs.iou.tolist() == pytest.approx(ious)
    assert pairs.ap.tolist() == pytest.approx(piaps)
    summary = summarise_as(pairs, find_preset("avgn"))
    assert [summary["ciou@0.1"], summary["ciou@0.3"]] == [success(ious, 0.1), success(ious, 0.3)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_noprior_takes_halves_greedily_and_counts_missing_and_surplus_maps(scenes, count):
    maps = torch.cat([scenes[0], scenes[0].flip(-1)[:, :1]], dim=1)[:, :count]
    truth = scenes[1]
    ious, caps = [], []
    for heats, boxes in zip(resized(maps, "bicubic"), truth.numpy(), strict=True):
        left = [boxes[0, :, :SIDE].copy(), boxes[1, :, SIDE:].copy()]
        for heat in heats:
            tried = []
            for half in range(2):
                part = heat[:, half * SIDE : (half + 1) * SIDE]
                infer = part > median(part)
                precision = average_precision_score(left[half].ravel(), infer.ravel()) if left[half].any() else 0.0
                tried.append((ciou(infer, left[half]), precision))
            best = int(np.argmax([value for value, _ in tried]))
            ious.append(tried[best][0])
            caps.append(tried[best][1])
            left[best][:] = False
        ious += [0.0] * (2 - len(heats))
        caps += [0.0] * (2 - len(heats))
    pairs = score(maps, truth, find_preset("noprior"))
    assert sorted(pairs.iou.tolist()) == pytest.approx(sorted(ious))
    assert sorted(pairs.ap.tolist()) == pytest.approx(sorted(caps))


@pytest.mark.parametrize(("name", "fraction"), [("dsol", 0.2), ("dsol-synthetic", 0.5)])
def test_dsol_averages_the_sources_of_a_scene_first(scenes, name, fraction):
    maps, truth = scenes
    means = []
    for heats, boxes in zip(resized(maps, "bilinear"), truth.numpy(), strict=True):
        means.append(np.mean([ciou(h > fraction * h.max(), box) for h, box in zip(heats, boxes, strict=True)]))
    summary = summarise_as(score(maps, truth, find_preset(name)), find_preset(name))
    assert summary["ciou@0.3"] == success(means, 0.3)
    assert summary["mean_iou"] == pytest.approx(np.mean(means))
    rates = [success(means, threshold) for threshold in np.arange(21) / 20]
    assert summary["auc"] == pytest.approx(np.trapezoid(rates, dx=0.05))


def test_t_vsl_prints_the_mean_iou(scenes):
    maps, truth = scenes
    ious, aps = [], []
    for heats, boxes in zip(resized(maps, "bicubic"), truth.numpy(), strict=True):
        for heat, box in zip(heats, boxes, strict=True):
            ious.append(ciou(minmax(heat) >= 0.3, box))
            aps.append(average_precision_score(box.ravel(), heat.ravel()))
    summary = summarise_as(score(maps, truth, find_preset("t-vsl")), find_preset("t-vsl"))
    assert summary["ciou@0.3"] == pytest.approx(np.mean(ious))
    assert summary["cap"] == pytest.approx(np.mean(aps))


@pytest.mark.parametrize("name", PRESETS)
def test_whole_numbers_score_as_real_ones(scenes, name):
    truth = scenes[1]
    perfect = truth.to(torch.uint8) * 255
    coarse = (255 * scenes[0]).to(torch.uint8)
    for maps in (perfect, coarse):
        pairs, expected = (score(each, truth, PRESETS[name]) for each in (maps, maps.float()))
        assert torch.equal(pairs.iou, expected.iou)
        assert torch.equal(pairs.ap.nan_to_num(-1), expected.ap.nan_to_num(-1))
    if "minmax" in PRESETS[name].rule:
        assert score(perfect, truth, PRESETS[name]).iou.tolist() == [1.0] * 12


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("cells", [(3, 6), (7, 14)])
def test_a_constant_map_scores_alike_however_it_is_enlarged(scenes, name, cells):
    truth, preset = scenes[1], PRESETS[name]
    plain = score(torch.full(truth.shape, 0.35), truth, preset)
    coarse = torch.full((6, 2, *cells), 0.35)
    noisy = torch.nn.functional.interpolate(coarse, size=truth.shape[-2:], mode="bicubic")
    assert noisy.unique().numel() > 1  # rounding errors
    for maps in (coarse, noisy):
        pairs = score(maps, truth, preset)
        for column in ("iou", "ap", "pointing"):
            assert torch.equal(getattr(pairs, column).nan_to_num(-1), getattr(plain, column).nan_to_num(-1))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_where_a_map_is_flat_it_stays_flat(mode, align_corners):
    maps = torch.full((1, 1, 7, 7), 0.35)
    maps[..., 0, 0] = 2.0
    preset = replace(find_preset("scav"), upsampling=mode, align_corners=align_corners)
    large = upsample(maps, (225, 225), preset)
    near = resized(maps, mode, align_corners, (225, 225))
    np.testing.assert_allclose(large.numpy(), near, atol=1e-5)
    assert (large[..., 120:, 120:] == maps[..., 6, 6]).all()


def test_lvs_and_noprior_keep_the_maximum_of_a_saturated_map(scenes):
    truth = scenes[1]
    maps = torch.ones(truth.shape)
    maps[..., :5, :] = 0.5
    above = torch.ones(SIDE, 2 * SIDE, dtype=torch.bool)
    above[:5] = False
    expected = [ciou(above.numpy(), box) for box in truth[:, 0].numpy()]
    assert score(maps[:, :1], truth[:, :1], find_preset("lvs")).iou.tolist() == pytest.approx(expected)
    halves = [ciou(above.numpy()[:, :SIDE], box[:, :SIDE]) for box in truth[:, 0].numpy()]
    assert score(maps[:, :1], truth[:, :1], find_preset("noprior")).iou.tolist() == pytest.approx(halves)


def test_a_flat_map_is_everything_to_lvs_and_nothing_to_noprior(scenes):
    truth = scenes[1][:, :1]
    maps = torch.full((6, 1, 4, 8), 0.35)
    assert torch.equal(score(maps, truth, find_preset("lvs")).iou, truth.double().mean((1, 2, 3)))
    assert not score(maps, truth, find_preset("noprior")).iou.any()
    assert score(torch.ones_like(truth), truth, find_preset("noprior")).iou.all()  # a mask is no flat map


@pytest.mark.parametrize("name", PRESETS)
def test_an_empty_truth_is_a_miss_or_left_out_as_its_origin_does(scenes, name):
    """Released evaluators divide 0 by the active pixels; the paper's sums leave out what is not there."""
    maps, truth, preset = scenes[0], scenes[1].clone(), PRESETS[name]
    truth[2, 1] = False
    pairs = score(maps, truth, preset)
    rows = (pairs.scene == 2) & (pairs.source == 1)
    assert len(pairs) == (12 if preset.empty_truth == "miss" else 11)
    assert pairs.iou[rows].tolist() == ([0.0] if preset.empty_truth == "miss" else [])
    assert (preset.empty_truth == "left-out") == (name.split("-")[0] in ("scav", "slavc"))
    others = torch.tensor([scene for scene in range(6) if scene != 2])
    assert torch.equal(pairs.iou[pairs.scene != 2], score(maps[others], truth[others], preset).iou)
    nothing = score(maps[:1], torch.zeros_like(truth[:1]), preset)
    assert nothing.iou.tolist() == ([0.0, 0.0] if preset.empty_truth == "miss" else [])


@pytest.mark.parametrize(("count", "rows"), [(1, 2), (2, 2), (4, 4)])
def test_noprior_counts_maps_without_a_source(scenes, count, rows):
    maps = torch.rand(3, count, 4, 8, generator=torch.Generator().manual_seed(2))
    pairs = score(maps, scenes[1][:3], find_preset("noprior"), scenes=torch.tensor([7, 7, 9]))
    assert len(pairs) == 3 * rows
    assert sorted(pairs.scene.tolist()) == [7] * 2 * rows + [9] * rows
    assert (pairs.iou > 0).sum() <= 3 * min(count, 2)


def test_the_papers_presets_enlarge_maps_bilinearly(scenes):
    maps, truth = torch.from_numpy(resized(scenes[0], "bilinear")), scenes[1]
    for name in ("scav", "scav-source-wise"):
        coarse, enlarged = (score(each, truth, find_preset(name)) for each in (scenes[0], maps))
        assert coarse.iou.tolist() == enlarged.iou.tolist()
        assert coarse.ap.tolist() == enlarged.ap.tolist()


def test_every_preset_scores_a_batch_and_records_its_choices(scenes):
    for name, preset in PRESETS.items():
        numbers = torch.arange(100, 106)
        pairs = score(*scenes, preset, scenes=numbers)
        assert pairs.scene.unique().tolist() == numbers.tolist()
        assert all(0 <= value <= 1 for value in summarise_as(pairs, preset).values())
        assert asdict(preset)["name"] == name
        assert preset.origin


def test_masks_are_scored_as_they_are_and_choices_can_be_changed(scenes):
    _, truth = scenes
    assert summarise_as(score(truth, truth, find_preset("scav")), find_preset("scav"))["mean_iou"] == 1
    turned = replace(find_preset("t-vsl"), matching="hungarian")
    assert score(truth.flip(1), truth, turned).iou.min() == 1


def test_unknown_names_and_misplaced_single_frames_are_refused(scenes):
    with pytest.raises(ConfigError, match="ez-vsl"):
        find_preset("lsv")
    with pytest.raises(DataError, match="one map per frame"):
        score(torch.rand(6, 1, 2, 3, 3), scenes[1], find_preset("scav"))
    with pytest.raises(DataError, match="one map per frame"):
        score(torch.rand(6, 1, 3, 3, 3), scenes[1], find_preset("avgn"))
