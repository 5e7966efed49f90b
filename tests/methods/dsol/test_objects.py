from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.errors import ConfigError, DataError
from soundwhere.losses.pairs import with_strangers
from soundwhere.methods.dsol.model import DSOL, DSOLConfig
from soundwhere.methods.dsol.objects import (
    category_loss,
    class_maps,
    grown,
    location_loss,
    negative_scores,
    object_features,
    object_maps,
)
from soundwhere.methods.dsol.stages import METHOD, Trains
from soundwhere.methods.method import Given
from soundwhere.training.checkpoint import Progress
from soundwhere.training.loop import make_optimiser, run_stage
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable


def tiny(**changes: Any) -> DSOL:
    torch.manual_seed(0)
    settings = {"dimension": 16, "frame_px": 64, "clusters": 4, "batch_size": 4} | changes
    config = DSOLConfig(visual="tiny", audio="tiny", visual_weights="none", fine_grid=False, **settings)
    return DSOL(config)


def recorded(recording: Any, stage: str) -> DSOL:
    network = tiny(dimension=128, clusters=11)
    names = {
        "conv_v_1": "cell_head.0",
        "conv_v_2": "cell_head.2",
        "fc_a_1": "sound_head.0",
        "fc_a_2": "sound_head.2",
        "v_class_layer": "seen_classifier",
        "a_class_layer": "heard_classifier",
    }
    network.cell_head = nn.Sequential(nn.Conv2d(64, 128, 1), nn.ReLU(), nn.Conv2d(128, 128, 1))
    network.sound_head = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128))
    network.seen_classifier, network.heard_classifier = nn.Linear(64, 11), nn.Linear(64, 11)
    weights = recording.weights(f"{stage}.")
    tensors = {"scale": weights.pop("conv_av.weight").reshape(())}
    if stage == "s2":
        tensors["object_weight"] = weights.pop("obj_conv.weight").reshape(())
        tensors["object_bias"] = weights.pop("obj_conv.bias").reshape(())
        network.dictionary = recording["s2_object_dictionary"]
    for name, tensor in weights.items():
        layer, _, kind = name.rpartition(".")
        tensors[f"{names[layer]}.{kind}"] = tensor
    network.double().load_state_dict(tensors, strict=False)
    return network


def test_the_recorded_first_stage(oracle: Callable[[str], Any]) -> None:
    recording = oracle("dsol")
    network = recorded(recording, "s1")
    image, audio = recording.leaves("image_features", "audio_map")
    heard = audio.amax((2, 3))
    maps = network.sounding(network.cells(image), network.sounds(heard))
    score = maps.flatten(1).amax(1)
    match = F.binary_cross_entropy(score, recording["label"])
    picture, sound = network.seen_classifier(image.mean((2, 3))), network.heard_classifier(heard)
    labels = recording["s1_pseudo_label"]
    kinds = F.cross_entropy(picture, labels) + F.cross_entropy(sound, labels)
    recording.agree(
        s1_map=maps,
        s1_score=score,
        s1_loss_bce=match,
        s1_visual_logits=picture,
        s1_audio_logits=sound,
        s1_loss_class=kinds,
        whole_features=image[::2].mean((2, 3)),
    )
    recording.agree_gradients(match, s1_grad_image_features=image, s1_grad_audio_map=audio)
    recording.agree_gradients(kinds, s1_grad_image_features_class=image)
    # at the recorded threshold no cell of these pictures sounds: the recorded mask and features are all zero
    recording.agree(
        object_mask_dilated=grown(maps[::2] > 0.9), object_features=object_features(image[::2], maps[::2], 0.9)
    )


def test_the_recorded_second_stage(oracle: Callable[[str], Any]) -> None:
    recording = oracle("dsol")
    network = recorded(recording, "s2")
    right, wrong = (recording["image_features"][start::2].clone().requires_grad_(True) for start in (0, 1))
    audio = recording["audio_map"][::2].clone().requires_grad_(True)
    sounds = network.sounds(audio.amax((2, 3)))
    there, elsewhere = (network.sounding(network.cells(image), sounds) for image in (right, wrong))
    objects = network.objects(right, there)
    category = category_loss(objects.mean((2, 3)), recording["s2_fixed_audio_logits"][::2])
    location = location_loss(there, elsewhere)
    total = category + network.config.location_weight * location
    ones, zeros = torch.ones(3, dtype=torch.float64), torch.zeros(12, dtype=torch.float64)
    recording.agree(
        s2_map=torch.stack([there, elsewhere], dim=1).flatten(0, 1),
        s2_positive_score=there.flatten(1).amax(1),
        s2_negative_scores=negative_scores(elsewhere),
        s2_object_maps=torch.stack([objects, network.objects(wrong, elsewhere)], dim=1).flatten(0, 1),
        s2_object_scores=torch.stack([objects, network.objects(wrong, elsewhere)], dim=1).flatten(0, 1).mean((2, 3)),
        s2_object_scores_unmasked=object_maps(
            recording["image_features"], network.dictionary, network.object_weight, network.object_bias
        ).mean((2, 3)),
        s2_loss_bce_positive=F.binary_cross_entropy(there.flatten(1).amax(1), ones),
        s2_loss_bce_negative=F.binary_cross_entropy(negative_scores(elsewhere), zeros),
        s2_loss_category=category,
        s2_loss=total,
        s2_class_maps_at_test=class_maps(objects),
    )
    recording.agree_gradients(
        total, s2_grad_positive_picture=right, s2_grad_negative_picture=wrong, s2_grad_audio_map=audio
    )


