"""What of the appendix can be checked by numbers, checked and drawn: Lemmas 1 and 2, Proposition 1, Theorem 1."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import expit

from soundwhere.analysis.report import FIRST, GREY, SECOND, Report
from soundwhere.analysis.theory import (
    APPENDIX,
    TRAINING,
    VARIANTS,
    Variant,
    climb,
    features,
    positive_score,
    selection_chart,
    soft_mask,
    strengths,
)
from soundwhere.evaluation.page import new_figure
from soundwhere.metrics.report import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from soundwhere.analysis.setting import Setting

    Vector = NDArray[np.float64]

TAUS: Final = (1.0, 1 / 3, 0.1, 0.01)  # of the setting's temperature
_CHART: Final = 21  # points along each side of the chart
_FEW: Final = 9  # cells of a region are enough for it
_SIGMAS: Final = (0.0, 0.01, 0.05, 0.2)  # of the noise, for which one step is drawn
_UNEVEN: Final = 0.5  # spread of matching strengths for which Lemma 2 is tried again


@dataclass(frozen=True)
class Check:
    """One statement and what the numbers say.

    Attributes:
        claim: What is stated, and by whom.
        measured: What was found.
        holds: Whether it holds here; None where its condition is not met, so that nothing is claimed.
    """

    claim: str
    measured: str
    holds: bool | None


@dataclass(frozen=True)
class OneStep:
    """One step of gradient ascent beside Theorem 1's.

    Attributes:
        tau: Temperature of the mask.
        first: (change of c1) / eta - mean beta1; 0 by the theorem.
        second: (change of c2) / eta; 0 by the theorem.
        leak: Share of the mask's weight that is not on region 1.
    """

    tau: float
    first: float
    second: float
    leak: float


def one_step(setting: Setting, variant: Variant = APPENDIX) -> OneStep:
    """What one step changes, beside what Theorem 1 says."""
    score = positive_score(setting.start, features(setting), setting.threshold, setting.tau, variant)
    first, second = score.gradient[:2]
    leak = score.weights[setting.regions[1]].sum()
    return OneStep(setting.tau, float(first - setting.beta[0]), float(second), float(leak))


def margin(setting: Setting) -> float:
    """Lemma 2's delta: how far the threshold lies inside the gap of the two regions; negative if it does not."""
    return min(setting.gains[0] - setting.threshold, setting.threshold - setting.gains[1])


def beyond(setting: Setting) -> tuple[float, float]:
    """A threshold below both regions' similarities and one above both, with the dot product and with the cosine."""
    cosine = np.array(setting.alpha) / np.linalg.norm(setting.alpha)
    return 0.5 * min(setting.gains[1], float(cosine[1])), 1.5 * max(setting.gains[0], float(cosine[0]))


def appendix_checks(setting: Setting, draws: int = 200) -> list[Check]:
    """Every statement of the appendix that numbers can speak to, and where each stops holding.

    Args:
        setting: The data model.
        draws: How many draws of the noise the lemmas are checked on.
    """
    drawn = [replace(setting, seed=setting.seed + number) for number in range(draws)]
    return [
        _lemma_one(drawn),
        _proposition_one(drawn),
        _lemma_two(drawn),
        _lemma_two(drawn, _UNEVEN),
        *_theorem_one(setting),
        _one_step_variant(setting, Variant(through_mask=True), "the gradient through the mask"),
        _one_step_variant(setting, Variant(normalise=True), "normalisation"),
        *_many_steps(setting),
        *_without_the_condition(setting),
    ]


def _lemma_one(drawn: list[Setting]) -> Check:
    noise = np.stack([_similarity(each) - np.repeat(each.alpha, each.cells) * strengths(each) for each in drawn])
    bound, sharper = drawn[0].noise_bound, drawn[0].sigma * float(np.linalg.norm(drawn[0].alpha))
    worst = float(np.abs(noise).max())
    return Check(
        "Lemma 1: S = alpha beta + xi, |xi| <= sigma (alpha1 + alpha2)",
        f"largest |xi| {worst:.2e} in {len(drawn)} draws; bound {bound:.2e}; "
        f"Cauchy-Schwarz gives sigma ||a|| = {sharper:.2e}",
        worst <= sharper + 1e-12,
    )


