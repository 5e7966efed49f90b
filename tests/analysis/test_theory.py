from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch.nn import functional as F

from soundwhere.analysis.appendix import appendix_checks, beyond, margin, one_step
from soundwhere.analysis.setting import Setting
from soundwhere.analysis.theory import (
    APPENDIX,
    TRAINING,
    VARIANTS,
    Variant,
    climb,
    features,
    positive_score,
    selection_chart,
    strengths,
)
from soundwhere.config import Thresholds
from soundwhere.errors import ConfigError
from soundwhere.losses import thresholding

QUIET = Setting(sigma=0.0, tau=1e-4)
SMALL = Setting(cells=(5, 4), dimension=6, sigma=0.1, spread=0.3, tau=0.1)


def autograd(audio: np.ndarray, cells: np.ndarray, setting: Setting, variant: Variant) -> tuple[float, np.ndarray]:
    """P and dP/da by torch, written from the paper's equation."""
    a = torch.tensor(audio, requires_grad=True)
    v = torch.tensor(cells)
    similarity = F.normalize(v, dim=1) @ F.normalize(a, dim=0) if variant.normalise else v @ a
    mask = torch.sigmoid((similarity - setting.threshold) / setting.tau)
    if not variant.through_mask:
        mask = mask.detach()
    value = (mask * similarity).sum() / mask.sum()
    value.backward()
    assert a.grad is not None
    return float(value.detach()), a.grad.numpy()


@pytest.mark.parametrize(("variant", "seed"), list(product(VARIANTS, range(3))))
def test_gradient_is_that_of_autograd(variant: Variant, seed: int) -> None:
    setting = replace(SMALL, seed=seed)
    cells = features(setting)
    audio = np.random.default_rng(seed).normal(size=setting.dimension) + setting.start
    score = positive_score(audio, cells, setting.threshold, setting.tau, variant)
    value, gradient = autograd(audio, cells, setting, variant)
    assert score.value == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(score.gradient, gradient, atol=1e-12)


@pytest.mark.parametrize("normalise", [False, True])
def test_gradient_through_the_mask_is_that_of_finite_differences(normalise: bool) -> None:
    variant, cells = Variant(True, normalise), features(SMALL)
    score = positive_score(SMALL.start, cells, SMALL.threshold, SMALL.tau, variant)
    for axis in range(SMALL.dimension):
        step = 1e-6 * np.eye(SMALL.dimension)[axis]
        high, low = (
            positive_score(SMALL.start + sign * step, cells, SMALL.threshold, SMALL.tau, variant).value
            for sign in (1, -1)
        )
        assert score.gradient[axis] == pytest.approx(float(high - low) / 2e-6, abs=1e-7)


def test_score_is_the_one_that_is_trained() -> None:
    """Also far below the threshold, where a mask divided by its sum would be 0 / 0."""
    cells = features(SMALL)
    for threshold in (0.2, 0.65, 60.0):
        score = positive_score(SMALL.start, cells, threshold, SMALL.tau, TRAINING)
        similarity = torch.from_numpy(score.similarity)[None]
        trained = thresholding.positive_score(similarity, Thresholds(positive=threshold, temperature=SMALL.tau))
        assert float(score.value) == pytest.approx(float(trained), abs=1e-9)
        assert score.weights.sum() == pytest.approx(1)


def test_batches_are_scored_like_single_vectors() -> None:
    cells = features(SMALL)
    audio = np.random.default_rng(0).normal(size=(2, 3, SMALL.dimension))
    thresholds = np.array([[0.1], [0.6]])
    together = positive_score(audio, cells, thresholds, SMALL.tau, TRAINING)
    for i, j in product(range(2), range(3)):
        alone = positive_score(audio[i, j], cells, thresholds[i, 0], SMALL.tau, TRAINING)
        np.testing.assert_allclose(together.gradient[i, j], alone.gradient, atol=1e-14)


def test_features_follow_the_assumptions() -> None:
    setting = replace(SMALL, sigma=0.3)
    noise = features(setting)
    for axis, region in enumerate(setting.regions):
        noise[region, axis] -= strengths(setting)[region]
        assert strengths(setting)[region].mean() == pytest.approx(setting.beta[axis])
    np.testing.assert_allclose(np.linalg.norm(noise, axis=1), 0.3)
    assert np.array_equal(features(setting), features(setting))
    assert not np.array_equal(features(setting), features(replace(setting, seed=1)))


def test_one_step_is_the_theorems_without_noise_as_tau_vanishes() -> None:
    step = one_step(QUIET)
    assert (step.first, step.second, step.leak) == pytest.approx((0, 0, 0), abs=1e-12)


