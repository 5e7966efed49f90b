"""Slot attention over both modalities: the same few slots look at cells of a picture and at moments of a sound.

Shapes: B items, N tokens (cells row by row, or moments), S slots, D channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

_SOME = 1e-8  # what every token gives every slot, so that no slot is left with nothing


class Read(NamedTuple):
    """What slots made of one modality.

    Attributes:
        slots: After the last iteration, shape (B, S, D).
        queries: With which the last iteration asked, shape (B, S, D).
        keys: Of the tokens, shape (B, N, D).
    """

    slots: Tensor
    queries: Tensor
    keys: Tensor


def assign(queries: Tensor, keys: Tensor, sharpening: float = 1.0) -> Tensor:
    """How much of each slot every token makes: slots compete for tokens, and each then sums to 1 over tokens.

    Args:
        queries: Shape (B, S, D).
        keys: Shape (B, N, D).
        sharpening: Factor of the logits; below 1 the slots share tokens more evenly.

    Returns:
        Shape (B, S, N).
    """
    logits: Tensor = torch.einsum("bsd,bnd->bsn", queries, keys) * keys.shape[-1] ** -0.5
    shares = (logits * sharpening).softmax(1) + _SOME
    return shares / shares.sum(-1, keepdim=True)


class Reader(nn.Module):
    """The slot attention of one modality."""

    def __init__(self, dimension: int, iterations: int) -> None:
        super().__init__()
        self.iterations = iterations
        self.to_q, self.to_k, self.to_v = (nn.Linear(dimension, dimension) for _ in range(3))
        self.gru = nn.GRUCell(dimension, dimension)
        self.mlp = nn.Sequential(nn.Linear(dimension, 2 * dimension), nn.ReLU(), nn.Linear(2 * dimension, dimension))
        self.norm_input, self.norm_slots, self.norm_pre_ff = (nn.LayerNorm(dimension) for _ in range(3))

    def forward(self, tokens: Tensor, slots: Tensor) -> Read:
        """Let slots (B, S, D) look at tokens (B, N, D)."""
        tokens = self.norm_input(tokens)
        keys, values = self.to_k(tokens), self.to_v(tokens)
        queries = slots
        for _ in range(self.iterations):
            queries = self.to_q(self.norm_slots(slots))
            updates = assign(queries, keys) @ values
            slots = self.gru(updates.flatten(0, 1), slots.flatten(0, 1)).reshape(slots.shape)
            slots = slots + self.mlp(self.norm_pre_ff(slots))
        return Read(slots, queries, keys)


class Decoder(nn.Module):
    """Tokens made of slots again: every slot says what it would be at every place, and how surely.

    Args:
        dimension: D, even.
        rows: Rows of the grid of learned positions.
        columns: Its columns; other grids take positions in between.
    """

    def __init__(self, dimension: int, rows: int, columns: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.rand(rows, dimension // 2))
        self.columns = nn.Parameter(torch.rand(columns, dimension // 2))
        layers: list[nn.Module] = []
        for _ in range(3):
            layers += [nn.Linear(dimension, dimension), nn.ReLU()]
        self.mlp = nn.Sequential(*layers, nn.Linear(dimension, dimension + 1))

    def forward(self, slots: Tensor, grid: tuple[int, int]) -> Tensor:
        """Make tokens (B, rows x columns, D) of slots (B, S, D)."""
        made = self.mlp(slots[:, :, None] + self.positions(grid))  # (B, S, N, D + 1)
        values, alpha = made[..., :-1], made[..., -1:]
        mixed: Tensor = (alpha.softmax(1) * values).sum(1)
        return mixed

    def positions(self, grid: tuple[int, int]) -> Tensor:
        """Of the cells of a grid, row by row, shape (N, D)."""
        height, width = grid
        rows = _stretched(self.rows, height)[:, None].expand(-1, width, -1)
        columns = _stretched(self.columns, width)[None].expand(height, -1, -1)
        return torch.cat([columns, rows], dim=-1).flatten(0, 1)


def _stretched(positions: Tensor, length: int) -> Tensor:
    """As many positions as asked for; their own number as they are."""
    if len(positions) == length:
        return positions
    return F.interpolate(positions.T[None], size=length, mode="linear", align_corners=True)[0].T
