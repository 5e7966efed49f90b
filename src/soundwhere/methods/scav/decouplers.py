"""Stage 2's decouplers: features and sound that were mixed come out one source at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor


def sinusoidal_positions(dimension: int, height: int, width: int, device: torch.device | None = None) -> Tensor:
    """PE_2D: half of the channels encode the row, half the column, for a grid of any size.

    Args:
        dimension: D, a multiple of 4.
        height: h.
        width: w.
        device: Where the result is made.

    Returns:
        Shape (D, h, w), in [-1, 1].
    """
    rates = torch.exp(torch.arange(0, dimension // 2, 2, device=device) * (-2 * math.log(10_000.0) / dimension))

    def encode(length: int) -> Tensor:
        angles = rates[:, None] * torch.arange(length, device=device)  # (D/4, length)
        return torch.cat([angles.sin(), angles.cos()])  # (D/2, length)

    rows = encode(height)[:, :, None].expand(-1, -1, width)
    columns = encode(width)[:, None, :].expand(-1, height, -1)
    return torch.cat([rows, columns])


class VisualDecoupler(nn.Module):
    """Phi_v^dec: a Transformer encoder that refines the coarsely separated features of one branch."""

    def __init__(self, dimension: int, layers: int, heads: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            dimension, heads, dim_feedforward=4 * dimension, dropout=0.0, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, part: Tensor) -> Tensor:
        """Refine V_k, shape (B, D, h, w), into f_vk of the same shape."""
        tokens = part.flatten(2).transpose(1, 2)  # (B, hw, D)
        refined: Tensor = self.encoder(tokens)
        return refined.transpose(1, 2).reshape(part.shape)


class AudioDecoupler(nn.Module):
    """Phi_a^dec: the mixed sound (query) attends to one branch's cells (keys, values) and becomes that source's."""

    def __init__(self, dimension: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dimension, heads, batch_first=True)
        self.norm = nn.LayerNorm(dimension)

    def forward(self, mixed: Tensor, refined: Tensor) -> Tensor:
        """Separate one source's sound.

        Args:
            mixed: The projected audio embedding, shape (B, D).
            refined: f_vk, shape (B, D, h, w).

        Returns:
            f_ak, shape (B, D).
        """
        tokens = refined.flatten(2).transpose(1, 2)
        query = mixed[:, None]
        attended, _ = self.attention(query, tokens, tokens, need_weights=False)
        separated: Tensor = self.norm(query + attended)[:, 0]
        return separated
