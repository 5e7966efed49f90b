"""The appendix, simulated: two sources in disjoint regions, and gradient ascent of the positive score P.

The appendix follows the audio representation a = c1 u1 + c2 u2 while it climbs P with the mask held fixed and no
normalisation. Training does neither: the mask is a function of a, and both sides are of unit length. Here each of the
two can be switched on. Everything is numpy in double precision, with the gradients written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import log_expit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.analysis.setting import Setting

    Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Variant:
    """What the gradient takes into account.

    Attributes:
        through_mask: The mask changes with a, and the gradient knows it.
        normalise: Features and a are of unit length, as the cosine of training has them.
    """

    through_mask: bool = False
    normalise: bool = False

    @property
    def name(self) -> str:
        """In words."""
        mask = "gradient through the mask" if self.through_mask else "mask held fixed"
        return f"{mask}, {'cosine' if self.normalise else 'dot product'}"


APPENDIX: Final = Variant()
TRAINING: Final = Variant(through_mask=True, normalise=True)
VARIANTS: Final = tuple(Variant(mask, cosine) for cosine, mask in product((False, True), repeat=2))


def strengths(setting: Setting) -> Vector:
    """Matching strength of every cell, shape (cells,): spread evenly around the mean of its region."""
    return np.concatenate(
        [
            mean * (1 + setting.spread * (np.linspace(-1, 1, count) if count > 1 else np.zeros(1)))
            for mean, count in zip(setting.beta, setting.cells, strict=True)
        ]
    )


def features(setting: Setting) -> Vector:
    """V'(p) = beta_p u_k + epsilon_p of every cell (Assumption 2), shape (cells, D)."""
    noise = np.random.default_rng(setting.seed).normal(size=(sum(setting.cells), setting.dimension))
    cells: Vector = setting.sigma * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    for axis, region in enumerate(setting.regions):
        cells[region, axis] += strengths(setting)[region]
    return cells


@dataclass(frozen=True)
class Score:
    """P and its gradient at some a.

    Attributes:
        similarity: S(p), shape (..., cells).
        mask: m_p(p), shape (..., cells).
        weights: The mask divided by its sum, shape (..., cells).
        value: P, shape (...).
        gradient: dP/da, shape (..., D).
    """

    similarity: Vector
    mask: Vector
    weights: Vector
    value: Vector
    gradient: Vector


def soft_mask(similarity: Vector, threshold: float, tau: float) -> Vector:
    """m_p(p) of every similarity S(p), as `positive_score` has it."""
    mask: Vector = np.exp(log_expit((similarity - threshold) / tau))
    return mask


def positive_score(audio: Vector, cells: Vector, threshold: float | Vector, tau: float, variant: Variant) -> Score:
    """P, the mean similarity under the soft mask (Eq. positive_score), with its gradient.

    With w = m / sum m, dP/dS(p) = w(p) if the mask is held fixed, and w(p) [1 + (1 - m(p)) (S(p) - P) / tau] if not:
    a cell that is only half in the mask and lower than P is pushed down.

    Args:
        audio: a, shape (..., D).
        cells: V', shape (cells, D).
        threshold: epsilon_p, broadcastable to (...).
        tau: Temperature.
        variant: What the gradient takes into account.
    """
    length = np.linalg.norm(audio, axis=-1, keepdims=True)
    if variant.normalise:
        audio, cells = audio / length, cells / np.linalg.norm(cells, axis=1, keepdims=True)
    similarity = audio @ cells.T
    logits = (similarity - np.asarray(threshold)[..., None]) / tau
    log_mask = log_expit(logits)
    mask = np.exp(log_mask)
    # in log space: the mask of a map far below the threshold underflows, its weights do not
    weights = np.exp(log_mask - log_mask.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    value = (weights * similarity).sum(axis=-1)
    slope = weights
    if variant.through_mask:
        slope = weights * (1 + np.exp(log_expit(-logits)) * (similarity - value[..., None]) / tau)
    gradient = slope @ cells
    if variant.normalise:
        along = (gradient * audio).sum(axis=-1, keepdims=True)
        gradient = (gradient - along * audio) / length
    return Score(similarity, mask, weights, value, gradient)


@dataclass(frozen=True)
class Trajectory:
    """Gradient ascent from `Setting.start`, at steps 0 to T.

    Attributes:
        coefficients: c1 and c2, shape (T + 1, 2); of the unit vector a / ||a|| if the variant normalises.
        similarity: Mean similarity of each region, shape (T + 1, 2).
        share: Share of the mask's weight that lies on region 1, shape (T + 1,).
        outside: Part of a / ||a|| that lies outside the span of u1 and u2, shape (T + 1,).
    """

    coefficients: Vector
    similarity: Vector
    share: Vector
    outside: Vector

    @property
    def selects(self) -> bool:
        """Whether one source is taken and the other left: region 1 has the mask, and c2 / c1 at least halved."""
        first, last = self.coefficients[0], self.coefficients[-1]
        return bool(self.share[-1] > 0.9 and abs(last[1] / last[0]) <= 0.5 * first[1] / first[0])


def climb(setting: Setting, variant: Variant = APPENDIX) -> Trajectory:
    """Climb P and write down what happens to c1 and c2."""
    cells, audio = features(setting), setting.start
    coefficients, similarity, share, outside = [], [], [], []
    for step in range(setting.steps + 1):
        score = positive_score(audio, cells, setting.threshold, setting.tau, variant)
        length = float(np.linalg.norm(audio))
        coefficients.append(audio[:2] / (length if variant.normalise else 1.0))
        similarity.append([score.similarity[region].mean() for region in setting.regions])
        share.append(score.weights[setting.regions[0]].sum())
        outside.append(np.linalg.norm(audio[2:]) / length)
        if step < setting.steps:
            audio = audio + setting.rate * score.gradient
    return Trajectory(*map(np.array, (coefficients, similarity, share, outside)))


def selection_chart(setting: Setting, variant: Variant, thresholds: Vector, ratios: Vector) -> Vector:
    """How far apart c1 and c2 end, for every threshold and every initial ratio.

    Args:
        setting: Everything else; alpha1 stays, alpha2 = ratio x alpha1.
        variant: What the gradient takes into account.
        thresholds: Shape (M,).
        ratios: alpha2 / alpha1, shape (N,).

    Returns:
        (c1 - c2) / (c1 + c2) after the last step, shape (M, N): 1 where source 1 alone is left, 0 where both are equal.
    """
    cells = features(setting)
    audio = np.zeros((len(thresholds), len(ratios), setting.dimension))
    audio[..., 0] = setting.alpha[0]
    audio[..., 1] = ratios * setting.alpha[0]
    for _ in range(setting.steps):
        score = positive_score(audio, cells, thresholds[:, None], setting.tau, variant)
        audio = audio + setting.rate * score.gradient
    first, second = np.abs(audio[..., 0]), np.abs(audio[..., 1])
    chart: Vector = (first - second) / (first + second)
    return chart
