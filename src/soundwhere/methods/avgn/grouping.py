"""Class tokens that gather what belongs to their class, from the cells of a picture or from a sound.

Parts are called as in the published checkpoints. Shapes: B items, N positions (49 cells, or 1 for a sound), K classes,
D channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor


class MLP(nn.Module):
    """Two linear layers with a GELU between."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, values: Tensor) -> Tensor:
        """Values (..., width) to the same shape."""
        found: Tensor = self.fc2(F.gelu(self.fc1(values)))
        return found


class SelfAttention(nn.Module):
    """Every token asks every other."""

    def __init__(self, dimension: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dimension, 3 * dimension), nn.Linear(dimension, dimension)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, M, D) to the same shape."""
        query, key, value = self.qkv(tokens).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        asked = F.scaled_dot_product_attention(query, key, value)
        found: Tensor = self.proj(asked.transpose(1, 2).flatten(2))
        return found


class CrossAttention(nn.Module):
    """Tokens ask positions."""

    def __init__(self, dimension: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.proj = (nn.Linear(dimension, dimension) for _ in range(4))

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Tokens (B, K, D) and positions (B, N, D) to what tokens take, (B, K, D)."""
        projected = self.q_proj(tokens), self.k_proj(positions), self.v_proj(positions)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        asked = F.scaled_dot_product_attention(query, key, value)
        found: Tensor = self.proj(asked.transpose(1, 2).flatten(2))
        return found


class DropPath(nn.Module):
    """Stochastic depth: while training, leave a branch out for a share of the items, and raise it for the others."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, branch: Tensor) -> Tensor:
        """The branch (B, ...), or 0 for some items."""
        if not self.training or self.share == 0:
            return branch
        kept = torch.rand(len(branch), *(1,) * (branch.ndim - 1), device=branch.device) >= self.share
        return branch * kept / (1 - self.share)


class Block(nn.Module):
    """A transformer block that normalises first."""

    def __init__(self, dimension: int, heads: int, drop: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dimension), nn.LayerNorm(dimension)
        self.attn, self.mlp = SelfAttention(dimension, heads), MLP(dimension, 4 * dimension)
        self.drop = DropPath(drop)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, M, D) to the same shape."""
        tokens = tokens + self.drop(self.attn(self.norm1(tokens)))
        found: Tensor = tokens + self.drop(self.mlp(self.norm2(tokens)))
        return found


class PreAssignment(nn.Module):
    """Class tokens look at the positions before they take them."""

    def __init__(self, dimension: int, heads: int, drop: float) -> None:
        super().__init__()
        self.attn, self.mlp = CrossAttention(dimension, heads), MLP(dimension, 4 * dimension)
        self.norm2, self.norm_post = nn.LayerNorm(dimension), nn.LayerNorm(dimension)
        self.drop = DropPath(drop)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Tokens (B, K, D) and positions (B, N, D) to tokens."""
        tokens = tokens + self.drop(self.attn(tokens, positions))
        found: Tensor = self.norm_post(tokens + self.drop(self.mlp(self.norm2(tokens))))
        return found


class Assignment(nn.Module):
    """Positions are shared out among the classes, and each class takes the mean of its share."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.proj = (nn.Linear(dimension, dimension) for _ in range(4))

    def shares(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """How much of each position a class takes, shape (B, K, N), before it is divided by what a class takes in all.

        Sums to 1 over the classes.
        """
        scale = tokens.shape[-1] ** -0.5
        logits: Tensor = torch.einsum("bkd,bnd->bkn", self.q_proj(tokens), self.k_proj(positions)) * scale
        return logits.softmax(1)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Tokens (B, K, D) and positions (B, N, D) to what classes take, (B, K, D)."""
        shares = self.shares(tokens, positions)
        weights = shares / (shares.sum(-1, keepdim=True) + 1)
        found: Tensor = self.proj(weights @ self.v_proj(positions))
        return found


class Grouping(nn.Module):
    """Class tokens mix among each other, look at the positions, and gather theirs."""

    def __init__(self, dimension: int, classes: int, heads: int, drop: float) -> None:
        super().__init__()
        self.norm_tokens, self.norm_post_tokens = nn.LayerNorm(dimension), nn.LayerNorm(dimension)
        self.norm_x, self.norm_new_x = nn.LayerNorm(dimension), nn.LayerNorm(dimension)
        self.mlp_inter, self.mlp_channels = MLP(classes, dimension // 2), MLP(dimension, 4 * dimension)
        self.pre_assign_attn = PreAssignment(dimension, heads, drop)
        self.assign = Assignment(dimension)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Tokens (B, K, D) and positions (B, N, D) to class tokens (B, K, D)."""
        mixed = self.mlp_inter(self.norm_tokens(tokens).transpose(1, 2)).transpose(1, 2)
        positions = self.norm_x(positions)
        tokens = self.pre_assign_attn(self.norm_post_tokens(mixed), positions)
        tokens = self.assign(tokens, positions) + tokens
        found: Tensor = tokens + self.mlp_channels(self.norm_new_x(tokens))
        return found


class ClassTokens(nn.Module):
    """The class tokens of one modality.

    Args:
        dimension: D, a multiple of `heads`.
        classes: K.
        depth: Blocks in which tokens and positions look at each other first.
        heads: Of the attention.
        drop: Share of stochastic depth.
    """

    def __init__(self, dimension: int, classes: int, depth: int = 3, heads: int = 8, drop: float = 0.1) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(dimension, heads, drop) for _ in range(depth))
        self.grouping = Grouping(dimension, classes, heads, drop)

    def forward(self, positions: Tensor, tokens: Tensor) -> Tensor:
        """Positions (B, N, D) and one token for each class (K, D) to class tokens (B, K, D)."""
        count = positions.shape[1]
        both = torch.cat([positions, tokens.expand(positions.shape[0], -1, -1)], dim=1)
        for block in self.blocks:
            both = block(both)
        gathered: Tensor = self.grouping(both[:, count:], both[:, :count])
        return gathered
