"""The shape of a map: sound says which thing it is, the visual features where exactly that thing is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torch.nn import functional as F

from soundwhere.models.recollection import once

if TYPE_CHECKING:
    from torch import Tensor

# All chosen on the validation scenes of real-duet; cells are those of a 7 x 7 grid for a frame of 224.
_ALIKE_TEMPERATURE: Final = 0.15  # of the cosine at which cells share their presence
_EARSHOT: Final = 5  # cells across, over which a similarity speaks for the thing it is on
_EVIDENCE: Final = 8.0  # a similarity that is 0.1 lower dims a map to exp(-0.8)


def shaped(presence: Tensor, features: Tensor, strength: Tensor, similarity: Tensor) -> Tensor:
    """Maps of whole things that are heard, from cells that seem to belong to a source.

    Cells of one thing are rarely all recognised: alike cells and neighbours fill the gaps. The background between them
    is weak, which takes it out. And the second of two maps is easily lit by a thing that is only seen: the similarity
    of the sound, where no other map claims it, tells.

    Args:
        presence: Of each source in each cell, shape (B, K, h, w), in [0, 1].
        features: V, shape (B, D, h, w).
        strength: How surely a cell shows a thing of any kind, shape (B, 1, h, w), cut to [0, 1].
        similarity: Of the sound as a whole to each cell, shape (B, h, w).

    Returns:
        Shape (B, K, h, w), in [0, 1].
    """
    # the mean over each cell and its eight neighbours; the edge repeats
    whole = F.avg_pool2d(F.pad(shared(presence, features), (1, 1, 1, 1), mode="replicate"), kernel_size=3, stride=1)
    return whole * strength.clamp(0, 1) * evidence(whole, similarity)


def shared(presence: Tensor, features: Tensor) -> Tensor:
    """Presence (B, K, h, w) averaged over all cells, each weighted by how alike its features (B, D, h, w) look."""
    weights = once("likeness", features, _likeness)
    return (presence.flatten(2) @ weights.transpose(1, 2)).reshape(presence.shape)


def _likeness(features: Tensor) -> Tensor:
    """How much each cell counts for each other one, shape (B, hw, hw); for each the sum is 1."""
    cells = F.normalize(features.flatten(2), dim=1)
    return (cells.transpose(1, 2) @ cells / _ALIKE_TEMPERATURE).softmax(-1)


def evidence(maps: Tensor, similarity: Tensor) -> Tensor:
    """How well the sound fits what each map shows around a cell, against where it fits best.

    Args:
        maps: Shape (B, K, h, w), 0 or more; each source claims a cell in proportion.
        similarity: Of the sound as a whole to each cell, shape (B, h, w).

    Returns:
        Shape (B, K, h, w), in (0, 1], 1 where it fits best.
    """
    claims = maps / maps.sum(1, keepdim=True).clamp_min(1e-6)
    heard = F.max_pool2d(similarity[:, None] * claims, _EARSHOT, stride=1, padding=_EARSHOT // 2)
    return (_EVIDENCE * (heard - heard.amax((-2, -1), keepdim=True))).exp()


def heard_under(maps: Tensor, similarity: Tensor) -> Tensor:
    """How much the sound resembles what a map lights: without a source, a map lies on whatever looks likeliest.

    Args:
        maps: Shape (B, K, h, w), 0 or more.
        similarity: Of the sound as a whole to each cell, shape (B, h, w).

    Returns:
        The highest similarity among the cells that reach half of their map's maximum, in [0, 1], shape (B, K).
    """
    lit = maps >= maps.amax((-2, -1), keepdim=True) / 2
    return (similarity[:, None] * lit).flatten(2).amax(2).clamp(0, 1)
