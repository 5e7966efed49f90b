from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from soundwhere.errors import DataError
from soundwhere.metrics.pairs import concatenate, summarise
from soundwhere.metrics.presets import PRESETS, score
from soundwhere.metrics.protocols import check_shapes

seeds = st.integers(0, 100_000)


def duet(seed, scenes=3, maps=2, size=8):
    """Smooth random maps over two frames side by side, and one box in each frame."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(scenes, maps, 3, 5, generator=generator)
    heat = torch.nn.functional.interpolate(coarse, size=(size, 2 * size), mode="bilinear")
    truth = torch.zeros(scenes, 2, size, 2 * size, dtype=torch.bool)
    for scene in range(scenes):
        for source in range(2):
            top, left, high, wide = torch.randint(1, size // 2 + 1, (4,), generator=generator).tolist()
            truth[scene, source, top : top + high, source * size + left - 1 : source * size + left - 1 + wide] = True
    return heat, truth


def frame_wise(maps, truth, scenes=None, **changes):
    return score(maps, truth, replace(PRESETS["scav"], **changes), scenes=scenes)


def source_wise(maps, truth, grid=(1, 2), **changes):
    return score(maps, truth, replace(PRESETS["scav-source-wise"], **changes), grid)


def plain_iou(mask, truth):
    return (mask & truth).sum().item() / max((mask | truth).sum().item(), 1)


@given(seeds)
@settings(max_examples=40)
def test_frame_wise_equals_a_plain_loop(seed):
    maps, truth = duet(seed)
    pairs = frame_wise(maps, truth)
    expected = []
    for heat, sources in zip(maps, truth, strict=True):
        masks = [(m - m.min()) / (m.max() - m.min()) >= 0.5 for m in heat]
        orders = [(0, 1), (1, 0)]

        def total(order, score, first, second):
            return sum(score(first[order[s]], second[s]) for s in range(2))

        def precision(map_, mask):
            return average_precision_score(mask.flatten(), map_.flatten())

        order = max(
            orders,  # of assignments with the same total IoU, the one with the greater total precision
            key=lambda o: (round(total(o, plain_iou, masks, sources), 9), total(o, precision, heat, sources)),
        )
        for s in range(2):
            heatmap, mask, own, other = heat[order[s]], masks[order[s]], sources[s], sources[1 - s]
            leak = (mask & other & ~own).sum().item() / max(mask.sum().item(), 1)
            ap = precision(heatmap, own)
            point = own[heatmap == heatmap.max()].float().mean().item()
            expected.append((plain_iou(mask, own), ap, point, leak))
    rows = zip(pairs.iou, pairs.ap, pairs.pointing, pairs.leakage, strict=True)
    for row, wanted in zip(rows, expected, strict=True):
        assert [value.item() for value in row] == pytest.approx(list(wanted), abs=1e-6)
    assert pairs.scene.tolist() == [0, 0, 1, 1, 2, 2]
    assert pairs.source.tolist() == [0, 1] * 3


@given(seeds)
@settings(max_examples=40)
def test_source_wise_scores_each_half_alone(seed):
    maps, truth = duet(seed)
    pairs = source_wise(maps, truth)
    for row in range(len(pairs)):
        scene, source, prediction = pairs.scene[row], pairs.source[row], pairs.prediction[row]
        half = slice(8 * source, 8 * source + 8)
        heat = maps[scene, prediction]
        mask = ((heat - heat.min()) / (heat.max() - heat.min()) >= 0.5)[:, half]
        own = truth[scene, source][:, half]
        assert pairs.iou[row].item() == pytest.approx(plain_iou(mask, own))
        ap = average_precision_score(own.flatten(), heat[:, half].flatten())
        assert pairs.ap[row].item() == pytest.approx(ap, abs=1e-6)


@given(seeds)
def test_source_wise_iou_is_at_least_frame_wise_for_a_fixed_assignment(seed):
    maps, truth = duet(seed, maps=1)  # one map, repeated: the assignment is fixed
    frame, source = frame_wise(maps, truth), source_wise(maps, truth)
    assert (source.iou >= frame.iou).all()
    masks = (maps - maps.amin((-2, -1), True)) / (maps.amax((-2, -1), True) - maps.amin((-2, -1), True)) >= 0.5
    for row in range(len(frame)):
        mask, s = masks[frame.scene[row], 0], int(frame.source[row])
        crosses = mask[:, 8 * (1 - s) : 8 * (2 - s)].any()
        # equal when nothing is active on the other half, and also when the intersection is empty
        assert (source.iou[row] == frame.iou[row]).item() == (not crosses or frame.iou[row].item() == 0)


@given(seeds, st.permutations(range(3)), st.sampled_from(["minmax-0.5", "median", "top-area-0.1", "fixed-2"]))
def test_the_order_of_maps_and_sources_does_not_matter(seed, order, rule):
    maps, truth = duet(seed, maps=3)  # fixed-2 leaves every mask empty: all totals tie
    straight = frame_wise(maps, truth, rule=rule)
    other = frame_wise(maps[:, order], truth.flip(1), rule=rule)
    for name in ("iou", "ap", "pointing", "leakage"):
        first = getattr(straight, name).reshape(3, 2)
        second = getattr(other, name).reshape(3, 2).flip(1)
        assert torch.allclose(first, second, atol=1e-9)


def test_a_source_wise_frame_is_found_in_a_grid():
    maps, truth = torch.rand(1, 1, 6, 9), torch.zeros(1, 1, 6, 9, dtype=torch.bool)
    truth[0, 0, 4, 7] = True  # second row, third column of a 2 x 3 grid
    pairs = source_wise(maps, truth, rule="top-area-1", grid=(2, 3))
    assert pairs.iou.item() == pytest.approx(1 / 9)


def test_empty_masks_are_left_out_and_take_no_prediction():
    maps, truth = duet(1)
    truth[1, 0] = False
    pairs = frame_wise(maps, truth)
    assert pairs.scene.tolist() == [0, 0, 1, 2, 2]
    best = frame_wise(maps[1:2], truth[1:2, 1:]).iou
    assert pairs.iou[2] == best


def test_a_missing_map_scores_nothing_under_zero():
    maps, truth = duet(2, maps=1)
    repeat, zero = frame_wise(maps, truth), frame_wise(maps, truth, policy="zero")
    missing = zero.prediction < 0
    assert missing.sum() == 3
    assert (repeat.prediction == 0).all()
    assert (zero.iou[missing] == 0).all()
    assert (zero.ap[missing] == 0).all()
    assert (repeat.ap[missing] > 0).all()


def test_everything_on_scores_the_covered_share():
    _, truth = duet(3)
    pairs = frame_wise(torch.ones(3, 2, 8, 16, dtype=torch.bool), truth)
    share = truth.float().mean((-2, -1)).flatten().double()
    assert torch.allclose(pairs.iou, share)
    assert torch.allclose(pairs.ap, share)


def test_the_perfect_answer_scores_one_in_any_order():
    _, truth = duet(4)
    summary = summarise(frame_wise(truth.flip(1).float(), truth))
    assert summary["cap"] == summary["mean_iou"] == summary["pointing"] == summary["ciou@0.5"] == 1.0
    assert summary["leakage"] == 0.0
    assert summary["auc"] == pytest.approx(1.0)


def test_batches_join_to_the_same_summary():
    maps, truth = duet(5, scenes=4)
    numbers = torch.arange(4)
    parts = [frame_wise(maps[i : i + 2], truth[i : i + 2], scenes=numbers[i : i + 2]) for i in (0, 2)]
    joined, whole = concatenate(parts), frame_wise(maps, truth)
    assert joined.scene.tolist() == whole.scene.tolist()
    assert summarise(joined) == summarise(whole)


def test_a_nan_map_is_an_error_not_a_score():
    maps, truth = duet(6)
    maps[1, 1, 3, 3] = torch.nan
    with pytest.raises(DataError, match="NaN"):
        frame_wise(maps, truth)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="cannot be scored against"):
        check_shapes(torch.rand(1, 2, 7, 14), torch.zeros(1, 2, 224, 448, dtype=torch.bool))
    with pytest.raises(DataError, match="cannot be scored against"):
        frame_wise(torch.rand(2, 2, 7, 14), torch.zeros(1, 2, 224, 448, dtype=torch.bool))
    with pytest.raises(DataError, match="not a grid"):
        source_wise(torch.rand(1, 2, 8, 15), torch.ones(1, 2, 8, 15, dtype=torch.bool))
    with pytest.raises(DataError, match="not boolean"):
        frame_wise(torch.rand(1, 2, 8, 16), torch.ones(1, 2, 8, 16))
    with pytest.raises(DataError, match="no heatmap"):
        frame_wise(torch.rand(1, 0, 8, 16), torch.ones(1, 2, 8, 16, dtype=torch.bool))
    with pytest.raises(DataError, match="nothing to score"):
        concatenate([])


@pytest.mark.parametrize("preset", ["scav", "lvs", "ez-vsl", "dsol"])
@pytest.mark.parametrize("masks", [False, True])
def test_maps_that_answer_for_all_scenes_score_as_copies_of_them_do(preset, masks):
    heat, truth = duet(3, scenes=9)
    truth[4, 0] = False
    once = (heat[:1] > 0.5 if masks else heat[:1]).expand(9, -1, -1, -1)
    shared, copied = (score(maps, truth, PRESETS[preset]).columns() for maps in (once, once.clone()))
    for name, column in shared.items():
        assert torch.equal(column.nan_to_num(2), copied[name].nan_to_num(2)), name
    assert shared["iou"].max() > 0
