"""The four losses of JSA, and the pairs that may be false negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from soundwhere.losses.max_cell import both_ways

if TYPE_CHECKING:
    from torch import Tensor


def mutual_neighbours(vectors: Tensor, count: int) -> Tensor:
    """Which items are each other's nearest neighbours by cosine, shape (B, B), bool; each is a neighbour of itself.

    Args:
        vectors: Unit vectors, shape (B, D).
        count: How many neighbours an item has, itself among them.
    """
    similarity = vectors.detach() @ vectors.detach().T
    nearest = similarity.topk(min(count, len(vectors)), dim=1).indices
    near = torch.zeros_like(similarity, dtype=torch.bool).scatter_(1, nearest, value=True)
    return near & near.T


def kept_pairs(image: Tensor, audio: Tensor, count: int) -> Tensor:
    """Pairs that a contrast may use, shape (B, B), bool: not those alike in both modalities, but each with itself.

    Args:
        image: Unit target slots of the pictures, shape (B, D).
        audio: The same of the sounds, shape (B, D).
        count: How many neighbours count as near.
    """
    alike = mutual_neighbours(image, count) & mutual_neighbours(audio, count)
    return ~alike | torch.eye(len(image), dtype=torch.bool, device=image.device)


def slot_contrast(image: Tensor, audio: Tensor, kept: Tensor, temperature: float) -> Tensor:
    """InfoNCE of the target slots in both directions, over the pairs that are kept.

    Args:
        image: Unit target slots of the pictures, shape (B, D).
        audio: The same of the sounds, shape (B, D).
        kept: From `kept_pairs`.
        temperature: Of the cosines.
    """
    return both_ways((image @ audio.T / temperature).masked_fill(~kept, -torch.inf))


def divergence(slots: Tensor) -> Tensor:
    """How alike an item's slots are: the mean of their positive cosines, for unit slots (B, S, D), S at least 2."""
    cosines = torch.einsum("bsd,btd->bst", slots, slots)
    apart = ~torch.eye(slots.shape[1], dtype=torch.bool, device=slots.device)
    return cosines[:, apart].relu().mean()


def match(asked: Tensor, own: Tensor) -> Tensor:
    """How far the other modality's question to the target slot is from its own, which stays as it is.

    Args:
        asked: Attention of the other modality's queries, shape (B, S, N).
        own: Attention of the modality's own, shape (B, S, N).
    """
    return F.mse_loss(asked[:, 0], own[:, 0].detach())
