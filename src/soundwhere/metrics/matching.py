"""Which prediction answers for which source."""

from __future__ import annotations

from functools import cache
from itertools import permutations
from math import perm
from typing import TYPE_CHECKING, Final, Literal

import torch
from scipy.optimize import linear_sum_assignment

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

Policy = Literal["repeat", "zero"]
"""With fewer maps than sources: let the best map answer again (`repeat`), or score 0 for a missing map (`zero`)."""
Matching = Literal["hungarian", "given", "greedy"]
"""The best total, the order of the maps as the method gives it, or each map in turn to its best free source."""

_ENUMERABLE: Final = 24
_TIE: Final = 1e-9  # totals of IoUs that differ by less are equal but for rounding


def match(
    quality: Tensor,
    matching: Matching = "hungarian",
    policy: Policy = "repeat",
    tie_break: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Assign predictions to sources.

    Args:
        quality: Quality (IoU) of each prediction for each source, shape (B, K, M); for `greedy`, NaN where a prediction
            is empty.
        matching: `hungarian` (Eq. hungarian), `given` (prediction m answers for source m), or `greedy` (each prediction
            in turn takes the source it fits best; one that fits no free source takes none).
        policy: What to do for sources without a prediction; `greedy` always leaves them without.
        tie_break: As `hungarian`.

    Returns:
        For each source the index of its prediction, shape (B, M), int64; -1 where it has none.
    """
    predictions, sources = quality.shape[-2:]
    if matching == "greedy":
        return _greedy(quality)
    if matching == "given":
        order = torch.arange(sources, device=quality.device)
        chosen = torch.where(order < predictions, order, -1).expand(len(quality), sources)
    else:
        chosen = hungarian(quality, tie_break)
    return torch.where(chosen < 0, quality.argmax(-2), chosen) if policy == "repeat" else chosen


def hungarian(quality: Tensor, tie_break: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """The assignment of K predictions to M sources with the greatest total quality.

    With K > M the best M predictions are taken: a method that offers more maps than sources is helped by the truth, so
    compare only methods with equally many.

    Args:
        quality: Shape (B, K, M).
        tie_break: Second quality in [0, 1], shape (b, K, M), of scenes given by their index (b,). It decides between
            assignments with the same total, so that the order of the predictions does not. It is asked only for scenes
            with a tie, and only where the assignments are few enough to be listed (up to 3 x 3, 2 x 4 and the like).

    Returns:
        Shape (B, M), int64; -1 for sources left over when K < M.
    """
    predictions, sources = quality.shape[-2:]
    few, many = sorted((predictions, sources))
    if perm(many, few) > _ENUMERABLE:
        chosen = torch.full((len(quality), sources), -1, dtype=torch.long)
        for scene, table in enumerate(quality.cpu().numpy()):
            rows, columns = linear_sum_assignment(table, maximize=True)
            chosen[scene, columns] = torch.from_numpy(rows)
        return chosen.to(quality.device)
    options = _assignments(predictions, sources).to(quality.device)
    totals = _totals(quality, options)
    if tie_break is not None and len(options) > 1:
        scenes = ((totals > totals.amax(-1, keepdim=True) - _TIE).sum(-1) > 1).nonzero().flatten()
        if len(scenes):
            totals[scenes] += _TIE * _totals(tie_break(scenes), options)
    return options[totals.argmax(-1)]


def _totals(quality: Tensor, options: Tensor) -> Tensor:
    """Total quality (B, A) of each assignment (A, M)."""
    sources = torch.arange(options.shape[1], device=options.device)
    return torch.where(options >= 0, quality.double()[:, options, sources], 0.0).sum(-1)


@cache
def _assignments(predictions: int, sources: int) -> Tensor:
    """Every way to give as many sources as possible a prediction of their own, shape (A, M); -1 for none."""
    slots = [*range(predictions), *[-1] * (sources - predictions)]
    return torch.tensor(list(dict.fromkeys(permutations(slots, sources))))


def _greedy(quality: Tensor) -> Tensor:
    """Each prediction in turn to the source it fits best; a source that is taken fits nothing any more.

    An empty prediction goes to a source that is taken, if there is one, and leaves the free ones to those after it: the
    peers erase the truth of a source that is taken, and 0 / 0 comes first in their search for the best.
    """
    chosen = torch.full((len(quality), quality.shape[2]), -1, dtype=torch.long, device=quality.device)
    for prediction in range(quality.shape[1]):
        own = quality[:, prediction]
        taken = torch.where(own.isnan(), torch.inf, 0.0)
        best = torch.where(chosen < 0, own.nan_to_num(0.0), taken).argmax(-1, keepdim=True)
        free = chosen.gather(1, best) < 0
        chosen.scatter_(1, best, torch.where(free, prediction, chosen.gather(1, best)))
    return chosen
