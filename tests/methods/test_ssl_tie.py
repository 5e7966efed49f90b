from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from soundwhere.config import Thresholds
from soundwhere.losses.lvs import lvs_loss
from soundwhere.methods.ssl_tie import (
    SSLTIE,
    Move,
    SSLTIEConfig,
    apply_move,
    draw_move,
    equivariance_loss,
    loss,
    rotations,
)
from soundwhere.methods.two_encoders import pool
from soundwhere.models.similarity import prepare, similarity_map

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = (224, 224)
TINY = SSLTIEConfig(visual="tiny", audio="tiny", frame_px=64, spectrogram="mel", batch_size=4)


@pytest.mark.parametrize("case", range(3))
def test_the_recording(oracle: Callable[[str], Any], case: int) -> None:
    recording, prefix = oracle("ssl_tie"), f"case{case}_"
    image, audio, moved_image = recording.leaves("image_features", "audio_map", f"{prefix}image_features_transformed")
    move = Move(recording[f"{prefix}matrices"], float(recording[f"{prefix}scale"]), bool(recording[f"{prefix}flip"]))
    heard = pool(audio, "max")
    sounds = prepare(heard, "cosine")
    maps, moved = similarity_map(image, heard), similarity_map(moved_image, heard)
    moved_map = apply_move(maps[:, None], move, SIZE)[:, 0]
    contrast, contrast_moved = (
        lvs_loss(prepare(each, "cosine"), sounds, Thresholds()) for each in (image, moved_image)
    )
    equivariance = equivariance_loss(moved, moved_map)
    total = (contrast + contrast_moved) / 2 + equivariance
    found = {
        "map": maps,
        "map_transformed_branch": moved,
        "transformed_map": moved_map,
        "loss_contrastive": contrast,
        "loss_contrastive_transformed": contrast_moved,
        "loss_equivariance": equivariance,
        "loss": total,
    }
    recording.agree(**{prefix + name: tensor for name, tensor in found.items()})
    if case == 0:
        recording.agree_gradients(
            total,
            case0_grad_image_features=image,
            case0_grad_image_features_transformed=moved_image,
            case0_grad_audio_map=audio,
        )


@pytest.mark.parametrize("case", range(3))
def test_recorded_moves_are_rotations_by_whole_degrees(oracle: Callable[[str], Any], case: int) -> None:
    recording = oracle("ssl_tie")
    matrices, scale = recording[f"case{case}_matrices"], float(recording[f"case{case}_scale"])
    degrees = torch.rad2deg(torch.atan2(matrices[:, 0, 1], matrices[:, 0, 0])).round()
    assert degrees.abs().max() <= 45
    recording.agree(**{f"case{case}_matrices": rotations(degrees, scale, SIZE)})


def test_no_move_leaves_everything_in_its_place() -> None:
    pictures = torch.randn(2, 3, 64, 64)
    still = Move(rotations(torch.zeros(2), 1.0, (64, 64)), 1.0, False)
    torch.testing.assert_close(apply_move(pictures, still, (64, 64)), pictures, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        apply_move(pictures, still._replace(flip=True), (64, 64)), pictures.flip(-1), atol=1e-5, rtol=1e-5
    )


def test_a_quarter_turn_moves_a_corner_to_the_next() -> None:
    picture = torch.zeros(1, 1, 65, 65)
    picture[..., 16, 48] = 1.0  # top right; the middle of 64 x 64 steps is a pixel
    turned = apply_move(picture, Move(rotations(torch.tensor([90.0]), 1.0, (64, 64)), 1.0, False), (65, 65))
    assert turned[0, 0].flatten().argmax() == 16 * 65 + 16  # top left: anticlockwise


def test_draws_follow_the_seed_and_their_limits() -> None:
    torch.manual_seed(0)
    moves = [draw_move(3, SIZE, 10) for _ in range(40)]
    assert {move.scale for move in moves} == {0.5, 1.0}
    assert {move.flip for move in moves} == {True, False}
    angles = torch.cat([torch.rad2deg(torch.atan2(move.matrices[:, 0, 1], move.matrices[:, 0, 0])) for move in moves])
    assert angles.abs().max() <= 10.001
    torch.manual_seed(0)
    assert torch.equal(draw_move(3, SIZE, 10).matrices, moves[0].matrices)


def test_it_asks_for_pictures_even_where_its_eye_is_frozen(make_batch: Callable[..., Any]) -> None:
    from dataclasses import replace

    torch.manual_seed(0)
    network = SSLTIE(replace(TINY, freeze_visual=True)).train()
    assert network.eye is None
    values = loss(network, make_batch(4))
    values["loss"].backward()
    assert values["equivariance"] > 0
    assert all(parameter.grad is None for parameter in network.visual.parameters())
    assert all(parameter.grad is not None for parameter in network.audio.parameters())
