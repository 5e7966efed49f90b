"""More sources than the two of the paper, or one: its stage applied again to what remains of the picture."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import torch

from soundwhere.models.growth import peel
from soundwhere.models.scav import SCAV, Branches, localisation
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def share_out(similarity: Tensor, dominant: Callable[[Tensor], Tensor], sources: int) -> Tensor:
    """Share the cells of a picture out among sources, the most similar first.

    A source takes its dominant map's part of what remains, out of the picture and of the similarity; the last one takes
    the rest. Two sources get M_dom and 1 - M_dom, as in the paper.

    Args:
        similarity: S of stage 1, shape (B, h, w).
        dominant: From a similarity of that shape to M_dom in [0, 1], such as Algorithm 1.
        sources: K, 2 or more.

    Returns:
        Shares in [0, 1] whose sum over the sources is 1 in every cell, shape (B, K, h, w).

    >>> halves = share_out(torch.rand(1, 2, 2), lambda remaining: torch.full_like(remaining, 0.5), sources=3)
    >>> halves[0, :, 0, 0].tolist()
    [0.5, 0.25, 0.25]
    """
    shares, rest = [], torch.ones_like(similarity)
    for _ in range(sources - 1):
        share = rest * dominant(similarity * rest)
        shares.append(share)
        rest = rest - share
    return torch.stack([*shares, rest], dim=1)


def localise_sources(model: SCAV, features: Tensor, heard: Tensor, sources: int) -> Localisation:
    """As `SCAV.localise_heard`, for any number of sources.

    Every source's share of the picture goes through stage 2 as the dominant branch, the last one's as the other branch:
    with two sources that is the model's own answer. One source is the first of two. Without a stage 2, peaks are grown
    and taken away one after another.

    Args:
        model: Its methods are called, whatever runs them.
        features: V, shape (B, C, h, w).
        heard: What `embed` made of the sound, shape (B, 2, C).
        sources: K, 1 or more.
    """
    if sources <= model.sources:
        own = model.localise_heard(features, heard)
        return Localisation(own.similarity[:, :sources], own.confidence[:, :sources], own.embeddings[:, :sources])
    embedding, second = heard.unbind(1)
    similarity = model.similarity(features, embedding)
    if not model.config.decouple:
        maps = peel(similarity, features, sources)
        return localisation(maps, embedding[:, None].expand(-1, sources, -1))
    shares = share_out(similarity, lambda remaining: model.spatial_prior(remaining, features), sources)
    rounds = [model.decouple(features, second, share) for share in shares[:, :-1].unbind(1)]
    parts = [Branches(found.features[:, :1], found.embeddings[:, :1]) for found in rounds]
    last = model.decouple(features, second, 1 - shares[:, -1])
    parts.append(Branches(last.features[:, 1:], last.embeddings[:, 1:]))
    return answer(
        model, features, heard, Branches(*(torch.cat(tensors, dim=1) for tensors in zip(*parts, strict=True)))
    )


def answer(model: SCAV, features: Tensor, heard: Tensor, branches: Branches) -> Localisation:
    """The model's own answer, however it makes one, from branches for any number of sources."""
    decoupled = copy(model)
    vars(decoupled).update(decouple=lambda *_: branches, spatial_prior=lambda similarity, _: similarity)
    return SCAV.localise_heard(decoupled, features, heard)