def plainly_grown(mask: torch.Tensor) -> torch.Tensor:
    """Cell by cell: those inside spread to their four neighbours."""
    result = mask.clone()
    height, width = mask.shape
    for row in range(1, height - 1):
        for column in range(1, width - 1):
            if mask[row, column]:
                for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                    result[row + down, column + right] = True
    return result


def test_masks_grow_by_four_neighbours_but_not_from_the_border() -> None:
    masks = torch.rand(20, 7, 9, generator=torch.Generator().manual_seed(0)) < 0.2
    assert torch.equal(grown(masks), torch.stack([plainly_grown(mask) for mask in masks]))
    corner = torch.zeros(1, 5, 5, dtype=torch.bool)
    corner[0, 0, 2] = True
    assert torch.equal(grown(corner), corner)


def test_object_features_are_means_over_all_cells() -> None:
    features, maps = torch.ones(1, 3, 5, 5), torch.zeros(1, 5, 5)
    maps[0, 2, 2] = 0.5
    torch.testing.assert_close(object_features(features, maps, 0.05), torch.full((1, 3), 5 / 25))


def test_category_loss_is_zero_when_seen_and_heard_agree() -> None:
    logits = torch.randn(4, 11)
    assert float(category_loss(logits + 3, logits)) == pytest.approx(0, abs=1e-7)
    assert category_loss(logits.flip(0), logits) > 0


def test_labels_choose_the_sum_of_their_clusters_and_without_them_the_surest_do() -> None:
    network = tiny(classes=("bell", "drum")).eval()
    network.dictionary.copy_(torch.rand(4, 128))
    network.stands.copy_(torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 0]]))
    with torch.no_grad():
        seen, heard = network.see(torch.randn(2, 3, 64, 128)), network.hear(torch.randn(2, 66_150) / 10)
        sounding = network.sounding(network.cells(seen), heard[:, :16])
        maps = class_maps(network.objects(seen, sounding))
        found = network.localise(seen, heard, 2, Given(labels=[["drum", "bell"], ["bell", "drum"]]))
        torch.testing.assert_close(found.similarity[0, 0], maps[0, 1])
        torch.testing.assert_close(found.similarity[0, 1], maps[0, 0] + maps[0, 2])
        torch.testing.assert_close(found.similarity[1], found.similarity[1].clamp(0, 1))
        heard_order = heard[:, 16:].topk(3).indices
        torch.testing.assert_close(network.localise(seen, heard, 3).similarity[1], maps[1, heard_order[1]])
    with pytest.raises(DataError, match="class 'horn'"):
        network.localise(seen, heard, 1, Given(labels=[["horn"], ["bell"]]))


def test_the_judge_is_stage_ones_ears_and_stays() -> None:
    network = tiny().train()
    network.begin_stage_two()
    spectrogram = network.spectrogram(torch.randn(2, 66_150) / 10)
    with torch.no_grad():
        expected = network.eval().heard_classifier(network.hear_pooled(spectrogram))
    torch.testing.assert_close(network.train().judged(spectrogram), expected)
    assert not any(parameter.requires_grad for parameter in network.judge.parameters())
    for stage in METHOD.stages(network.config):
        stage.objective(network)
        assert not any(parameter.requires_grad for parameter in network.judge.parameters())


def test_classifiers_learn_ten_times_as_fast_and_heads_wait_meanwhile() -> None:
    network = tiny()
    classify = next(stage for stage in METHOD.stages(network.config) if stage.name == "class-2")
    optimiser = make_optimiser(classify.objective(network), classify.schedule)
    faster = {id(p) for group in optimiser.param_groups if group["factor"] == 10 for p in group["params"]}
    parts = (network.seen_classifier, network.heard_classifier)
    assert faster == {id(p) for part in parts for p in part.parameters()}
    assert not any(p.requires_grad for p in network.cell_head.parameters())
    assert isinstance(classify.objective(network), Trains)


def test_the_loop_steps_faster_where_it_should() -> None:
    network = tiny().train()
    network.centres.copy_(torch.eye(4, 128))
    classify = next(stage for stage in METHOD.stages(network.config) if stage.name == "class-2")
    objective = classify.objective(network)
    slow, fast = network.audio.layers[0][0].weight, network.seen_classifier.weight
    before = [weight.detach().clone() for weight in (slow, fast)]
    batch = Batch(torch.randn(4, 66_150) / 10, torch.randn(4, 3, 64, 64))
    optimiser = make_optimiser(objective, classify.schedule)
    list(run_stage(objective, optimiser, [batch], Progress("class-2"), 10, classify.schedule, torch.device("cpu")))
    moved = [(weight - old).abs().max() for weight, old in zip((slow, fast), before, strict=True)]
    torch.testing.assert_close(moved[1] / moved[0], torch.tensor(10.0), rtol=1e-2, atol=0)  # Adam's first step


def test_rounds_alternate_from_the_second_on() -> None:
    names = [stage.name for stage in METHOD.stages(tiny(rounds=3).config)]
    assert names == ["one-1", "one-2", "class-2", "one-3", "class-3", "two"]
    with pytest.raises(ConfigError, match="rounds is 1"):
        DSOLConfig(rounds=1)


def test_pairs_that_do_not_match_are_the_next_pictures() -> None:
    network = tiny().eval()
    cells, sounds = network.cells(torch.rand(3, 128, 4, 4)), network.sounds(torch.rand(3, 128))
    maps = network.sounding(*with_strangers(cells, sounds)[:2])
    torch.testing.assert_close(maps[3:], network.sounding(cells[[1, 2, 0]], sounds))
