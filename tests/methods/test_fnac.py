from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional as F

from soundwhere.methods.fnac import FNAC, FNACConfig, fnac_losses, loss

if TYPE_CHECKING:
    from collections.abc import Callable

TINY = FNACConfig(
    visual="tiny", audio="tiny", visual_weights="none", frame_px=64, dimension=16, maps="avl", batch_size=4
)


def test_the_recording(oracle: Callable[[str], Any]) -> None:
    recording = oracle("fnac")
    weights = recording.weights()
    image, audio = recording.leaves("image_features", "audio_features")
    cells = F.normalize(F.conv2d(image, weights["img_proj.weight"], weights["img_proj.bias"]), dim=1)
    sounds = F.normalize(F.linear(audio, weights["aud_proj.weight"], weights["aud_proj.bias"]), dim=1)
    terms = fnac_losses(cells, sounds)
    total = terms.contrastive + 100 * (terms.fns1 + terms.tns + terms.fns2)
    recording.agree(
        map=torch.einsum("bdhw,bd->bhw", cells, sounds) / 0.03,
        loss_contrastive=terms.contrastive,
        loss_fns1=terms.fns1,
        loss_tns=terms.tns,
        loss_fns2=terms.fns2,
        loss=total,
    )
    recording.agree_gradients(total, grad_image_features=image, grad_audio_features=audio)
    recording.agree_gradients(terms.contrastive, grad_audio_features_contrastive_only=audio)


def test_regularisation_begins_after_the_first_steps(make_batch: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    network = FNAC(replace(TINY, contrastive_steps=2, dropout=0.0)).train()
    batch = make_batch(4)
    for step in range(4):
        values = loss(network, batch)
        extra = values["loss"] - values["contrastive"]
        expected = 100 * (values["fns1"] + values["tns"] + values["fns2"])
        assert extra.item() == pytest.approx(0 if step < 2 else expected.item(), rel=1e-4)
    assert network.trained_on == 16
    network.eval()
    loss(network, batch)
    assert network.trained_on == 16  # looking does not train


def test_parts_of_a_batch_count_as_parts(make_batch: Callable[..., Any]) -> None:
    network = FNAC(replace(TINY, contrastive_steps=1)).train()
    batch = make_batch(4)
    loss(network, batch[:2])
    assert network.trained_on == 2
    values = loss(network, batch[2:])
    assert values["loss"] == values["contrastive"]  # the first step is not over


def test_equal_sounds_and_pictures_cost_nothing_but_the_contrast() -> None:
    sounds = F.normalize(torch.ones(4, 3), dim=1)
    terms = fnac_losses(sounds[:, :, None, None].expand(-1, -1, 2, 2), sounds)
    assert float(terms.fns1 + terms.fns2 + terms.tns) == pytest.approx(0, abs=1e-6)
