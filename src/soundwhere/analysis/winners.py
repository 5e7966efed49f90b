"""Which source wins, and why: louder, larger, further left; and whether another model chooses the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import expit

from soundwhere.evaluation.summary import known_mean
from soundwhere.evaluation.tables import INTERVALS
from soundwhere.metrics.bootstrap import Interval
from soundwhere.metrics.listening import mean_interval
from soundwhere.metrics.report import Table, figures_table, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Wins = NDArray[np.bool_]

AUDIBLE_DB: Final = 0.5
DB_STEP: Final = 6.0
"""Odds of the louder source are given per this many decibels."""
_DRAWS: Final = 500
_RIDGE: Final = 1.0  # keeps the odds finite where a predictor decides every scene
_ODDS = (
    f"How often (%) the louder (by more than {AUDIBLE_DB:g} dB), the larger and the left source is dominant; and what "
    f"its odds are multiplied by if it is {DB_STEP:g} dB louder, twice as large, left instead of right, all else equal "
    f"(logistic regression with a weak ridge). {INTERVALS}"
)
_AGREE = (
    "Share of scenes (%) with the same dominant source; chance: if each chose left as often as it does, but "
    f"independently. {INTERVALS}"
)


def predict(wins: Wins, level_db: Values, doublings: Values) -> dict[str, Interval | None]:
    """Win rates and a logistic regression of "the left source wins" on level and size, the intercept being the side.

    Args:
        wins: Whether the left source is the dominant one, shape (N,).
        level_db: Level of the left source above the right one, shape (N,); NaN where that is unknown.
        doublings: log2 of the left source's area over the right one's, shape (N,).

    Returns:
        `louder` (where levels differ by more than 0.5 dB), `larger`, `left`: how often such a source wins;
        `odds_louder`, `odds_larger`, `odds_left`: by what the odds of winning are multiplied for a source 6 dB louder,
        of twice the area, left instead of right, all else equal. None where scenes do not differ in it.
    """
    level = np.nan_to_num(level_db)
    heard, sized = np.abs(level) > AUDIBLE_DB, doublings != 0
    columns = {"left": np.ones(len(wins))}
    columns |= {"louder": level / DB_STEP} if heard.any() else {}
    columns |= {"larger": doublings} if sized.any() else {}
    table = np.stack(list(columns.values()), axis=1)
    rng = np.random.default_rng(0)
    rows = [rng.integers(len(wins), size=len(wins)) for _ in range(_DRAWS)]
    drawn = np.array([logistic(table[row], wins[row]) for row in rows])
    low, high = np.exp(np.quantile(drawn, [0.025, 0.975], axis=0))
    odds = {
        name: Interval(*map(float, each))
        for name, *each in zip(columns, np.exp(logistic(table, wins)), low, high, strict=True)
    }

    def rate(favoured: Wins, among: Wins) -> Interval | None:
        return known_mean((wins == favoured)[among].astype(np.float64))

    return {
        "louder": rate(level > 0, heard),
        "larger": rate(doublings > 0, sized),
        "left": mean_interval(wins.astype(np.float64)),
        **{f"odds_{name}": odds.get(name) for name in ("louder", "larger", "left")},
    }


def logistic(table: Values, outcome: Wins) -> Values:
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


def agreement(first: str, second: str, wins: Wins, others: Wins) -> Agreement:
    """The agreement of two lists of winners, shape (N,) each."""
    share = mean_interval((wins == others).astype(np.float64))
    p, q = float(wins.mean()), float(others.mean())
    chance = p * q + (1 - p) * (1 - q)
    kappa = None if chance == 1 else (share.value - chance) / (1 - chance)
    return Agreement(first, second, share, chance, kappa)


def predictor_table(predictors: Mapping[str, Mapping[str, Interval | None]]) -> Table:
    """What predicts which source wins."""
    rates = {name: f"{name} wins" for name in ("louder", "larger", "left")}
    odds = {f"odds_{name}": f"odds, {name}" for name in rates}
    rows = {answer: {**found, **{key: plain(found[key]) for key in odds}} for answer, found in predictors.items()}
    return figures_table("What predicts which source wins", rows, {**rates, **odds}, _ODDS)


def agreement_table(agreed: Sequence[Agreement]) -> Table:
    """Whether the same source wins."""
    rows = {
        f"{each.first} / {each.second}": {
            "share": each.share,
            "chance": f"{100 * each.chance:.1f}",
            "kappa": "-" if each.kappa is None else f"{each.kappa:.2f}",
        }
        for each in agreed
    }
    columns = {"share": "agree", "chance": "chance", "kappa": "kappa"}
    return figures_table("Whether the same source wins", rows, columns, _AGREE, first="answers")
