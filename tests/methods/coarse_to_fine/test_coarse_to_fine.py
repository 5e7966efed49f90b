from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional as F

from soundwhere.errors import ConfigError
from soundwhere.methods.coarse_to_fine.classes import (
    ClassVectors,
    Matcher,
    alignment_loss,
    class_maps,
    matching_loss,
    pair_filter,
    whole_map,
)
from soundwhere.methods.coarse_to_fine.model import CoarseToFine, CoarseToFineConfig
from soundwhere.methods.coarse_to_fine.stages import METHOD
from soundwhere.methods.method import Given
from soundwhere.methods.published import rename
from soundwhere.metrics.functional import consensus_iou

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = tuple("abcdefg")


def tiny(**changes: Any) -> CoarseToFine:
    torch.manual_seed(0)
    settings = {"dimension": 16, "hidden": 64, "matcher_hidden": 16, "frame_px": 64, "classes": NAMES} | changes
    config = CoarseToFineConfig(visual="tiny", audio="tiny", visual_weights="none", fine_grid=False, **settings)
    return CoarseToFine(config)


def recorded(recording: Any) -> CoarseToFine:
    network = tiny()
    network.matcher = Matcher(64, 16)
    network.seen_classes, network.heard_classes = (ClassVectors(32, 7, 64, 16) for _ in range(2))
    weights, unknown = rename(recording.weights(), CoarseToFine.published)
    assert not unknown
    network.double().load_state_dict(weights, strict=False)
    assert set(weights) == {name for name in network.state_dict() if not name.startswith(("visual.", "audio."))}
    return network


def test_the_recorded_stages(oracle: Callable[[str], Any]) -> None:
    recording = oracle("coarse_to_fine")
    network = recorded(recording)
    image, audio = recording.leaves("image_features", "audio_map")
    coarse = network.coarse_loss(image, audio, recording["label_image"], recording["label_audio"])
    fine = coarse + network.fine_loss(image, audio)
    heard, seen = network.heard_classes, network.seen_classes
    recording.agree(
        s1_match_logits=network.matcher(audio.mean((2, 3)), image.mean((2, 3))),
        s1_audio_logits=heard.logits(audio),
        s1_image_logits=seen.logits(image),
        s1_loss=coarse,
        s2_loss=fine,
        s2_audio_class_vectors=heard(audio),
        s2_image_class_vectors=seen(image),
        s2_pair_filter=pair_filter(heard.logits(audio), seen.logits(image), 0.3),
        audio_cam=heard.activation(audio),
        image_cam=seen.activation(image),
        class_maps=class_maps(heard(audio), seen.cells(image)),
        test_probability=heard.logits(audio).sigmoid(),
    )
    recording.agree_gradients(coarse, s1_grad_image_features=image, s1_grad_audio_map=audio)
    recording.agree_gradients(fine, s2_grad_image_features=image, s2_grad_audio_map=audio)


def test_the_recorded_map_of_the_whole_picture(oracle: Callable[[str], Any]) -> None:
    recording = oracle("coarse_to_fine")
    network = recorded(recording)
    one = network.localise(recording["image_features"], recording["audio_map"], 1).similarity
    large = F.interpolate(one, size=(256, 256), mode="bilinear", align_corners=False)[:, 0]
    large = large / large.amax((1, 2), keepdim=True)
    recording.agree(test_location_every8=large[:, 4::8, 4::8])
    # and its score: boxes that agree by half each, the map from half its maximum on
    agreement = torch.zeros(4, 256, 256)
    for picture, boxes in zip(agreement, recording["test_truth_boxes"].tolist(), strict=True):
        for left, top, right, bottom in boxes:
            picture[top:bottom, left:right] += 0.5
    assert torch.equal(consensus_iou(large > 0.5, agreement), recording["test_ciou_at_half"])


def test_matching_by_hand() -> None:
    logits = torch.randn(3, 3, 2, generator=torch.Generator().manual_seed(0))
    right = [float(F.cross_entropy(logits[i, i][None], torch.tensor([1]))) for i in range(3)]
    wrong = [
        float(F.cross_entropy(logits[i, j][None], torch.tensor([0]))) for i in range(3) for j in range(3) if i != j
    ]
    assert float(matching_loss(logits)) == pytest.approx((sum(right) / 3 + sum(wrong) / 6) / 2, rel=1e-6)


def test_alignment_by_hand_and_with_nothing_kept() -> None:
    generator = torch.Generator().manual_seed(0)
    heard, seen = (F.normalize(torch.randn(2, 4, 3, generator=generator), dim=1) for _ in range(2))
    kept = torch.rand(6, 6, generator=generator) < 0.7
    same, others = [], []
    for i in range(6):
        for j in range(6):
            distance = 2 - 2 * float(heard[i // 3, :, i % 3] @ seen[j // 3, :, j % 3])
            if kept[i, j]:
                (same if i == j else others).append(distance if i == j else max(0, 1.4 - distance**0.5) ** 2)
    expected = sum(same) / len(same) + sum(others) / len(others)
    assert float(alignment_loss(heard, seen, kept, 1.4)) == pytest.approx(expected, rel=1e-5)
    assert float(alignment_loss(heard, seen, torch.zeros_like(kept), 1.4)) == 0


def test_equal_vectors_leave_gradients_finite() -> None:
    vectors = F.normalize(torch.ones(1, 4, 2), dim=1).requires_grad_(True)
    alignment_loss(vectors, vectors, torch.ones(2, 2, dtype=torch.bool), 1.4).backward()
    assert torch.isfinite(vectors.grad).all()


def test_a_class_that_is_nowhere_has_a_finite_vector() -> None:
    module = ClassVectors(8, 3, 6, 4)
    features = torch.rand(2, 8, 3, 3)
    module.classifier.weight.data.fill_(-1.0)  # nothing is found anywhere
    assert torch.isfinite(module(features)).all()


def test_labels_choose_the_maps() -> None:
    network = tiny().eval()
    with torch.no_grad():
        seen, heard = network.see(torch.randn(2, 3, 64, 128)), network.hear(torch.randn(2, 66_150) / 10)
        maps = class_maps(network.heard_classes(heard), network.seen_classes.cells(seen))
        found = network.localise(seen, heard, 2, Given(labels=[["c", "a"], ["g", "b"]]))
        torch.testing.assert_close(found.similarity[0], maps[0, [2, 0]])
        torch.testing.assert_close(found.similarity[1], maps[1, [6, 1]])
        logits = network.heard_classes.logits(heard)
        torch.testing.assert_close(network.localise(seen, heard, 1).similarity[:, 0], whole_map(maps, logits))
        order = logits.topk(2).indices
        torch.testing.assert_close(network.answer(seen, heard).similarity[1], maps[1, order[1]])


def test_stages_have_their_own_steps_rates_and_parts() -> None:
    network = tiny()
    one, two = METHOD.stages(network.config)
    assert (one.name, two.name, two.follows) == ("one", "two", "one")
    assert (one.schedule.learning_rate, two.schedule.learning_rate) == (1e-3, 1e-4)
    assert (one.schedule.optimiser, one.schedule.momentum, one.schedule.weight_decay) == ("sgd", 0.9, 5e-4)
    one.objective(network)
    assert not any(p.requires_grad for p in network.seen_classes.project.parameters())
    two.objective(network)
    assert all(p.requires_grad for p in network.heard_classes.project.parameters())


def test_a_batch_of_one_has_no_wrong_pairs() -> None:
    with pytest.raises(ConfigError, match="batch_size is 1"):
        CoarseToFineConfig(batch_size=1)
