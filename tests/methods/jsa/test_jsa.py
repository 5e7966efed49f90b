from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional as F

from soundwhere.errors import ConfigError
from soundwhere.methods.jsa.losses import divergence, kept_pairs, match, mutual_neighbours, slot_contrast
from soundwhere.methods.jsa.model import JSA, JointSlots, JSAConfig, loss
from soundwhere.methods.jsa.slots import Decoder, assign
from soundwhere.methods.published import rename
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

TINY = JSAConfig(
    visual="tiny", audio="tiny", visual_weights="none", frame_px=64, dimension=16, batch_size=4, augment="none", blank=0
)


def joint(recording: Any) -> JointSlots:
    """The recorded slots and decoders."""
    weights, unknown = rename(recording.weights(), JSA.published)
    assert not unknown
    module = JointSlots(32, 5).double()
    module.load_state_dict({name.removeprefix("joint."): tensor for name, tensor in weights.items()})
    return module


@pytest.mark.parametrize("suffix", ["", "_masked"])
def test_the_recorded_losses(suffix: str, oracle: Callable[[str], Any]) -> None:
    recording = oracle("jsa")
    module = joint(recording)
    image, audio = recording.leaves("image_features", "audio_features")
    cells, moments = image.flatten(2).transpose(1, 2), audio.transpose(1, 2)
    hidden = (recording["image_mask_masked"], recording["audio_mask_masked"]) if suffix else (None, None)
    found = module.losses(cells, moments, (7, 7), 0.03, 3, hidden)
    weights = recording["loss_weights"]
    total = sum(weight * value for weight, value in zip(weights, found, strict=True))
    names = ("infonce", "reconstruction", "divergence", "attention")
    recording.agree(
        **{f"loss_{name}{suffix}": value for name, value in zip(names, found, strict=True)}, **{f"loss{suffix}": total}
    )
    recording.agree_gradients(total, **{f"grad_image_features{suffix}": image, f"grad_audio_features{suffix}": audio})


def test_the_recorded_slots_and_maps(oracle: Callable[[str], Any]) -> None:
    recording = oracle("jsa")
    module = joint(recording)
    seen = module.see(recording["image_features"].flatten(2).transpose(1, 2))
    heard = module.hear(recording["audio_features"].transpose(1, 2))
    target = [F.normalize(read.slots[:, 0], dim=1) for read in (seen, heard)]
    assert torch.equal(kept_pairs(*target, 3), recording["kept_pairs"])
    maps = assign(heard.queries, seen.keys, 0.1).reshape(6, 2, 7, 7)
    recording.agree(
        image_slots=seen.slots,
        audio_slots=heard.slots,
        attention_imgq_imgk=assign(seen.queries, seen.keys),
        attention_imgq_audk=assign(seen.queries, heard.keys),
        attention_audq_audk=assign(heard.queries, heard.keys),
        attention_audq_imgk=assign(heard.queries, seen.keys),
        map=maps[:, 0],
        maps_all_slots=maps,
        map_image=assign(seen.queries, seen.keys, 0.1)[:, 0].reshape(6, 7, 7),
    )

    network = JSA(TINY)
    network.joint, network.project_visual = module, torch.nn.Identity()  # type: ignore[assignment]
    found = network.answer(recording["image_features"], torch.stack([heard.slots, heard.queries], dim=1))
    low, high = maps.amin((2, 3), keepdim=True), maps.amax((2, 3), keepdim=True)
    torch.testing.assert_close(found.similarity, (maps - low) / (high - low))


def test_slots_share_out_tokens_and_sum_to_one() -> None:
    torch.manual_seed(0)
    queries, keys = torch.randn(2, 3, 8), torch.randn(2, 10, 8)
    shares = assign(queries, keys)
    torch.testing.assert_close(shares.sum(-1), torch.ones(2, 3))
    even = assign(queries, keys, 0.0)
    torch.testing.assert_close(even, torch.full((2, 3, 10), 0.1))


def test_neighbours_are_mutual_by_hand() -> None:
    angles = torch.tensor([0.0, 0.1, 0.15, 2.0])
    vectors = torch.stack([angles.cos(), angles.sin()], dim=1)
    # with two neighbours, itself and one: 0 has 1, 1 has 2, 2 has 1, 3 has 2
    expected = torch.eye(4, dtype=torch.bool)
    expected[1, 2] = expected[2, 1] = True
    assert torch.equal(mutual_neighbours(vectors, 2), expected)
    far = torch.eye(4)  # nobody is near anybody in the other modality
    assert kept_pairs(vectors, far, 1).all()
    kept = kept_pairs(vectors, vectors, 2)
    assert not kept[1, 2]
    assert kept.diagonal().all()


def test_pairs_that_are_not_kept_do_not_count() -> None:
    torch.manual_seed(0)
    image, audio = (F.normalize(torch.randn(3, 6), dim=1) for _ in range(2))
    kept = torch.ones(3, 3, dtype=torch.bool)
    kept[0, 2] = kept[2, 0] = False
    logits = image @ audio.T / 0.03
    total = 0.0
    for rows in (logits, logits.T):
        for i in range(3):
            total -= float(rows[i, i] - torch.logsumexp(rows[i][kept[i]], 0)) / 3
    assert float(slot_contrast(image, audio, kept, 0.03)) == pytest.approx(total, rel=1e-5)


def test_divergence_is_zero_for_opposite_slots_and_one_for_equal_ones() -> None:
    slot = F.normalize(torch.randn(4, 1, 8), dim=-1)
    assert float(divergence(torch.cat([slot, slot], dim=1))) == pytest.approx(1)
    assert float(divergence(torch.cat([slot, -slot], dim=1))) == 0


def test_only_the_other_modalitys_question_is_taught() -> None:
    asked, own = torch.rand(2, 2, 5, requires_grad=True), torch.rand(2, 2, 5, requires_grad=True)
    match(asked, own).backward()
    assert own.grad is None
    assert not asked.grad[:, 1].any()  # the second slot is left alone


def test_positions_stretch_to_other_grids() -> None:
    decoder = Decoder(8, 7, 7)
    assert decoder(torch.randn(2, 2, 8), (4, 9)).shape == (2, 36, 8)
    corners = decoder.positions((3, 14)).reshape(3, 14, 8)[[0, -1]][:, [0, -1]]
    torch.testing.assert_close(corners, decoder.positions((7, 7)).reshape(7, 7, 8)[[0, -1]][:, [0, -1]])


def test_masks_hide_tokens_in_training_alone() -> None:
    torch.manual_seed(0)
    network = JSA(TINY)
    batch = Batch(torch.randn(4, 66_150) / 10, torch.randn(4, 3, 64, 64))
    first, second = ([loss(network.train(mode), batch)["loss"].item() for _ in range(2)] for mode in (True, False))
    assert first[0] != first[1]
    assert second[0] == second[1]
    assert not JSA(replace(TINY, mask_ratio=0.0)).joint.mask_image.requires_grad


def test_time_is_found_whichever_way_a_front_end_puts_it() -> None:
    sound = torch.randn(2, 66_150) / 10
    across, down = JSA(TINY).eval(), JSA(replace(TINY, spectrogram="dsol")).eval()
    assert across.moments(across.spectrogram(sound)).shape == (2, 32, 16)  # 501 frames, sixteen at a time
    assert down.moments(down.spectrogram(sound)).shape == (2, 7, 16)  # 201 frames down, the tiny encoder's 32 at a time


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="mask_ratio is 1"):
        JSAConfig(mask_ratio=1.0)
    with pytest.raises(ConfigError, match="dimension is 3"):
        JSAConfig(dimension=3)
