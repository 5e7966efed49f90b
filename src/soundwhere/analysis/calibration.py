"""From which confidence on a source counts as sounding: false alarms against misses, on scenes not trained on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere.analysis.report import FIRST, GREY, SECOND, Report
from soundwhere.errors import DataError
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.page import new_figure
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.scoring import evaluate
from soundwhere.evaluation.summary import as_json, nothing_heard
from soundwhere.evaluation.tables import INTERVALS
from soundwhere.metrics.counting import MISSES, WRONGLY_DARK, best_threshold, count_right, dark_below
from soundwhere.metrics.listening import auroc, mean_interval
from soundwhere.metrics.presets import find_preset
from soundwhere.metrics.report import Table, figures_table, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from soundwhere.evaluation.rows import Control
    from soundwhere.methods.method import Network
    from soundwhere.metrics.bootstrap import Interval
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Scene

    Values = NDArray[np.float64]
    Sure = dict[str, Values]  # how sure each map is, by what is heard

OWN, ABSENT, SWAPPED, SILENCE = "own sound", "absent sound", "swapped sound", "silence"
_WRONG: Final[dict[str, Control]] = {ABSENT: "absent", SWAPPED: "shuffled", SILENCE: "silent"}
_COUNTED: Final[tuple[Control, ...]] = ("own", "alone", "nothing", "silent")
_COUNT_WORDS: Final = {
    "two": "both sounds: two are counted",
    "one": "either sound alone: one is counted",
    "nothing": "absent sounds and noise: nothing is counted",
    "balanced": "all three alike: the count is right",
    "second": "either sound alone: a second source is shown",
    "lone": "either sound and its frame alone: a second source is shown",
    "absent": "absent sound: something lights",
    "absent_at_misses": f"absent sound: something lights where {100 * MISSES:.0f} % of sources are missed",
    "white": "white noise: something lights",
    "pink": "pink noise: something lights",
    "silent": "silence: something lights",
}
_DARK_WORDS: Final = {
    "own": "both sounds",
    "alone": "either sound alone",
    "nothing": "absent sounds and noise",
    "silent": "silence",
}
_POINTS: Final = 101  # of the curves
_HEARD = (
    "Swapped: the sound of the scene half the list away, which may fit the picture. Absent: of classes that are not in "
    "the picture. The Localiser also asks for a least level, which silence never reaches."
)


@dataclass(frozen=True)
class Confidences:
    """How sure each of K maps is on N scenes, with the right sound and without.

    Attributes:
        own: With the scene's own sound, shape (N, K).
        wrong: By kind of wrong sound, shape (N, K) each: that of a scene that shares no class with the picture, that of
            the scene half the list away, and silence. NaN where there is none.
    """

    own: Values
    wrong: dict[str, Values]

    def __getitem__(self, scenes: NDArray[np.bool_]) -> Confidences:
        """Some of the scenes."""
        return Confidences(self.own[scenes], {kind: values[scenes] for kind, values in self.wrong.items()})

    @property
    def chosen_by(self) -> tuple[str, ...]:
        """The wrong sounds that decide: a swapped one may fit the picture, so absent classes are better if known."""
        known = not np.isnan(self.wrong[ABSENT]).all()
        return (ABSENT if known else SWAPPED, SILENCE)


def confidences(
    network: Network,
    scenes: Sequence[Scene],
    names: Sequence[str],
    grid: Grid,
    *,
    tick: Callable[[int, int], None] | None = None,
) -> Confidences:
    """Ask a network about every scene with its own sound, with wrong ones and in silence.

    Args:
        network: In eval mode.
        scenes: At least two.
        names: Their names.
        grid: Rows and columns of frames in the pictures.
        tick: Called with the number of scenes done and that of all.

    Raises:
        DataError: There are fewer than two scenes.
    """
    if len(scenes) < 2:
        raise DataError(
            f"{len(scenes)} scenes are too few to calibrate on.", "Give at least 2, preferably some hundred."
        )
    sure = _sure(network, scenes, names, grid, ("own", *_WRONG.values()), tick)
    wrong = {kind: sure[control] for kind, control in _WRONG.items()}
    unknown = np.full_like(sure["own"], np.nan)
    return Confidences(sure["own"], {kind: each if each.size else unknown for kind, each in wrong.items()})


def counts(
    network: Network,
    scenes: Sequence[Scene],
    names: Sequence[str],
    grid: Grid,
    *,
    tick: Callable[[int, int], None] | None = None,
) -> Sure:
    """Ask a network that counts about every scene with its own sounds, one of them, those of nothing seen, and none.

    The arguments are those of `confidences`; what is returned is what `count_right` takes.
    """
    return _sure(network, scenes, names, grid, _COUNTED, tick)


def _sure(
    network: Network,
    scenes: Sequence[Scene],
    names: Sequence[str],
    grid: Grid,
    controls: Sequence[Control],
    tick: Callable[[int, int], None] | None,
) -> Sure:
    """How sure a network is of each of its maps under some controls, shape (N, K) each; empty where there are none."""
    rows = {control: Row("model", control) for control in controls}
    asked = NetworkAnswerer("model", network, grid, rows=list(rows.values()))
    found = evaluate(scenes, names, [asked], find_preset("scav"), grid, measures=("light",), tick=tick)
    return {control: found.scores[row].sure for control, row in rows.items()}


def joined(found: Sequence[Sure]) -> Sure:
    """What was found of several lists of scenes, as if they were one."""
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def counting_results(
    chosen: Sure, reported: Sure, chosen_on: str, reported_on: str, most_second: float = 1.0
) -> tuple[float, Report]:
    """The threshold at which counts are right most often on some scenes, and how often they are on others."""
    threshold = best_threshold(chosen, nothing_heard(chosen), most_second)
    found = count_right(reported, nothing_heard(reported), threshold)
    chosen_by = (
        f"A source counts as sounding from a confidence of {threshold:.3f}, where the number of sources is right most "
        f"often on {chosen_on}, balanced over nothing, one and two"
        + ("." if most_second == 1 else f", and one alone gets a second source in at most {100 * most_second:g} %.")
    )
    where = f"Share of scenes (%) on {reported_on}. {INTERVALS}"
    rows = {_COUNT_WORDS[name]: {"share": rate} for name, rate in found.items()}
    table = figures_table("Nothing, one or two", rows, {"share": "share of scenes"}, chosen_by, where, first="heard")
    values = {"least_confidence": threshold, "chosen_on": chosen_on, "reported_on": reported_on}
    dark, stays_dark = _darkness(chosen, reported, chosen_on, where)
    return threshold, Report([table, stays_dark], {"counting": {**values, **as_json(found)}, "dark": dark})


def _darkness(chosen: Sure, reported: Sure, chosen_on: str, where: str) -> tuple[dict[str, Any], Table]:
    """Below which confidence of its first source a picture may stay dark, and how often pictures then do."""
    below = dark_below(chosen)
    known = {name: values[~np.isnan(values[:, 0]), 0] for name, values in reported.items()}
    found = {name: mean_interval((values < below).astype(float)) for name, values in known.items() if len(values)}
    rows = {_DARK_WORDS[name]: {"share": rate} for name, rate in found.items()}
    chosen_by = (
        f"A picture may stay dark where the first source's confidence is below {below:.3f} (the setting `dark`): half "
        f"of what all but {100 * WRONGLY_DARK:g} % of the scenes reach with both their sounds on {chosen_on}."
    )
    table = figures_table("Dark pictures", rows, {"share": "share of scenes"}, chosen_by, where, first="heard")
    return {"below": below, **as_json(found)}, table


def choose_threshold(found: Confidences) -> float:
    """The confidence at which misses are as frequent as false alarms, the mean over the kinds of wrong sound.

    A map is missed if it is below the threshold with its own sound; it is a false alarm if it reaches it with a wrong
    one.
    """
    candidates = np.unique(np.concatenate([found.own, *(found.wrong[kind] for kind in found.chosen_by)]))
    candidates = candidates[~np.isnan(candidates)]
    middles = np.concatenate([candidates[:1], (candidates[1:] + candidates[:-1]) / 2, candidates[-1:] + 1e-6])
    missed = _below(found.own, middles)
    alarmed = np.mean([1 - _below(found.wrong[kind], middles) for kind in found.chosen_by], axis=0)
    gaps = np.abs(missed - alarmed)
    best = np.flatnonzero(gaps == gaps.min())
    return float(middles[best[np.argmin((missed + alarmed)[best])]])


def _below(values: Values, thresholds: Values) -> Values:
    """Share of the values, NaN left out, below each threshold."""
    ordered = np.sort(values[~np.isnan(values)])
    return np.searchsorted(ordered, thresholds) / max(1, len(ordered))


@dataclass(frozen=True)
class Calibration:
    """A threshold and what it does on scenes that it was not chosen on.

    Attributes:
        least_confidence: The threshold.
        chosen_on: Where it was chosen, in words.
        reported_on: Where the rates come from, in words.
        miss: Share of maps below it with the right sound.
        false_alarms: Share of maps that reach it, by kind of wrong sound.
        auroc: Chance that a map is surer of the right sound than of a wrong one, by kind.
    """

    least_confidence: float
    chosen_on: str
    reported_on: str
    miss: Interval
    false_alarms: dict[str, Interval]
    auroc: dict[str, float]


def calibrate(chosen: Confidences, reported: Confidences, chosen_on: str, reported_on: str) -> Calibration:
    """Choose the threshold on some scenes and report its rates on others."""
    threshold = choose_threshold(chosen)
    return _calibration(threshold, reported, np.full(len(reported.own), threshold), chosen_on, reported_on)


def cross_calibrate(found: Confidences, where: str) -> Calibration:
    """Choose the threshold on all scenes, and report what those chosen on one half do on the other, both ways."""
    even = np.arange(len(found.own)) % 2 == 0
    used = np.where(even, choose_threshold(found[~even]), choose_threshold(found[even]))
    return _calibration(choose_threshold(found), found, used, where, f"{where}, each half by the other's threshold")


def _calibration(
    threshold: float, reported: Confidences, used: Values, chosen_on: str, reported_on: str
) -> Calibration:
    """Rates with 95 % intervals by bootstrap over scenes; `used` is the threshold of each scene."""

    def lit(values: Values) -> Values:
        known = ~np.isnan(values[:, 0])
        shares: Values = (values[known] >= used[known, None]).mean(1)
        return shares

    asked = {kind: values for kind, values in reported.wrong.items() if not np.isnan(values[:, 0]).all()}
    return Calibration(
        threshold,
        chosen_on,
        reported_on,
        mean_interval(1 - lit(reported.own)),
        {kind: mean_interval(lit(values)) for kind, values in asked.items()},
        {kind: auroc(reported.own.ravel(), values[~np.isnan(values)]) for kind, values in asked.items()},
    )


def calibration_results(result: Calibration, found: Confidences) -> Report:
    """The rates, and misses and false alarms against every threshold."""
    thresholds, curves = error_curve(found)
    values = {
        "calibration": asdict(result),
        "curves": {"threshold": thresholds.tolist(), **{name: curve.tolist() for name, curve in curves.items()}},
    }
    figure = {"calibration": lambda: _error_figure(thresholds, curves, result.least_confidence)}
    return Report([calibration_table(result)], values, figure)


def calibration_table(found: Calibration) -> Table:
    """The rates in words and numbers."""
    alarms = found.false_alarms.items()
    lines = [(kind, "false alarm", percent(rate), f"{100 * found.auroc[kind]:.1f}") for kind, rate in alarms]
    chosen = (
        f"A source counts as sounding from a confidence of {found.least_confidence:.3f}, chosen on {found.chosen_on} "
        "where misses and false alarms are as frequent."
    )
    reported = (
        f"Share of maps (%) on {found.reported_on}. {INTERVALS} AUROC: of the confidence against "
        "that with the scene's own sound; 50 is chance."
    )
    rows = ((OWN, "miss", percent(found.miss), "-"), *lines)
    return Table("Sounding or not", ("heard", "rate", "share", "AUROC"), rows, (chosen, reported, _HEARD))


def error_curve(found: Confidences) -> tuple[Values, dict[str, Values]]:
    """Thresholds from 0 to 1, and at each the miss rate and the false-alarm rate of every kind."""
    thresholds = np.linspace(0, 1, _POINTS)
    curves = {"miss": _below(found.own, thresholds)}
    for kind, values in found.wrong.items():
        if not np.isnan(values).all():
            curves[f"false alarm, {kind}"] = 1 - _below(values, thresholds)
    return thresholds, curves


def _error_figure(thresholds: Values, curves: dict[str, Values], chosen: float) -> Figure:
    """Misses and false alarms against the least confidence, in percent; dashed, the one that was chosen."""
    figure = new_figure(7, 4)
    place = figure.subplots()
    for (name, curve), colour in zip(curves.items(), (FIRST, SECOND, "#5b8c5a", GREY), strict=False):
        place.plot(thresholds, 100 * curve, color=colour, label=name)
    place.axvline(chosen, ls="--", lw=1, color="black")
    place.set(xlabel="least confidence", ylabel="share of maps (%)", xlim=(0, 1), ylim=(0, 100))
    place.legend(fontsize=8)
    return figure
