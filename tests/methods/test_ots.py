from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from soundwhere.methods.ots import AVE, METHOD, AVENet, AVOLNet, OTSConfig, ave_loss, avol_loss, loss
from soundwhere.methods.two_encoders import pool
from soundwhere.models.encoders import build_audio, build_visual
from soundwhere.models.encoders.norm import SynchronisedBatchNorm1d, SynchronisedBatchNorm2d
from soundwhere.training.loop import learning_rate

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL: dict[str, Any] = {"visual": "tiny", "audio": "tiny", "frame_px": 64, "spectrogram": "mel"}


def test_the_recording_of_avol_net(oracle: Callable[[str], Any]) -> None:
    recording = oracle("ots_avolnet")
    network = AVOLNet(OTSConfig(**SMALL))
    network.im_conv5, network.aud_fc1 = nn.Conv2d(64, 128, 1), nn.Linear(64, 128)
    network.double().load_state_dict(recording.weights(), strict=False)
    image, audio = recording.leaves("image_features", "audio_map")
    scores = network.scores(network.cells(image), network.sounds(pool(audio, "max")))
    value = avol_loss(scores, recording["label"])
    recording.agree(map=scores.sigmoid(), score=scores.sigmoid().flatten(1).amax(1), loss=value)
    recording.agree_gradients(value, grad_image_features=image, grad_audio_map=audio)
    torch.testing.assert_close(
        network.answer(image, pool(audio, "max")).similarity[:, 0], recording["map"], atol=1e-6, rtol=1e-6
    )


def test_the_recording_of_ave_net(oracle: Callable[[str], Any]) -> None:
    recording = oracle("ots_avenet")
    network = AVENet(replace(AVE, **SMALL))
    network.vfc1, network.afc1 = nn.Linear(64, 128), nn.Linear(64, 128)
    network.double().load_state_dict(recording.weights(), strict=False)
    image, audio = recording.leaves("image_features", "audio_map")

    def codes() -> tuple[torch.Tensor, torch.Tensor]:
        return network.looks(pool(image, "max")), network.sounds(pool(audio, "max"))

    seen, heard = network.train() and codes()
    found = network.probability(seen, heard)
    value = ave_loss(found, 1 - recording["label"])
    recording.agree(probability_train=found, image_code_train=seen, audio_code_train=heard, loss=value)
    recording.agree_gradients(value, grad_image_features=image, grad_audio_map=audio)
    names = [f"{layer}.running_{what}" for layer in ("vl2norm", "al2norm") for what in ("mean", "var")]
    recording.agree(**{f"after_one_step_running_{name}": network.get_buffer(name) for name in names})
    seen, heard = network.eval() and codes()
    recording.agree(probability_eval=network.probability(seen, heard), image_code_eval=seen, audio_code_eval=heard)


def test_ave_net_is_asked_at_every_cell() -> None:
    torch.manual_seed(0)
    network = AVENet(replace(AVE, **SMALL)).eval()
    seen, heard = network.see(torch.randn(2, 3, 64, 64)), network.hear(torch.randn(2, 8000))
    maps = network.answer(seen, heard).similarity
    assert maps.shape == (2, 1, 4, 4)
    expected = network.probability(network.looks(seen[:, :, 1, 2]), network.sounds(heard))[:, 0]
    torch.testing.assert_close(maps[:, 0, 1, 2], expected)
    assert "every cell" in network.note


def test_pairs_that_do_not_match_are_of_another_clip(make_batch: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    network, batch = AVOLNet(OTSConfig(**SMALL)).eval(), make_batch(3)
    seen, heard = network.see(batch.image), network.hear(batch.mixture)
    cells, sounds = network.cells(seen), network.sounds(heard)
    own, other = network.scores(cells, sounds), network.scores(cells.roll(-1, 0), sounds)
    expected = (avol_loss(own, torch.ones(3)) + avol_loss(other, torch.zeros(3))) / 2
    torch.testing.assert_close(loss(network, batch)["loss"], expected)


def test_the_encoders_have_the_published_shapes() -> None:
    assert build_visual("plain").eval()(torch.randn(1, 3, 224, 224)).shape == (1, 512, 14, 14)
    assert build_audio("plain").eval()(torch.randn(1, 1, 257, 200)).shape == (1, 512, 16, 12)


def test_every_norm_spans_all_processes() -> None:
    """Or statistics, and with them checkpoints, would be those of one process's share of a batch."""
    network = AVENet(replace(AVE, **SMALL))
    norms = [part for part in network.modules() if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert isinstance(network.vl2norm, SynchronisedBatchNorm1d)
    assert all(isinstance(norm, SynchronisedBatchNorm1d | SynchronisedBatchNorm2d) for norm in norms)


def test_the_rate_falls_as_published() -> None:
    [stage] = METHOD.stages(OTSConfig())
    epochs = [learning_rate(stage.schedule, round(epoch * 144_000 / 64), 10**6) for epoch in (15, 16, 32)]
    assert epochs == pytest.approx([5e-5, 0.94 * 5e-5, 0.94**2 * 5e-5])
    [stage] = METHOD.stages(AVE)
    assert learning_rate(stage.schedule, 10**5, 10**6) == 2.5e-5
