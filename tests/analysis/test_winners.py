from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from soundwhere.analysis.winners import agreement, agreement_table, logistic, predict, predictor_table


def random_scenes(count: int = 400) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    return rng.uniform(-12, 12, count), rng.normal(size=count), rng


def test_logistic_regression_is_scikit_learns() -> None:
    level, size, rng = random_scenes(200)
    table = np.stack([np.ones(200), level, size], axis=1)
    outcome = rng.random(200) < 1 / (1 + np.exp(-0.3 * level))
    reference = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(table, outcome)
    np.testing.assert_allclose(logistic(table, outcome), reference.coef_[0], atol=1e-5)


def test_the_louder_source_wins_where_loudness_decides() -> None:
    level, size, _ = random_scenes()
    found = {name: each for name, each in predict(level > 0, level, size).items() if each is not None}
    assert found["louder"].value == 1
    assert found["larger"].low < 0.5 < found["larger"].high
    assert found["odds_louder"].low > 5
    assert found["odds_larger"].low < 1 < found["odds_larger"].high
    assert found["odds_left"].low < 1 < found["odds_left"].high


def test_planted_odds_are_found() -> None:
    level, size, rng = random_scenes(4000)
    chance = 1 / (1 + np.exp(-(np.log(2) * level / 6 + np.log(3) * size + np.log(1.5))))
    found = predict(rng.random(4000) < chance, level, size)
    for name, planted in (("odds_louder", 2), ("odds_larger", 3), ("odds_left", 1.5)):
        odds = found[name]
        assert odds is not None
        assert odds.low < planted < odds.high


def test_what_scenes_do_not_differ_in_predicts_nothing() -> None:
    _, size, rng = random_scenes(50)
    found = predict(rng.random(50) < 0.5, np.full(50, np.nan), size)
    assert found["louder"] is None
    assert found["odds_louder"] is None
    same = predict(rng.random(50) < 0.5, np.zeros(50), np.zeros(50))
    assert same["larger"] is None
    assert same["louder"] is None
    (line,) = predictor_table({"a": same}).cells
    assert [cell.text for cell in line[:3]] == ["a", "-", "-"]


def test_agreement_beside_chance() -> None:
    first = np.array([True] * 6 + [False] * 4)
    second = np.array([True] * 5 + [False] * 5)
    found = agreement("a", "b", first, second)
    assert found.share.value == 0.9
    assert found.chance == pytest.approx(0.6 * 0.5 + 0.4 * 0.5)
    assert found.kappa == pytest.approx(0.8)
    always = agreement("a", "b", np.ones(3, bool), np.ones(3, bool))
    assert (always.share.value, always.chance, always.kappa) == (1, 1, None)
    lines = agreement_table([found]).cells
    assert [cell.text for cell in lines[0]] == ["a / b", "90.0", "50.0", "0.80"]