def _proposition_one(drawn: list[Setting]) -> Check:
    setting = drawn[0]
    means = np.array([[_similarity(each)[region].mean() for region in each.regions] for each in drawn])
    right = float((means[:, 0] > means[:, 1]).mean())
    off = float(np.abs(means - setting.gains).max())
    return Check(
        "Proposition 1: mean S of region 1 > mean S of region 2, about g1 and g2",
        f"g1 {setting.gains[0]:.3f}, g2 {setting.gains[1]:.3f}; region 1 leads in {100 * right:.0f} % of draws; "
        f"means off by at most {off:.1e} (certain only if g1 - g2 > 2 sigma ||a||)",
        right == 1.0,
    )


def _lemma_two(drawn: list[Setting], spread: float | None = None) -> Check:
    """The mask's error on each region as the temperature falls; with uneven strengths the means stay as they were."""
    setting = drawn[0]
    uneven = "" if spread is None else f", strengths within +-{100 * spread:.0f} % of their mean"
    claim = f"Lemma 2{uneven}: the mask is at least 1 - eps on region 1 and at most eps on region 2, eps -> 0 with tau"
    inside = margin(setting)
    if inside <= 0:
        return Check(claim, f"the threshold {setting.threshold:g} is not between g1 and g2", None)
    uneven_draws = [replace(each, spread=spread or each.spread) for each in drawn]
    similarities = [_similarity(each) for each in uneven_draws]  # which do not depend on the temperature
    errors = [
        max(_mask_error(each, seen, share * each.tau) for each, seen in zip(uneven_draws, similarities, strict=True))
        for share in TAUS
    ]
    listed = ", ".join(f"{error:.1e} at tau {share * setting.tau:g}" for share, error in zip(TAUS, errors, strict=True))
    certain = inside - setting.sigma * float(np.linalg.norm(setting.alpha))
    bound = float(expit(-certain / setting.tau))
    known = "" if spread or setting.spread else f"; the first is bounded by {bound:.1e}"
    return Check(claim, f"delta {inside:.3f}; eps {listed}{known}", errors[-1] < 1e-6)


def _theorem_one(setting: Setting) -> list[Check]:
    claim = "Theorem 1, one step: c1 grows by eta beta1 and c2 by 0, up to"
    if margin(setting) <= 0:
        nothing = "the threshold is not between g1 and g2"
        return [Check(f"{claim} O(eps), eps -> 0 with tau (statement)", nothing, None)]
    steps = [one_step(replace(setting, tau=share * setting.tau)) for share in TAUS]
    off = [max(abs(step.first), abs(step.second)) for step in steps]
    allowed = [step.leak * max(setting.beta) + setting.sigma for step in steps]
    listed = ", ".join(f"{error:.1e} at tau {step.tau:g}" for error, step in zip(off, steps, strict=True))
    return [
        Check(
            f"{claim} O(eps), eps -> 0 with tau (statement)",
            f"error / eta {listed}: with noise it stays",
            off[-1] < 1e-6,
        ),
        Check(
            f"{claim} eta (leak x beta + sigma) (what its proof gives)",
            ", ".join(f"{error:.1e} <= {most:.1e}" for error, most in zip(off, allowed, strict=True)),
            all(error <= most for error, most in zip(off, allowed, strict=True)) if not setting.spread else None,
        ),
    ]


def _one_step_variant(setting: Setting, variant: Variant, left_out: str) -> Check:
    quiet = replace(setting, sigma=0.0)
    without, with_it = one_step(quiet, APPENDIX), one_step(quiet, variant)
    return Check(
        f"Theorem 1 with {left_out}, which it leaves out: c2 stays",
        f"change of c2 / eta, no noise: {without.second:+.3f} without it, {with_it.second:+.3f} with it",
        abs(with_it.second) < 0.01,
    )


