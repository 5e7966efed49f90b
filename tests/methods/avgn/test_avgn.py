from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.errors import ConfigError, DataError
from soundwhere.methods.avgn.grouping import Assignment, ClassTokens, DropPath
from soundwhere.methods.avgn.model import AVGN, AVGNConfig, class_maps, loss, partners
from soundwhere.methods.method import Given
from soundwhere.methods.published import rename
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("bell", "drum", "horn", "lute", "oboe", "viol")


def tiny(**changes: Any) -> AVGN:
    torch.manual_seed(0)
    settings = {"dimension": 32, "frame_px": 64, "augment": "none", "classes": NAMES, "batch_size": 4} | changes
    return AVGN(AVGNConfig(visual="tiny", audio="tiny", visual_weights="none", **settings))


def test_the_recording(oracle: Callable[[str], Any]) -> None:
    recording = oracle("avgn")
    network = tiny().eval()
    network.img_proj, network.aud_proj = nn.Conv2d(64, 32, 1), nn.Linear(64, 32)
    weights, unknown = rename(recording.weights(), AVGN.published)
    assert not unknown
    network.double().load_state_dict(weights, strict=False)
    assert set(weights) == {name for name in network.state_dict() if not name.startswith(("visual.", "audio."))}

    image, audio = recording.leaves("image_features", "audio_features")
    labels = recording["labels"]
    cells, tokens = network.cells(image), network.sound_tokens(audio)
    found = network.losses(cells, tokens, labels)
    total = found.localisation + found.token + found.presence
    chosen = torch.stack([tokens[item, labels[item]] for item in range(4)])
    maps = class_maps(cells, chosen) / 0.03
    recording.agree(
        audio_class_tokens=tokens,
        visual_class_tokens=network.picture_tokens(cells),
        map=maps[:, 0],
        maps_by_label=maps,
        loss_localisation=found.localisation,
        loss_token=found.token,
        loss_presence=found.presence,
        loss=total,
    )
    recording.agree_gradients(
        total, grad_image_features=image, grad_audio_features=audio, grad_class_tokens=network.av_token
    )
    # what the network answers for given labels are these maps, up to the length of the token
    given = Given(labels=[[NAMES[number] for number in row] for row in labels.tolist()])
    answer = network.localise(image, tokens, 2, given)
    torch.testing.assert_close(answer.similarity, 0.03 * maps / chosen.norm(dim=-1)[..., None, None])


def test_labels_choose_the_maps_and_without_them_the_surest_classes_do() -> None:
    network = tiny().eval()
    with torch.no_grad():
        seen, heard = network.see(torch.randn(2, 3, 64, 128)), network.hear(torch.randn(2, 66_150) / 10)
        both = network.localise(seen, heard, 2, Given(labels=[["drum", "viol"], ["viol", "bell"]]))
        alone = network.localise(seen, heard, 1, Given(labels=[["viol"], ["viol"]]))
        torch.testing.assert_close(both.similarity[0, 1], alone.similarity[0, 0])
        torch.testing.assert_close(both.similarity[1, 0], alone.similarity[1, 0])
        again = network.localise(seen, heard, 3, Given(labels=[["drum", "viol"], ["viol", "bell"]]))
        torch.testing.assert_close(again.similarity[:, 2], both.similarity[:, 0])
        surest = network.answer(seen, heard)
        presence = network.fc_prob_a(heard)[..., 0].sigmoid()
    torch.testing.assert_close(surest.confidence, presence.sort(dim=1, descending=True).values[:, :2])
    with pytest.raises(DataError, match="not trained on the class 'whale'") as caught:
        network.localise(seen, heard, 2, Given(labels=[["drum", "whale"], ["viol", "bell"]]))
    assert "bell, drum" in caught.value.remedy
    with pytest.raises(DataError, match="no labels"):
        network.localise(seen, heard, 2, Given(labels=[["drum"], []]))


def test_partners_are_of_another_class_where_there_is_one() -> None:
    assert partners(torch.tensor([0, 0, 1, 2, 2])).tolist() == [2, 2, 3, 0, 0]
    assert partners(torch.tensor([4, 4, 4])).tolist() == [0, 1, 2]


def test_the_mixture_is_a_plain_sum_with_the_partner() -> None:
    network = tiny().eval()
    batch = Batch(torch.randn(4, 66_150) / 10, torch.randn(4, 3, 64, 64), labels=torch.tensor([[0], [0], [3], [5]]))
    with torch.no_grad():
        mixed = network.hear(batch.mixture + batch.mixture[[2, 2, 3, 0]])
        labels = torch.tensor([[0, 3], [0, 3], [3, 5], [5, 0]])
        expected = sum(network.losses(network.cells(network.see(batch.image)), mixed, labels))
        torch.testing.assert_close(loss(network, batch)["loss"], expected)


def test_positions_are_shared_out_among_the_classes() -> None:
    module = Assignment(16)
    shares = module.shares(torch.randn(2, 5, 16), torch.randn(2, 9, 16))
    torch.testing.assert_close(shares.sum(1), torch.ones(2, 9))


def test_class_tokens_do_not_depend_on_the_order_of_cells() -> None:
    torch.manual_seed(0)
    module, cells, tokens = ClassTokens(16, 4).eval(), torch.randn(2, 9, 16), torch.randn(4, 16)
    torch.testing.assert_close(module(cells, tokens), module(cells.flip(1), tokens))


def test_stochastic_depth_leaves_out_whole_items_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    drop, ones = DropPath(0.5), torch.ones(4000, 3)
    left = drop(ones)
    assert set(left[:, 0].tolist()) == {0.0, 2.0}
    assert torch.equal(left[:, :1].expand(-1, 3), left)
    assert float(left.mean()) == pytest.approx(1, abs=0.1)
    assert torch.equal(drop.eval()(ones), ones)


def test_the_same_class_tokens_serve_both_modalities() -> None:
    network = tiny()
    cells = F.normalize(torch.randn(2, 32, 4, 4), dim=1)
    network.picture_tokens(cells).sum().backward()
    seen = network.av_token.grad.clone()
    network.sound_tokens(torch.randn(2, 128)).sum().backward()
    assert seen.any()
    assert not torch.equal(seen, network.av_token.grad)


def test_without_classes_there_is_no_network() -> None:
    with pytest.raises(ConfigError, match="'avgn' needs the names of its classes"):
        tiny(classes=())
    with pytest.raises(ConfigError, match="multiple of the 8 attention heads"):
        AVGNConfig(dimension=20)
