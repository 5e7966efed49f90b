from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from soundwhere.losses.cell_attention import slavc_loss
from soundwhere.methods.published import rename
from soundwhere.methods.slavc import SLAVC, Heads, SLAVCConfig, loss, mean_map

if TYPE_CHECKING:
    from collections.abc import Callable

TINY = SLAVCConfig(
    visual="tiny", audio="tiny", visual_weights="none", frame_px=64, dimension=16, batch_size=4, slowness=0.9
)


def recorded(recording: Any) -> SLAVC:
    """A network with the recorded heads, online and slow; its encoders are not used."""
    network = SLAVC(TINY).double()
    network.heads, network.slow["heads"] = (Heads((64, 64), 32).double() for _ in range(2))
    network.slow.requires_grad_(False)
    weights, unknown = rename(recording.weights(), SLAVC.published)
    assert not unknown
    network.load_state_dict(weights, strict=False)
    return network


def test_the_recording(oracle: Callable[[str], Any]) -> None:
    recording = oracle("slavc")
    network = recorded(recording)
    image, audio = recording.leaves("image_features", "audio_features")
    online, target = network.heads(image, audio), network.slow["heads"](image.detach(), audio.detach())
    value = slavc_loss(online, target)
    recording.agree(loss=value, map_online=mean_map(online) / 0.03, map_momentum=mean_map(target) / 0.03)
    recording.agree_gradients(
        value,
        grad_image_features=image,
        grad_audio_features=audio,
        grad_img_proj1=network.heads.visual1.weight,
        grad_img_proj2=network.heads.visual2.weight,
        grad_aud_proj1=network.heads.audio1.weight,
        grad_aud_proj2=network.heads.audio2.weight,
    )
    network.slow = nn.ModuleDict({"heads": network.slow["heads"]})  # only the heads have anything to follow here
    network.follow(0.9)
    moved = network.slow["heads"](image, audio)
    recording.agree(
        loss_after_momentum_update_m09=slavc_loss(network.heads(image, audio), moved),
        map_momentum_after_update_m09=mean_map(moved) / 0.03,
        momentum_img_proj1_bias_after_update_m09=network.slow["heads"].visual1.bias,
    )


def test_the_slow_copy_follows_by_the_same_amount_in_parts(make_batch: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    network, batch = SLAVC(TINY).train(), make_batch(4)
    with torch.no_grad():
        network.heads.audio1.bias.add_(1)
    slow, fast = network.slow["heads"].audio1.bias, network.heads.audio1.bias
    before = (fast - slow).clone()
    loss(network, batch[:2])
    loss(network, batch[2:])
    torch.testing.assert_close(fast - slow, 0.9 * before)
    network.eval()
    loss(network, batch)
    torch.testing.assert_close(fast - slow, 0.9 * before)  # looking moves nothing


def test_only_the_online_part_trains(make_batch: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    network = SLAVC(TINY).train()
    loss(network, make_batch(4))["loss"].backward()
    assert all(parameter.grad is None for parameter in network.slow.parameters())
    trained = [p for name, p in network.named_parameters() if not name.startswith("slow.")]
    assert all(parameter.grad is not None for parameter in trained)
    assert {p for p in network.parameters() if p.requires_grad} == set(trained)


@pytest.mark.parametrize("slow", [True, False])
def test_who_answers_is_a_setting(slow: bool) -> None:
    torch.manual_seed(0)
    network = SLAVC(replace(TINY, slow_maps=slow)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        image, sound = torch.randn(2, 3, 64, 64), torch.randn(2, 8000)
        found = network.answer(network.see(image), network.hear(sound)).similarity[:, 0]
        eye, ear, heads = (
            (network.slow["visual"], network.slow["audio"], network.slow["heads"])
            if slow
            else (network.visual, network.audio, network.heads)
        )
        expected = mean_map(heads(eye(image), ear(network.spectrogram(sound)).amax((2, 3))))
    torch.testing.assert_close(found, expected)


def test_a_frozen_eye_is_its_own_slow_copy() -> None:
    network = SLAVC(replace(TINY, freeze_visual=True))
    assert "visual" not in network.slow
    assert network.eye is not None


def test_no_mass_on_a_sound_is_no_infinity() -> None:
    from soundwhere.losses.cell_attention import TwoHeads

    far = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    views = TwoHeads(far[:, :, None, None], far[:, :, None, None], far.flip(0), far.flip(0))
    assert slavc_loss(views, views, 0.001).isfinite()
