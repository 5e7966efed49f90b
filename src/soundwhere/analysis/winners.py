"""Which source wins, and why: louder, larger, further left; and whether another model chooses the same."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import expit

from soundwhere.metrics.bootstrap import Interval
from soundwhere.metrics.listening import mean_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.analysis.convergence import Observations

    Values = NDArray[np.float64]

_DRAWS: Final = 500
_RIDGE: Final = 1.0  # keeps the odds finite where a predictor decides every scene
AUDIBLE_DB: Final = 0.5
DB_STEP: Final = 6.0
"""Odds of the louder source are given per this many decibels."""


@dataclass(frozen=True)
class Predictors:
    """What goes with winning; None where scenes do not differ in it.

    Attributes:
        louder: How often the louder source wins, where levels differ by more than 0.5 dB.
        larger: How often the larger source wins.
        left: How often the left source wins.
        odds_louder: By what the odds of winning are multiplied for a source 6 dB louder, all else equal.
        odds_larger: The same for twice the area.
        odds_left: The same for being left instead of right.
    """

    louder: Interval | None
    larger: Interval | None
    left: Interval
    odds_louder: Interval | None
    odds_larger: Interval | None
    odds_left: Interval


def predict(observations: Observations, answer: str, seed: int = 0) -> Predictors:
    """Win rates and a logistic regression of "the left source wins" on level and size, the intercept being the side.

    Args:
        observations: Who answered what.
        answer: Whose dominant source.
        seed: Of the bootstrap over scenes.
    """
    wins = observations.left_wins(answer)
    level, doublings = observations.level_db, observations.doublings
    heard = np.abs(np.nan_to_num(level)) > AUDIBLE_DB
    sized = doublings != 0
    columns = {"left": np.ones(len(wins))}
    if heard.any():
        columns["louder"] = np.nan_to_num(level) / DB_STEP
    if sized.any():
        columns["larger"] = doublings
    table = np.stack(list(columns.values()), axis=1)
    rng = np.random.default_rng(seed)
    rows = [rng.integers(len(wins), size=len(wins)) for _ in range(_DRAWS)]
    drawn = np.array([logistic(table[row], wins[row]) for row in rows])
    low, high = np.exp(np.quantile(drawn, [0.025, 0.975], axis=0))
    odds = {
        name: Interval(*map(float, each))
        for name, *each in zip(columns, np.exp(logistic(table, wins)), low, high, strict=True)
    }

    def rate(favoured: NDArray[np.bool_], among: NDArray[np.bool_]) -> Interval | None:
        same = (wins == favoured)[among]
        return mean_interval(same.astype(np.float64), seed=seed) if len(same) else None

    return Predictors(
        rate(np.nan_to_num(level) > 0, heard),
        rate(doublings > 0, sized),
        mean_interval(wins.astype(np.float64), seed=seed),
        odds.get("louder"),
        odds.get("larger"),
        odds["left"],
    )


def logistic(table: Values, outcome: NDArray[np.bool_]) -> Values:
    """Coefficients (C,) of the logistic regression of an outcome (N,) on a table (N, C), with a weak ridge."""
    weights = np.zeros(table.shape[1])
    for _ in range(50):
        chance = expit(table @ weights)
        slope = table.T @ (outcome - chance) - _RIDGE * weights
        curvature = (table * (chance * (1 - chance))[:, None]).T @ table + _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curvature, slope)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return weights


@dataclass(frozen=True)
class Agreement:
    """Whether two answers have the same dominant source.

    Attributes:
        first: One answer.
        second: The other.
        share: How often they agree.
        chance: How often they would if each chose sides as often as it does, but independently.
        kappa: (share - chance) / (1 - chance): 0 is chance, 1 always the same; None if chance is 1.
    """

    first: str
    second: str
    share: Interval
    chance: float
    kappa: float | None


def agreements(observations: Observations, seed: int = 0) -> list[Agreement]:
    """Every pair of answers, in the order of the answers."""
    wins = {name: observations.left_wins(name) for name in observations.pairs}
    return [agreement(a, b, wins[a], wins[b], seed) for a, b in combinations(wins, 2)]


def agreement(first: str, second: str, wins: NDArray[np.bool_], others: NDArray[np.bool_], seed: int = 0) -> Agreement:
    """The agreement of two lists of winners, shape (N,) each."""
    share = mean_interval((wins == others).astype(np.float64), seed=seed)
    p, q = float(wins.mean()), float(others.mean())
    chance = p * q + (1 - p) * (1 - q)
    kappa = None if chance == 1 else (share.value - chance) / (1 - chance)
    return Agreement(first, second, share, chance, kappa)
