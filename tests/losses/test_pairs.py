from __future__ import annotations

import pytest
import torch

from soundwhere.errors import ConfigError
from soundwhere.losses.pairs import margin_loss, with_strangers


def test_every_sound_meets_its_own_picture_and_another() -> None:
    seen, heard = torch.arange(4.0)[:, None], 10 * torch.arange(4.0)[:, None]
    pictures, sounds, match = with_strangers(seen, heard)
    assert ((10 * pictures == sounds).flatten() == match.bool()).all()
    assert match.sum() == 4
    assert sorted(sounds.flatten().tolist()) == sorted(2 * (10 * torch.arange(4.0)).tolist())
    assert sorted(pictures[4:].flatten().tolist()) == seen.flatten().tolist()


def test_a_single_clip_has_no_stranger() -> None:
    with pytest.raises(ConfigError, match="two clips"):
        with_strangers(torch.zeros(1, 2), torch.zeros(1, 2))


def test_margin_loss_of_pairs_by_hand() -> None:
    squared = torch.tensor([4.0, 9.0, 1.0, 36.0], dtype=torch.float64)
    match = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    expected = 0.5 * (4 + (5 - 3) ** 2 + (5 - 1) ** 2 + 0) / 4
    assert margin_loss(squared, match, 5.0).item() == pytest.approx(expected)
    zero = torch.zeros(2, requires_grad=True)
    margin_loss(zero.square(), torch.zeros(2), 5.0).backward()
    assert zero.grad is not None
    assert zero.grad.isfinite().all()
