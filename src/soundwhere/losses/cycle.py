"""A random walk from the sources of one mixture over pictures to those of another (Mix-and-Localize).

einsum legend: g = group of pictures that sound together; i = picture; j, l = source of a mixture; d = channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def best_cells(pictures: Tensor, sources: Tensor) -> Tensor:
    """How well each source fits the best cell of each picture of its group, shape (G, pictures, sources).

    Args:
        pictures: Unit cells of the pictures of every group, shape (G, I, D, h, w).
        sources: Unit embeddings of the sources of each group's mixture, shape (G, J, D).
    """
    return torch.einsum("gidhw,gjd->gijhw", pictures, sources).amax((-2, -1))


def log_returns(pictures: Tensor, start: Tensor, end: Tensor, temperature: float) -> Tensor:
    """The logarithm of where walks end: from a source of one mixture to a picture, and on to a source of the other.

    Args:
        pictures: Unit cells, shape (G, I, D, h, w).
        start: Unit embeddings of the mixture that walks begin at, shape (G, J, D).
        end: The same for the one they end at, shape (G, J, D): the same sources at another moment.
        temperature: Of both steps.

    Returns:
        Shape (G, J, J), start in rows; its exponential sums to 1 over each row.
    """
    to_picture = (best_cells(pictures, start) / temperature).log_softmax(1)  # over i
    to_source = (best_cells(pictures, end) / temperature).log_softmax(2)  # over l
    return torch.logsumexp(to_picture.transpose(1, 2)[..., None] + to_source[:, None], dim=2)


def cycle_loss(returns: Tensor) -> Tensor:
    """Minus the mean logarithm of the chance that a walk ends where it began; `returns` as `log_returns` gives them."""
    return -returns.diagonal(dim1=-2, dim2=-1).mean()


def cycle_accuracy(returns: Tensor) -> Tensor:
    """Share of walks that most probably end where they began."""
    own = torch.arange(returns.shape[-1], device=returns.device)
    return (returns.argmax(-1) == own).to(returns.dtype).mean()
