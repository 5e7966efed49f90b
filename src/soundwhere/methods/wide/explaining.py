"""Which of the things that are seen explain what is heard: every moment of a mixture is due to one of them.

A picture's cells are not asked one by one how well the whole sound fits them, but together: two things are looked for
that leave no moment of the sound unexplained. So a bark that lasts for a moment counts as much as the engine that runs
through it, and a second thing is found by what the first one does not explain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

_REGION: Final = 0.4  # softness of what counts as one thing: cosine between features of cells
_OTHER: Final = 0.35  # cells whose features are more alike than this never show two things
_OWNER: Final = 0.03  # softness of whose a moment is
_NEVER: Final = -1e4


class Explanation(NamedTuple):
    """What explains B mixtures of N moments in pictures of Q cells.

    Attributes:
        fits: How well each moment fits the thing that each cell lies on, shape (B, N, Q).
        alike: How alike cells look, cosine, shape (B, Q, Q).
        cells: A cell of each of K things, the one that explains most first, shape (B, K), int64.
        owners: Whose each moment is, shares whose sum over the things is 1, shape (B, K, N).
    """

    fits: Tensor
    alike: Tensor
    cells: Tensor
    owners: Tensor

    @property
    def own(self) -> Tensor:
        """How well each moment fits each of the K things, shape (B, K, N)."""
        return _taken(self.fits, self.cells).transpose(1, 2)

    @property
    def likeness(self) -> Tensor:
        """How much each cell looks like the cell of each thing, shape (B, K, Q)."""
        return _taken(self.alike, self.cells).transpose(1, 2)

    def gains(self) -> Tensor:
        """How much better the sound is explained with each thing than with those before it, shape (B, K)."""
        explained = self.own.cummax(dim=1).values.mean(2)
        return torch.diff(explained, dim=1, prepend=torch.zeros_like(explained[:, :1]))

    @property
    def maps(self) -> Tensor:
        """How well each cell's thing fits the moments that are each source's, shape (B, K, Q)."""
        return torch.einsum("bkn,bnq->bkq", self.owners, self.fits) / self.owners.sum(2, keepdim=True).clamp_min(1e-6)


def explain(features: Tensor, heard: Tensor, sources: int) -> Explanation:
    """Look for the things that together explain a sound best.

    Cells that look alike show one thing, and count the more the stronger their features are. The first two things are
    chosen together, of all pairs of cells that do not look alike; every further one is what explains most of the rest.

    Args:
        features: V, shape (B, C, h, w).
        heard: Embeddings of the sound's moments, shape (B, N, C).
        sources: K, how many things.
    """
    directions, alike, things = _things(features)
    fits = (heard @ directions) @ things.transpose(1, 2)
    chosen = _pair(fits, alike) if sources > 1 else fits.mean(1).argmax(1, keepdim=True)
    while chosen.shape[1] < sources:
        chosen = torch.cat([chosen, _next(fits, alike, chosen)], dim=1)
    own = _taken(fits, chosen)  # (B, N, K)
    order = own.mean(1).argsort(dim=1, descending=True)
    chosen = chosen.gather(1, order)
    owners = (_taken(fits, chosen) / _OWNER).softmax(2).transpose(1, 2)
    return Explanation(fits, alike, chosen, owners)


def main_thing(features: Tensor) -> Tensor:
    """What the strongest cell of each picture (B, C, h, w) lies on, as sounds are compared with it, shape (B, C)."""
    directions, _, things = _things(features)
    strongest = features.flatten(2).square().sum(1).argmax(1)
    return (directions @ things.transpose(1, 2))[torch.arange(len(features)), :, strongest]


def _things(features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Directions of cells (B, C, Q), how alike they are, and which of them show the thing of each (B, Q, Q)."""
    cells = features.flatten(2)
    directions = F.normalize(cells, dim=1)
    alike = directions.transpose(1, 2) @ directions
    strength = cells.square().sum(1).clamp_min(1e-12).log()
    return directions, alike, (alike / _REGION + strength[:, None]).softmax(2)


def _pair(fits: Tensor, alike: Tensor) -> Tensor:
    """The two cells whose better fit, moment by moment, is best on the whole, shape (B, 2)."""
    size = fits.shape[2]
    explained = torch.maximum(fits[..., None], fits[:, :, None]).mean(1)  # (B, Q, Q)
    best = (explained + _NEVER * (alike > _OTHER)).flatten(1).argmax(1)
    return torch.stack([best // size, best % size], dim=1)


def _next(fits: Tensor, alike: Tensor, chosen: Tensor) -> Tensor:
    """The cell that explains best what others leave, shape (B, 1)."""
    best = _taken(fits, chosen).amax(2, keepdim=True)
    explained = torch.maximum(fits, best).mean(1)  # (B, Q)
    taken = _taken(alike, chosen).amax(2) > _OTHER
    return (explained + _NEVER * taken).argmax(1, keepdim=True)


def _taken(values: Tensor, cells: Tensor) -> Tensor:
    """The values of some cells: shapes (B, N, Q) and (B, K) to (B, N, K)."""
    return values.gather(2, cells[:, None].expand(-1, values.shape[1], -1))


EVIDENCE: Final = 28
"""How many values speak for a number of things that sound."""


def evidence(found: Explanation, heard: Tensor) -> Tensor:
    """What speaks for nothing, one or two things that sound, shape (B, 28).

    How well the moments fit whatever fits them best, the two things together, each of them, and the second rather than
    the first; how well the whole sound fits each cell; how alike the moments sound, and how unlike any sound.

    Args:
        found: Two things or more.
        heard: Embeddings of the sound's moments, shape (B, N, C).
    """
    first, second = found.own[:, 0], found.own[:, 1]
    moments = (found.fits.amax(2), torch.maximum(first, second), first, second, second - first)
    directions = F.normalize(heard, dim=2)
    alike = (directions @ directions.transpose(1, 2)).flatten(1)
    described = [*map(_described, moments), _described(found.fits.mean(1)), _described(alike)[:, :3]]
    return torch.cat([*described, heard.norm(dim=2).mean(1, keepdim=True)], dim=1)


ELSEWHERE: Final = 5
"""How many further values compare the picture with things that are not in it."""


def elsewhere(features: Tensor, heard: Tensor, whole: Tensor, others: Tensor) -> Tensor:
    """What speaks against a picture: how well other things would fit the whole sound, shape (B, 5).

    A sound of nothing that is seen fits the best of what is seen, too, but no better than most other things. The last
    value is how well the moments fit single cells, with what all sounds have in common: what stage 1 learnt to judge.

    Args:
        features: V, shape (B, C, h, w).
        heard: Embeddings of the sound's moments, shape (B, N, C), less what all sounds have in common.
        whole: The same embeddings with that, shape (B, N, C).
        others: Things of other pictures, shape (K, C); see `main_thing`.
    """
    cells = F.normalize(features.flatten(2), dim=1)
    here = (whole @ cells).amax(2).mean(1, keepdim=True)
    return torch.cat([_described((heard @ others.T).mean(1)), here], dim=1)


def _described(values: Tensor) -> Tensor:
    """Mean, spread, least and greatest of values (B, N), shape (B, 4)."""
    mean = values.mean(1)
    spread = (values - mean[:, None]).square().mean(1).sqrt()
    return torch.stack([mean, spread, values.amin(1), values.amax(1)], dim=1)