def _many_steps(setting: Setting) -> list[Check]:
    """Theorem 1 is about one step; the appendix's steps 4 and 5 are about many."""
    checks = []
    for variant, share in ((APPENDIX, 1.0), (APPENDIX, 0.1), (TRAINING, 1.0)):
        used = replace(setting, tau=share * setting.tau)
        path = climb(used, variant)
        (c1, c2), (d1, d2) = path.coefficients[[0, -1]]
        checks.append(
            Check(
                f"Convergence to c1 >> c2 ({variant.name}, tau {used.tau:g})",
                f"in {setting.steps} steps c1 {c1:.2f} -> {d1:.2f}, c2 {c2:.2f} -> {d2:.2f}; mask on region 1 "
                f"{100 * path.share[0]:.1f} % -> {100 * path.share[-1]:.1f} %",
                path.selects if margin(setting) > 0 else None,
            )
        )
    return checks


def _without_the_condition(setting: Setting) -> list[Check]:
    below, above = beyond(setting)
    checks = []
    for threshold, words, expected in ((below, "below", "no selection"), (above, "above", "no selection either")):
        paths = {variant.name: climb(replace(setting, threshold=threshold), variant) for variant in VARIANTS}
        selecting = [name for name, path in paths.items() if path.selects]
        checks.append(
            Check(
                f"Threshold {words} both regions ({threshold:.2f}), so that Lemma 2's condition fails: {expected}",
                f"{len(selecting)} of {len(paths)} variants select source 1",
                not selecting,
            )
        )
    return checks


def _similarity(setting: Setting) -> Vector:
    return positive_score(setting.start, features(setting), setting.threshold, setting.tau, APPENDIX).similarity


def _mask_error(setting: Setting, similarity: Vector, tau: float) -> float:
    """Lemma 2's eps: the larger of the mask's shortfall on region 1 and its excess on region 2."""
    mask = soft_mask(similarity, setting.threshold, tau)
    first, second = setting.regions
    return max(1 - float(mask[first].mean()), float(mask[second].mean()))


def theory_results(setting: Setting) -> Report:
    """Every statement with its verdict, and the trajectories of c1 and c2."""
    verdicts = {True: "holds", False: "does not hold", None: "not claimed"}
    checks = appendix_checks(setting)
    lines = tuple((check.claim, verdicts[check.holds], check.measured) for check in checks)
    paths = {variant.name: climb(setting, variant) for variant in VARIANTS}
    values = {
        "checks": [asdict(check) for check in checks],
        "trajectories": {
            name: {
                "c1": path.coefficients[:, 0].tolist(),
                "c2": path.coefficients[:, 1].tolist(),
                "mask_on_region_1": path.share.tolist(),
                "selects": path.selects,
            }
            for name, path in paths.items()
        },
    }
    figures = {
        "theory-trajectories": lambda: trajectories(setting),
        "theory-one-step": lambda: step_error(setting),
        "theory-chart": lambda: charts(setting),
    }
    return Report([Table("The appendix, checked", ("statement", "verdict", "measured"), lines)], values, figures)


def trajectories(setting: Setting) -> Figure:
    """c1 and c2 over the steps: one row for each threshold, one column for each variant of the gradient."""
    below, above = beyond(setting)
    rows = {
        f"threshold {below:.2f}\nbelow both regions": replace(setting, threshold=below),
        f"threshold {setting.threshold:.2f}\ntau {setting.tau:g}": setting,
        f"threshold {setting.threshold:.2f}\ntau {0.1 * setting.tau:g}": replace(setting, tau=0.1 * setting.tau),
        f"threshold {above:.2f}\nabove both regions": replace(setting, threshold=above),
    }
    figure = new_figure(12, 9)
    axes = figure.subplots(len(rows), len(VARIANTS), sharex=True)
    steps = np.arange(setting.steps + 1)
    for line, (label, used) in zip(axes, rows.items(), strict=True):
        for place, variant in zip(line, VARIANTS, strict=True):
            path = climb(used, variant)
            if not variant.normalise:
                place.plot(steps, setting.alpha[0] + setting.rate * setting.beta[0] * steps, ":", color=FIRST, lw=1)
                place.plot(steps, np.full(len(steps), setting.alpha[1]), ":", color=SECOND, lw=1)
            place.plot(steps, path.coefficients[:, 0], color=FIRST, label="c1")
            place.plot(steps, path.coefficients[:, 1], color=SECOND, label="c2")
            place.set_ylim(-0.05, 1.05 if variant.normalise else None)
            verdict = "selects" if path.selects else "no selection"
            place.text(0.97, 0.5, verdict, transform=place.transAxes, ha="right", va="center", fontsize=9)
        line[0].set_ylabel(label)
    for place, variant in zip(axes[0], VARIANTS, strict=True):
        place.set_title(variant.name.replace(", ", "\n"), fontsize=10)
    for place in axes[-1]:
        place.set_xlabel("step")
    axes[0, 0].legend(loc="lower right", fontsize=8, title="dotted: Theorem 1", title_fontsize=8)
    return figure