def test_a_normalised_step_takes_c2_down() -> None:
    """With the mask on region 1 alone, da = (u1 - c1 a) / |a| for a unit a, so that c2 falls by c1 c2 / |a|."""
    length = float(np.hypot(*QUIET.alpha))
    c1, c2 = (alpha / length for alpha in QUIET.alpha)
    for variant in (Variant(False, True), Variant(True, True)):
        assert one_step(QUIET, variant).second == pytest.approx(-c1 * c2 / length, abs=1e-9)


def test_below_both_regions_every_cell_counts() -> None:
    setting = replace(QUIET, threshold=-50.0, cells=(30, 10), beta=(0.8, 0.6))
    gradient = positive_score(setting.start, features(setting), setting.threshold, setting.tau, APPENDIX).gradient
    np.testing.assert_allclose(gradient[:2], [0.75 * 0.8, 0.25 * 0.6], atol=1e-12)


def test_far_above_both_regions_the_mask_is_a_softmax() -> None:
    setting = replace(SMALL, threshold=40.0)
    score = positive_score(setting.start, features(setting), setting.threshold, setting.tau, APPENDIX)
    np.testing.assert_allclose(score.weights, softmax(score.similarity / setting.tau), atol=1e-12)


def test_selection_happens_and_fails_where_it_should() -> None:
    below, above = beyond(Setting())
    assert below < Setting().gains[1] < Setting().gains[0] < above
    for variant in VARIANTS:
        path = climb(replace(Setting(), threshold=below), variant)
        assert not path.selects
        assert path.share[-1] == pytest.approx(0.5, abs=0.01)  # the regions are equally large
        assert climb(replace(Setting(), threshold=above), variant).selects
        assert climb(replace(Setting(), tau=0.003), variant).selects


def test_held_fixed_the_leak_of_the_mask_undoes_selection_in_the_long_run() -> None:
    """Though the threshold condition holds: each step lifts c2 a little, until region 2 is in the mask as well."""
    assert margin(Setting()) == pytest.approx(0.09)
    path = climb(Setting(), APPENDIX)
    assert path.share[0] > 0.95
    assert path.share[-1] < 0.51
    assert np.all(np.diff(path.coefficients[:, 1]) > 0)
    assert climb(Setting(), Variant(through_mask=True)).selects


def test_normalised_coefficients_lie_on_the_circle() -> None:
    path = climb(replace(Setting(), sigma=0.0), TRAINING)
    np.testing.assert_allclose(np.linalg.norm(path.coefficients, axis=1), 1, atol=1e-12)
    assert path.outside.max() == 0


def test_chart_is_where_climbing_ends() -> None:
    setting = replace(Setting(), cells=(3, 3), steps=40)
    chart = selection_chart(setting, TRAINING, np.array([0.3, 0.65]), np.array([0.5, 0.7]))
    for row, threshold in enumerate((0.3, 0.65)):
        for column, ratio in enumerate((0.5, 0.7)):
            c1, c2 = climb(replace(setting, threshold=threshold, alpha=(1.0, ratio)), TRAINING).coefficients[-1]
            assert chart[row, column] == pytest.approx((c1 - c2) / (c1 + c2), abs=1e-9)


def test_checks_say_what_holds() -> None:
    verdicts = {check.claim: check.holds for check in appendix_checks(Setting(), draws=20)}

    def verdict(start: str) -> bool | None:
        (found,) = (holds for claim, holds in verdicts.items() if claim.startswith(start))
        return found

    assert verdict("Lemma 1") is True
    assert verdict("Proposition 1") is True
    assert verdict("Lemma 2:") is True
    assert verdict("Lemma 2, strengths") is False
    assert verdict("Theorem 1, one step: c1 grows by eta beta1 and c2 by 0, up to O(eps)") is False
    assert verdict("Theorem 1, one step: c1 grows by eta beta1 and c2 by 0, up to eta") is True
    assert verdict("Theorem 1 with the gradient through the mask") is False
    assert verdict("Threshold below both") is True


def test_without_noise_the_theorem_holds_as_stated_and_outside_its_condition_nothing_is_claimed() -> None:
    quiet = {check.claim: check.holds for check in appendix_checks(replace(Setting(), sigma=0.0), draws=2)}
    assert next(holds for claim, holds in quiet.items() if "(statement)" in claim) is True
    outside = appendix_checks(replace(Setting(), threshold=0.3), draws=2)
    assert [check.holds for check in outside if check.claim.startswith(("Lemma 2", "Theorem 1, one"))] == [None] * 3


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": (0.7, 1.0)},
        {"alpha": (0.0, 0.0)},
        {"tau": 0.0},
        {"sigma": -1.0},
        {"spread": 1.0},
        {"cells": (0, 4)},
        {"dimension": 1},
        {"steps": 0},
        {"threshold": float("nan")},
    ],
)
def test_settings_that_make_no_sense(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        replace(Setting(), **change)  # type: ignore[arg-type]
