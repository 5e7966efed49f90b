"""The figures of the analyses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.analysis.appendix import beyond, one_step
from soundwhere.analysis.tables import new_figure
from soundwhere.analysis.theory import VARIANTS, Setting, climb, selection_chart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from soundwhere.analysis.protocols import Bin
    from soundwhere.metrics.bootstrap import Interval

    Values = NDArray[np.float64]

FIRST, SECOND, GREY = "#d1495b", "#2e6f95", "#8a8a8a"
_CHART: Final = 21  # points along each side of the chart
_FEW: Final = 9  # cells of a region are enough for it


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


def step_error(setting: Setting, sigmas: Sequence[float] = (0.0, 0.01, 0.05, 0.2)) -> Figure:
    """How far one step is from Theorem 1's, against the temperature: the noise leaves a floor."""
    taus = setting.tau * np.geomspace(0.05, 5, 60)
    figure = new_figure(10, 4)
    plain, variants = figure.subplots(1, 2)
    for number, sigma in enumerate(sigmas):
        steps = [one_step(replace(setting, sigma=sigma, tau=float(tau))) for tau in taus]
        off = [max(abs(step.first), abs(step.second), 1e-12) for step in steps]
        plain.loglog(taus, off, color=str(0.7 * number / max(1, len(sigmas) - 1)), label=f"sigma {sigma:g}")
    plain.axvline(setting.tau, color=GREY, lw=0.8, ls="--")
    plain.set(xlabel="tau", ylabel="error of one step / eta", title="mask held fixed, dot product", ylim=(1e-8, 1))
    plain.legend(fontsize=8)
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


def gap_over_steps(curve: Sequence[tuple[int, dict[str, dict[str, Interval]]]]) -> Figure:
    """Dominant and second source, and their difference, against the training step."""
    figure = new_figure(10, 3.6)
    steps = [step for step, _ in curve]
    for place, (column, name) in zip(
        figure.subplots(1, 3), {"cap": "CAP", "ciou@0.3": "CIoU@0.3", "auc": "AUC"}.items(), strict=True
    ):
        for source, colour in (("dominant", FIRST), ("second", SECOND)):
            cells = [figures[source][column] for _, figures in curve]
            place.plot(steps, [100 * cell.value for cell in cells], "o-", ms=3, color=colour, label=source)
            low, high = ([100 * getattr(cell, end) for cell in cells] for end in ("low", "high"))
            place.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0)
        place.set(xlabel="step of stage 1", title=f"{name} (%)", ylim=(0, None))
    figure.axes[0].legend(fontsize=8)
    return figure


def rows_with_intervals(rows: dict[str, dict[str, Interval]], title: str, axis: str) -> Figure:
    """Each row's answers as points with their intervals, in percent."""
    figure = new_figure(8, 0.5 + 0.42 * len(rows))
    place = figure.subplots()
    answers = list(next(iter(rows.values())))
    for number, answer in enumerate(answers):
        cells = [row[answer] for row in rows.values()]
        heights = np.arange(len(rows)) + 0.22 * (number - (len(answers) - 1) / 2)
        values = np.array([cell.value for cell in cells])
        errors = np.array([[v - c.low, c.high - v] for v, c in zip(values, cells, strict=True)]).T.clip(0)
        colour = (FIRST, GREY, SECOND)[number % 3]
        place.errorbar(100 * values, heights, xerr=100 * errors, fmt="o", ms=4, color=colour, label=answer)
    place.set_yticks(range(len(rows)), list(rows))
    place.invert_yaxis()
    place.set(xlabel=axis, title=title, xlim=(0, None))
    place.legend(fontsize=8)
    return figure


def error_figure(thresholds: Values, curves: dict[str, Values], chosen: float) -> Figure:
    """Misses and false alarms against the least confidence, in percent; dashed, the one that was chosen."""
    figure = new_figure(7, 4)
    place = figure.subplots()
    for (name, curve), colour in zip(curves.items(), (FIRST, SECOND, "#5b8c5a", GREY), strict=False):
        place.plot(thresholds, 100 * curve, color=colour, label=name)
    place.axvline(chosen, ls="--", lw=1, color="black")
    place.set(xlabel="least confidence", ylabel="share of maps (%)", xlim=(0, 1), ylim=(0, 100))
    place.legend(fontsize=8)
    return figure


def fill_figure(
    bins: Sequence[Bin], answers: Sequence[str], fill: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> Figure:
    """IoU against the fill ratio: a perfect mask under boxes, and each answer under masks and under boxes."""
    figure = new_figure(11, 4)
    curve, histogram = figure.subplots(1, 2, width_ratios=(3, 1))
    centres = [one.perfect for one in bins]
    curve.plot([0, 1], [0, 1], color="black", lw=1, label="true mask, scored by box")
    curve.plot([0, 1], [1, 1], color="black", lw=1, ls=":", label="true mask, scored by mask")
    for answer, colour in zip(answers, (FIRST, GREY), strict=False):
        for scored, style in (("by_mask", ":"), ("by_box", "-")):
            cells = [getattr(one, scored)[answer] for one in bins]
            errors = np.array([[c.value - c.low, c.high - c.value] for c in cells]).T.clip(0)
            words = f"{answer}, scored {scored.replace('_', ' ')}"
            values = [cell.value for cell in cells]
            curve.errorbar(centres, values, yerr=errors, fmt="o" + style, ms=4, color=colour, label=words)
    curve.set(xlabel="share of its box that an object fills", ylabel="IoU", xlim=(0, 1), ylim=(0, 1.03))
    curve.legend(fontsize=8, loc="upper left")
    histogram.hist(fill, bins=np.linspace(0, 1, 21).tolist(), color=GREY)
    histogram.set(xlabel="fill ratio", ylabel="objects", xlim=(0, 1))
    return figure


def theory_figures(setting: Setting) -> dict[str, Figure]:
    """All figures of the appendix by name."""
    return {
        "theory-trajectories": trajectories(setting),
        "theory-one-step": step_error(setting),
        "theory-chart": charts(setting),
    }
