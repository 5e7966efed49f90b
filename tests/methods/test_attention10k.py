from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.errors import ConfigError
from soundwhere.losses.pairs import margin_loss
from soundwhere.methods.attention10k import (
    METHOD,
    ORIGINAL,
    Attention10kConfig,
    Original,
    Rewrite,
    annotation_loss,
    distance_ratio_loss,
    loss,
)
from soundwhere.methods.two_encoders import pool

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = {"visual": "tiny", "audio": "tiny", "visual_weights": "x.pth", "frame_px": 64, "spectrogram": "mel"}


def test_the_recording_of_the_original(oracle: Callable[[str], Any]) -> None:
    recording = oracle("attention10k")
    network = Original(replace(ORIGINAL, **SMALL)).double()
    network.sound_fc1, network.sound_fc2 = nn.Linear(40, 40).double(), nn.Linear(40, 32).double()
    network.vision_fc1, network.vision_fc2 = nn.Linear(32, 32).double(), nn.Linear(32, 40).double()
    network.load_state_dict(recording.weights(), strict=False)
    image, own, other = recording.leaves("image_features", "positive_sound", "negative_sound")
    found = network.attend(image, own)
    value = distance_ratio_loss(found.code, own, other)
    supervised = annotation_loss(found.weights, recording["annotation"], recording["annotation_weight"][:, 0])
    recording.agree(map=found.weights, picture_code=found.code, loss_unsupervised=value, loss_supervised=supervised)
    recording.agree_gradients(value, grad_image_features=image, grad_positive_sound=own, grad_negative_sound=other)
    recording.agree_gradients(supervised, grad_image_features_supervised=image)


def test_the_recording_of_the_rewrite(oracle: Callable[[str], Any]) -> None:
    recording = oracle("attention_rewrite")
    network = Rewrite(Attention10kConfig(**SMALL)).double()
    network.fc_v_1, network.fc_v_2, network.fc_a_1, network.fc_a_2 = (nn.Linear(32, 32).double() for _ in range(4))
    network.load_state_dict(recording.weights(), strict=False)
    image, audio = recording.leaves("image_features", "audio_map")
    heard = pool(audio, "max")
    found = network.attend(image, heard)
    distance = (found.code - heard).square().sum(1)
    value = margin_loss(distance, recording["label"], 10.0)
    recording.agree(map=found.weights, distance=distance.sqrt()[:, None], loss=value)
    recording.agree_gradients(value, grad_image_features=image, grad_audio_map=audio)


@pytest.mark.parametrize("config", [Attention10kConfig(**SMALL), replace(ORIGINAL, **SMALL)], ids=lambda c: c.head)
def test_the_answer_is_the_attention_stretched(config: Attention10kConfig) -> None:
    torch.manual_seed(0)
    network = METHOD.build(config).eval()
    assert isinstance(network, Original | Rewrite)
    seen, heard = network.see(torch.randn(2, 3, 64, 64)), network.hear(torch.randn(2, 8000))
    maps, weights = network.answer(seen, heard).similarity.flatten(1), network.attend(seen, heard).weights.flatten(1)

    def stretched(cells: torch.Tensor) -> torch.Tensor:
        low, high = cells.amin(1, keepdim=True), cells.amax(1, keepdim=True)
        return (cells - low) / (high - low)

    torch.testing.assert_close(stretched(maps), stretched(weights), atol=1e-4, rtol=1e-4)
    assert maps.min() >= 0
    assert maps.max() <= 1


def test_a_batch_of_one_is_attended_to() -> None:
    network = METHOD.build(replace(ORIGINAL, **SMALL)).eval()
    found = network.answer(network.see(torch.randn(1, 3, 64, 64)), network.hear(torch.randn(1, 8000)))
    assert found.similarity.shape == (1, 1, 4, 4)


def test_the_original_head_leaves_both_encoders_alone(make_batch: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    network = METHOD.build(replace(ORIGINAL, **SMALL)).train()
    batch = make_batch(4)
    loss(network, batch)["loss"].backward()  # type: ignore[arg-type]
    trained = {name.split(".")[0] for name, parameter in network.named_parameters() if parameter.grad is not None}
    assert trained == {"sound_fc1", "sound_fc2", "vision_fc1", "vision_fc2"}


def test_a_picture_nearer_to_its_own_sound_costs_less() -> None:
    code = F.normalize(torch.randn(5, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    assert distance_ratio_loss(code, code, -code) < 0.25 < distance_ratio_loss(code, -code, code)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ConfigError, match="stays as it is needs weights"):
        replace(ORIGINAL, audio_weights="none")
    with pytest.raises(ConfigError, match="must stay as they are"):
        Attention10kConfig(head="original")