def step_error(setting: Setting) -> Figure:
    """How far one step is from Theorem 1's, against the temperature: the noise leaves a floor."""
    taus = setting.tau * np.geomspace(0.05, 5, 60)
    figure = new_figure(10, 4)
    fixed, variants = figure.subplots(1, 2)
    for number, sigma in enumerate(_SIGMAS):
        steps = [one_step(replace(setting, sigma=sigma, tau=float(tau))) for tau in taus]
        off = [max(abs(step.first), abs(step.second), 1e-12) for step in steps]
        fixed.loglog(taus, off, color=str(0.7 * number / (len(_SIGMAS) - 1)), label=f"sigma {sigma:g}")
    fixed.axvline(setting.tau, color=GREY, lw=0.8, ls="--")
    fixed.set(xlabel="tau", ylabel="error of one step / eta", title="mask held fixed, dot product", ylim=(1e-8, 1))
    fixed.legend(fontsize=8)
    for variant, style in zip(VARIANTS, ("-", "--", "-", "--"), strict=True):
        steps = [one_step(replace(setting, sigma=0.0, tau=float(tau)), variant) for tau in taus]
        colour = SECOND if variant.normalise else GREY
        variants.semilogx(taus, [step.second for step in steps], style, color=colour, label=variant.name)
    variants.axvline(setting.tau, color=GREY, lw=0.8, ls="--")
    variants.set(xlabel="tau", ylabel="change of c2 / eta", title="c2 in one step, without noise (Theorem 1: 0)")
    variants.legend(fontsize=8)
    return figure


def charts(setting: Setting) -> Figure:
    """Where selection happens: every threshold against every initial ratio of the two sources."""
    few = replace(setting, cells=(min(_FEW, setting.cells[0]), min(_FEW, setting.cells[1])))
    thresholds, ratios = np.linspace(0.02, 1.1, _CHART), np.linspace(0.02, 0.98, _CHART)
    figure = new_figure(13, 3.6)
    axes = figure.subplots(1, len(VARIANTS), sharey=True)
    first, second = setting.alpha[0] * setting.beta[0], setting.alpha[0] * setting.beta[1] * ratios
    for place, variant in zip(axes, VARIANTS, strict=True):
        chart = selection_chart(few, variant, thresholds, ratios)
        picture = place.pcolormesh(ratios, thresholds, chart, vmin=0, vmax=1, cmap="viridis", shading="nearest")
        lines = (1 / np.hypot(1, ratios), ratios / np.hypot(1, ratios)) if variant.normalise else (first, second)
        for line in lines:
            place.plot(ratios, np.broadcast_to(line, ratios.shape), "w--", lw=1)
        place.set(xlabel="alpha2 / alpha1", title=variant.name.replace(", ", "\n"), ylim=(0, 1.12))
        place.plot(setting.alpha[1] / setting.alpha[0], setting.threshold, "o", mfc="none", mec="white")
    axes[0].set_ylabel("threshold")
    figure.colorbar(picture, ax=list(axes), label="(c1 - c2) / (c1 + c2) at the end")
    return figure
