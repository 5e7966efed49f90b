from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from soundwhere.config import Thresholds
from soundwhere.losses.lvs import lvs_logits, lvs_loss
from soundwhere.methods.lvs import LVS, LVSConfig
from soundwhere.methods.two_encoders import pool
from soundwhere.models.similarity import prepare, similarity_map

if TYPE_CHECKING:
    from collections.abc import Callable

TINY = LVSConfig(visual="tiny", audio="tiny", frame_px=64, spectrogram="mel")


def test_the_recording(oracle: Callable[[str], Any]) -> None:
    recording = oracle("lvs")
    image, audio = recording.leaves("image_features", "audio_map")
    cells, sounds = prepare(image, "cosine"), prepare(pool(audio, "max"), "cosine")
    maps = similarity_map(image, pool(audio, "max"))
    thresholds = Thresholds()
    loss = lvs_loss(cells, sounds, thresholds)
    recording.agree(
        map=maps,
        positive_mask=((maps - thresholds.positive) / thresholds.temperature).sigmoid(),
        negative_mask=((thresholds.negative - maps) / thresholds.temperature).sigmoid(),
        logits=lvs_logits(cells, sounds, thresholds),
        loss=loss,
        logits_no_trimap=lvs_logits(cells, sounds, Thresholds(0.65, 0.65)),
        loss_no_trimap=lvs_loss(cells, sounds, Thresholds(0.65, 0.65)),
        logits_no_hard_negative=lvs_logits(cells, sounds, thresholds, hard_negative=False),
        loss_no_hard_negative=lvs_loss(cells, sounds, thresholds, hard_negative=False),
    )
    recording.agree_gradients(loss, grad_image_features=image, grad_audio_map=audio)


@pytest.mark.parametrize("trimap", [True, False])
def test_a_map_of_ones_gives_a_loss_and_gradients(trimap: bool) -> None:
    cells = torch.ones(3, 4, 5, 5, requires_grad=True)
    thresholds = Thresholds() if trimap else Thresholds(0.65, 0.65)
    loss = lvs_loss(prepare(cells, "cosine"), prepare(torch.ones(3, 4), "cosine"), thresholds)
    (gradient,) = torch.autograd.grad(loss, cells)
    assert loss.isfinite()
    assert gradient.isfinite().all()


def test_a_map_in_which_the_source_stands_out_costs_less() -> None:
    things = torch.eye(4)
    sounds, cells = things[:3], things[:3, :, None, None].repeat(1, 1, 2, 2)
    cells[:, :, 0] = things[3, :, None]  # half of each picture shows what never sounds
    assert lvs_loss(cells, sounds, Thresholds()) < 1e-3
    assert lvs_loss(cells, sounds.roll(1, 0), Thresholds()) > 1


def test_settings_reach_the_loss(make_batch: Callable[..., Any]) -> None:
    from dataclasses import replace

    from soundwhere.methods.lvs import loss

    torch.manual_seed(0)
    network = LVS(TINY).eval()
    batch = make_batch(4)
    found = []
    for config in (TINY, replace(TINY, trimap=False), replace(TINY, hard_negative=False)):
        network.config = config
        found.append(loss(network, batch)["loss"].item())
    assert len(set(found)) == 3


def test_encoders_of_different_widths_are_refused() -> None:
    from soundwhere.errors import ConfigError

    with pytest.raises(ConfigError, match="128 channels and compact has 512"):
        LVS(LVSConfig(visual="tiny", audio="compact", frame_px=64))
