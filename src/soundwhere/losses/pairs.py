"""Does this sound belong to this picture? Pairs that do, pairs that do not, and a distance that tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor


def with_strangers(seen: Tensor, heard: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every sound with its own picture, and every sound with the picture of the next clip of the batch.

    A batch is drawn at random, so the next clip is any other clip: no label says whether it is of another kind.

    Args:
        seen: What is seen in B clips, shape (B, ...).
        heard: What is heard in them, shape (B, ...).

    Returns:
        What is seen and heard in 2 B pairs, and whether they match, shape (2 B,), 1 or 0.
    """
    count = len(seen)
    if count < 2:
        raise ConfigError(
            "Pairs that do not match need a batch of two clips at least.", "Raise --batch-size, or lower --accumulate."
        )
    match = torch.cat([seen.new_ones(count), seen.new_zeros(count)])
    return torch.cat([seen, seen.roll(-1, 0)]), torch.cat([heard, heard]), match


def margin_loss(squared_distance: Tensor, match: Tensor, margin: float) -> Tensor:
    """Pull matching pairs together, push others beyond a margin (Hadsell et al., 2006).

    Args:
        squared_distance: Of every pair, shape (B,).
        match: 1 for pairs that match, 0 for others, shape (B,).
        margin: The distance from which on others are left alone.

    Returns:
        The mean over pairs of (1/2) [y d^2 + (1 - y) max(0, margin - d)^2].
    """
    distance = (squared_distance + 1e-9).sqrt()  # finite slope at 0
    return 0.5 * (match * squared_distance + (1 - match) * (margin - distance).relu().square()).mean()
