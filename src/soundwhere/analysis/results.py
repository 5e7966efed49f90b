"""The tables of the analyses, and the numbers behind them as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere.analysis.convergence import OTHER_SOUND, PAPER, by_dominance
from soundwhere.analysis.protocols import fill_curve
from soundwhere.analysis.tables import Table, plain, share
from soundwhere.analysis.winners import AUDIBLE_DB, DB_STEP, agreements, predict
from soundwhere.metrics.bootstrap import Interval, intervals, paired_differences
from soundwhere.metrics.presets import PRESETS
from soundwhere.metrics.report import figure_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.analysis.appendix import Check
    from soundwhere.analysis.convergence import Observations
    from soundwhere.analysis.protocols import BoxedObjects, Comparison
    from soundwhere.metrics.pairs import PairScores

    Figures = dict[str, Interval]

COLUMNS = ("cap", "ciou@0.3", "auc")
_SCENES = "Intervals: 95 %, bootstrap over scenes."
_ANY_MAP = (
    "Which source is dominant is decided by the truth, scene by scene: any single map shows a gap. "
    f"`{OTHER_SOUND}`: the same model hears the scene before."
)
_ODDS = (
    f"How often (%) the louder (by more than {AUDIBLE_DB:g} dB), the larger and the left source is dominant; and what "
    f"its odds are multiplied by if it is {DB_STEP:g} dB louder, twice as large, left instead of right, all else equal "
    f"(logistic regression with a weak ridge). {_SCENES}"
)
_AGREE = (
    "Share of scenes (%) with the same dominant source; chance: if each chose left as often as it does, but "
    f"independently. {_SCENES}"
)
_FILL = (
    "Mean IoU in percent. Fill ratio: share of its tightest box that an object covers, which is also the IoU of its "
    "true mask against that box. Gain: IoU by box minus IoU by mask. Intervals: 95 %, bootstrap over objects."
)


def gap(pairs: PairScores) -> dict[str, Figures]:
    """CAP, CIoU@0.3 and AUC of the dominant source, of the second, and the first minus the second, paired."""
    dominant, second = by_dominance(pairs)
    rows = {
        "dominant": intervals(dominant),
        "second": intervals(second),
        "gap": paired_differences(dominant, second),
    }
    return {name: {column: figures[column] for column in COLUMNS} for name, figures in rows.items()}


def convergence_results(observations: Observations) -> tuple[list[Table], dict[str, Any]]:
    """Dominant against second source, what predicts which wins, and who agrees with whom."""
    gaps = {name: gap(pairs) for name, pairs in observations.pairs.items()}
    rows = [("the paper, on VGGSound-Duet", source, *_percents(PAPER[source])) for source in PAPER]
    rows.append(
        ("", "gap", *_percents({column: PAPER["dominant"][column] - PAPER["second"][column] for column in COLUMNS}))
    )
    for name, figures in gaps.items():
        for number, (source, cells) in enumerate(figures.items()):
            rows.append(("" if number else name, source, *(share(cells[column]) for column in COLUMNS)))
    counted = f"{len(observations.names)} scenes, {observations.left_out} left out without exactly two sources."
    notes = (f"{counted} In percent, frame-wise, minmax-0.5. {_SCENES}", _ANY_MAP)
    head = ("answer", "source", *map(figure_name, COLUMNS))
    predictors = {name: predict(observations, name) for name in observations.pairs}
    agreed = agreements(observations)
    tables = [
        Table("Dominant against second source", head, tuple(rows), notes),
        Table(
            "What predicts which source wins",
            ("answer", "louder wins", "larger wins", "left wins", "odds, louder", "odds, larger", "odds, left"),
            tuple(
                (
                    name,
                    share(p.louder),
                    share(p.larger),
                    share(p.left),
                    *map(plain, (p.odds_louder, p.odds_larger, p.odds_left)),
                )
                for name, p in predictors.items()
            ),
            (_ODDS,),
        ),
        Table(
            "Whether the same source wins",
            ("answers", "agree", "chance", "kappa"),
            tuple(
                (
                    f"{each.first} / {each.second}",
                    share(each.share),
                    f"{100 * each.chance:.1f}",
                    "-" if each.kappa is None else f"{each.kappa:.2f}",
                )
                for each in agreed
            ),
            (_AGREE,),
        ),
    ]
    values = {
        "scenes": len(observations.names),
        "left_out": observations.left_out,
        "paper": PAPER,
        "gaps": _plain(gaps),
        "predictors": {name: asdict(each) for name, each in predictors.items()},
        "agreements": [asdict(each) for each in agreed],
        "scene_names": list(observations.names),
        "left_wins": {name: observations.left_wins(name).tolist() for name in observations.pairs},
    }
    return tables, values


def steps_table(curve: Sequence[tuple[int, dict[str, Figures]]]) -> Table:
    """The gap against the training step."""
    rows = tuple(
        (str(step), *(share(figures[source]["ciou@0.3"]) for source in figures), share(figures["gap"]["cap"]))
        for step, figures in curve
    )
    head = ("step", "dominant, CIoU@0.3", "second, CIoU@0.3", "gap, CIoU@0.3", "gap, CAP")
    return Table("The gap over the steps of stage 1", head, rows, (f"In percent. {_SCENES}",))


def protocols_results(comparison: Comparison) -> tuple[list[Table], dict[str, Any]]:
    """Every preset side by side, and boxes against masks."""
    scored = {
        name: {answer: intervals(pairs, PRESETS[name].levels, PRESETS[name].meaning) for answer, pairs in rows.items()}
        for name, rows in comparison.presets.items()
    }
    columns = ("cap", "ciou@0.1", "ciou@0.3", "ciou@0.5", "auc", "mean_iou")
    rows = [
        ("" if number else name, answer, *(share(figures.get(column)) for column in columns))
        for name, answers in scored.items()
        for number, (answer, figures) in enumerate(answers.items())
    ]
    notes = (
        f"In percent; a dash where a preset reports no such figure. {_SCENES}",
        *(f"- {name}: {_rules(name)}" for name in scored),
    )
    tables = [
        Table("One answer under every preset", ("preset", "answer", *map(figure_name, columns)), tuple(rows), notes)
    ]
    values: dict[str, Any] = {
        "presets": {
            name: {"choices": asdict(PRESETS[name]), "figures": _plain(answers)} for name, answers in scored.items()
        }
    }
    if comparison.boxed is not None:
        table, boxed = _box_results(comparison.boxed)
        tables.append(table)
        values["boxes"] = boxed
    return tables, values


def _box_results(objects: BoxedObjects) -> tuple[Table, dict[str, Any]]:
    bins = fill_curve(objects)
    answers = list(objects.by_mask)
    rows = [
        (
            f"{one.low:g} to {one.high:g}",
            str(one.count),
            f"{100 * one.perfect:.1f}",
            f"{100 * (1 - one.perfect):.1f}",
            *(text for answer in answers for text in (share(one.by_mask[answer]), share(one.gain[answer]))),
        )
        for one in bins
    ]
    failing = {level: float((objects.fill < level).mean()) for level in (0.3, 0.5)}
    correlations = {answer: objects.rank_correlation(answer) for answer in answers}
    head = (
        "fill ratio",
        "objects",
        "true mask by box",
        "lost",
        *(f"{a}{w}" for a in answers for w in (" by mask", ", gain by box")),
    )
    fails = " and ".join(f"CIoU@{level:g} on {100 * value:.1f} %" for level, value in failing.items())
    ranks = ", ".join(f"{a} {'-' if c is None else format(c, '+.2f')}" for a, c in correlations.items())
    counted = f"{len(objects.fill)} objects, mean fill ratio {100 * objects.fill.mean():.1f} %."
    notes = (
        _FILL,
        f"{counted} Scored by box, true masks fail {fails}.",
        f"Rank correlation of fill ratio and gain: {ranks}.",
    )
    values = {
        "objects": len(objects.fill),
        "mean_fill": float(objects.fill.mean()),
        "true_mask_fails": {f"ciou@{level:g}": value for level, value in failing.items()},
        "rank_correlation": correlations,
        "bins": [asdict(one) for one in bins],
        "fill": np.round(objects.fill, 4).tolist(),
    }
    return Table("IoU lost to the box", head, tuple(rows), notes), values


def theory_results(checks: Sequence[Check]) -> tuple[list[Table], dict[str, Any]]:
    """Every statement with its verdict."""
    verdicts = {True: "holds", False: "does not hold", None: "not claimed"}
    rows = tuple((check.claim, verdicts[check.holds], check.measured) for check in checks)
    return [Table("The appendix, checked", ("statement", "verdict", "measured"), rows)], {
        "checks": [asdict(check) for check in checks]
    }


def _percents(figures: dict[str, float]) -> tuple[str, ...]:
    return tuple(f"{100 * figures[column]:.1f}" for column in COLUMNS)


def _plain(nested: dict[str, dict[str, Figures]] | dict[str, Figures]) -> dict[str, Any]:
    return {
        key: asdict(value) if isinstance(value, Interval) else _plain(value)  # type: ignore[arg-type]
        for key, value in nested.items()
    }


def _rules(name: str) -> str:
    preset = PRESETS[name]
    called = "" if preset.call == "picture" else ", called on single frames"
    return f"{preset.origin}: {preset.domain}{called}, {preset.rule}, {preset.matching} matching. {preset.note}".strip()
