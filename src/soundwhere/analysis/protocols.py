"""What the choice of protocol and of truth does to the score of one and the same answer.

Boxes: a box holds background in its corners, so a perfect mask, scored against the box of its object, gets an IoU of
just the share of the box that the object fills.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from scipy.stats import spearmanr

from soundwhere.analysis.report import FIRST, GREY, Report, margins, rows_with_intervals
from soundwhere.data.benchmarks.boxed import box_masks
from soundwhere.data.selection import KnowsMaskKinds
from soundwhere.errors import DataError
from soundwhere.evaluation.answerers import RANDOM, InputFreeAnswerer, alike
from soundwhere.evaluation.constant import Blobs
from soundwhere.evaluation.page import new_figure
from soundwhere.evaluation.reading import views
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.summary import as_json
from soundwhere.evaluation.tables import INTERVALS
from soundwhere.metrics.bootstrap import intervals, paired_differences
from soundwhere.metrics.listening import mean_interval
from soundwhere.metrics.pairs import PairScores, concatenate
from soundwhere.metrics.presets import PRESETS, find_preset, score, upsample
from soundwhere.metrics.report import Cell, Table, figure_name, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from torch import Tensor

    from soundwhere.evaluation.answerers import Method
    from soundwhere.evaluation.reading import View
    from soundwhere.metrics.bootstrap import Interval
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Masks, Scene

    Values = NDArray[np.float64]

EDGES: Final = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
"""Borders of the bins of the fill ratio."""
CONSTANT: Final = Row(answer="constant pair")
FRAME_WISE, SOURCE_WISE = "scav", "scav-source-wise"
"""The presets of the paper's two protocols."""
_FILL = (
    "Mean IoU in percent. Fill ratio: share of its tightest box that an object covers, which is also the IoU of its "
    "true mask against that box. Gain: IoU by box minus IoU by mask. Intervals: 95 %, bootstrap over objects."
)


@dataclass(frozen=True)
class BoxedObjects:
    """N objects whose masks are known, scored against the mask and against its box.

    Attributes:
        fill: Share of its tightest box that an object fills, shape (N,).
        by_mask: IoU of each answer against the masks, shape (N,) each.
        by_box: IoU of each answer against the boxes, shape (N,) each.
    """

    fill: Values
    by_mask: dict[str, Values]
    by_box: dict[str, Values]

    def rank_correlation(self, answer: str) -> float | None:
        """Spearman's correlation of what an answer gains by boxes with the fill ratio; None if one is constant."""
        gain = self.by_box[answer] - self.by_mask[answer]
        if np.ptp(gain) == 0 or np.ptp(self.fill) == 0:
            return None
        return float(spearmanr(self.fill, gain).statistic)


@dataclass(frozen=True)
class Comparison:
    """One answer under everything.

    Attributes:
        presets: Scored pairs by preset and answer.
        boxed: The same maps against masks and boxes; None where the truth has no masks.
    """

    presets: dict[str, dict[str, PairScores]]
    boxed: BoxedObjects | None


def compare_protocols(
    method: Method,
    scenes: Sequence[Scene],
    grid: Grid,
    *,
    single_frames: Method | None = None,
    masks: bool = True,
    sigma_px: float = 70.0,
    tick: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Score one answer as every preset does, beside a constant pair and random maps.

    Args:
        method: Answers with maps of the whole picture.
        scenes: With the truth; those without a source are left out.
        grid: Rows and columns of frames in the pictures.
        single_frames: The same, called on single frames, for presets that do so; else these score the whole picture's.
        masks: Whether the truth was annotated as masks, which boxes can be compared with.
        sigma_px: Width of the constant pair's Gaussians.
        tick: Called with the number of scenes done and that of all.

    Raises:
        DataError: No scene has a source.
    """
    own = Row(method.label)
    input_free = InputFreeAnswerer({CONSTANT: Blobs((1, 2), (0, 1), sigma_px)}, 2, [RANDOM])
    pairs: dict[tuple[str, str], list[PairScores]] = defaultdict(list)
    fills: list[Values] = []
    ious: dict[tuple[str, str], list[Values]] = defaultdict(list)
    for view in views(scenes, alike=alike([method]), tick=tick):
        if not view.truth.any():
            continue
        answers = {row: answer.maps for row, answer in input_free.answer(view).items()}
        called = {"picture": method.answer(view)[own].maps}
        called["single-frames"] = single_frames.answer(view)[own].maps if single_frames else called["picture"]
        for name, preset in PRESETS.items():
            for row, maps in {own: called[preset.call], **answers}.items():
                pairs[name, str(row)].append(score(maps, view.truth, preset, grid, torch.tensor(view.numbers)))
        if masks:
            fill, boxed = box_truth(view.truth.numpy())
            human = _human(scenes, view)
            fills.append(fill[human])
            for row, maps in {own: called["picture"], CONSTANT: answers[CONSTANT]}.items():
                for truth, target in {"mask": view.truth, "box": boxed}.items():
                    ious[truth, str(row)].append(_overlaps(maps, target)[human])
    if not pairs:
        raise DataError("No scene has a source to score.", "Choose a benchmark with sounding objects.")
    presets: dict[str, dict[str, PairScores]] = {name: {} for name in PRESETS}
    for (name, answer), parts in pairs.items():
        presets[name][answer] = concatenate(parts)
    filled = np.concatenate(fills) if fills else np.empty(0)
    by_mask, by_box = (
        {answer: np.concatenate(found) for (truth, answer), found in ious.items() if truth == each}
        for each in ("mask", "box")
    )
    return Comparison(presets, BoxedObjects(filled, by_mask, by_box) if len(filled) else None)


def box_truth(masks: Masks) -> tuple[Values, Tensor]:
    """The tightest box of each mask (B, M, H, W) as a mask (B, M, H, W), and how much of it each object fills.

    Returns:
        The fill ratio of the masks that are not empty, shape (N,), in (0, 1], and the boxes. An empty mask has none.
    """
    boxed = box_masks(masks.reshape(-1, *masks.shape[2:])).reshape(masks.shape)
    present = masks.any((-2, -1))
    fill: Values = masks.sum((-2, -1))[present] / boxed.sum((-2, -1))[present]
    return fill, torch.from_numpy(boxed)


@dataclass(frozen=True)
class Bin:
    """Objects of about one fill ratio.

    Attributes:
        low: Least fill ratio.
        high: Greatest fill ratio.
        count: How many objects.
        perfect: Mean IoU of their true masks against their boxes, which is the mean fill ratio.
        by_mask: Mean IoU of each answer against the masks.
        by_box: Mean IoU of each answer against the boxes.
        gain: What each answer gains by boxes, paired.
    """

    low: float
    high: float
    count: int
    perfect: float
    by_mask: dict[str, Interval]
    by_box: dict[str, Interval]
    gain: dict[str, Interval]


def fill_curve(objects: BoxedObjects, edges: Sequence[float] = EDGES) -> list[Bin]:
    """The objects binned by fill ratio, empty bins left out; intervals by bootstrap over objects."""
    bins = []
    for low, high in pairwise(edges):
        inside = (objects.fill > low) & (objects.fill <= high)
        if inside.any():
            by_mask = {answer: values[inside] for answer, values in objects.by_mask.items()}
            by_box = {answer: values[inside] for answer, values in objects.by_box.items()}
            gain = {answer: by_box[answer] - by_mask[answer] for answer in by_mask}
            means = (
                {answer: mean_interval(values) for answer, values in each.items()} for each in (by_mask, by_box, gain)
            )
            bins.append(Bin(low, high, int(inside.sum()), float(objects.fill[inside].mean()), *means))
    return bins


def protocols_results(comparison: Comparison) -> Report:
    """Every preset side by side, and boxes against masks."""
    scored = {
        name: {answer: intervals(pairs, PRESETS[name].levels, PRESETS[name].meaning) for answer, pairs in rows.items()}
        for name, rows in comparison.presets.items()
    }
    columns = ("cap", "ciou@0.1", "ciou@0.3", "ciou@0.5", "auc", "mean_iou")
    lines: list[tuple[Cell | str, ...]] = [
        ("" if number else name, answer, *(percent(figures.get(column)) for column in columns))
        for name, answers in scored.items()
        for number, (answer, figures) in enumerate(answers.items())
    ]
    notes = (
        f"In percent; a dash where a preset reports no such figure. {INTERVALS}",
        *(f"- {name}: {_rules(name)}" for name in scored),
    )
    head = ("preset", "answer", *map(figure_name, columns))
    whole, cropped = (comparison.presets[name] for name in (FRAME_WISE, SOURCE_WISE))
    gains = {answer: paired_differences(cropped[answer], whole[answer])["mean_iou"] for answer in whole}
    values = {
        "presets": {
            name: {"choices": asdict(PRESETS[name]), "figures": as_json(answers)} for name, answers in scored.items()
        },
        "source_minus_frame": as_json(gains),
    }
    shown = {
        name: {answer: figures["mean_iou"] for answer, figures in answers.items()} for name, answers in scored.items()
    }
    title, axis = "The same maps under every preset", "mean IoU (%)"
    report = Report(
        [Table("One answer under every preset", head, tuple(lines), notes)],
        values,
        {"protocols": lambda: rows_with_intervals(shown, title, axis)},
    )
    if comparison.boxed is not None:
        _add_boxes(report, comparison.boxed)
    return report


def _add_boxes(report: Report, objects: BoxedObjects) -> None:
    bins = fill_curve(objects)
    answers = list(objects.by_mask)
    lines: list[tuple[Cell | str, ...]] = [
        (
            f"{one.low:g} to {one.high:g}",
            str(one.count),
            f"{100 * one.perfect:.1f}",
            f"{100 * (1 - one.perfect):.1f}",
            *(cell for answer in answers for cell in (percent(one.by_mask[answer]), percent(one.gain[answer]))),
        )
        for one in bins
    ]
    failing = {level: float((objects.fill < level).mean()) for level in (0.3, 0.5)}
    correlations = {answer: objects.rank_correlation(answer) for answer in answers}
    scored = (f"{answer}{how}" for answer in answers for how in (" by mask", ", gain by box"))
    head = ("fill ratio", "objects", "true mask by box", "lost", *scored)
    fails = " and ".join(f"CIoU@{level:g} on {100 * value:.1f} %" for level, value in failing.items())
    ranks = ", ".join(f"{a} {'-' if c is None else format(c, '+.2f')}" for a, c in correlations.items())
    counted = f"{len(objects.fill)} objects, mean fill ratio {100 * objects.fill.mean():.1f} %."
    notes = (
        _FILL,
        f"{counted} Scored by box, true masks fail {fails}.",
        f"Rank correlation of fill ratio and gain: {ranks}.",
    )
    report.tables.append(Table("IoU lost to the box", head, tuple(lines), notes))
    report.values["boxes"] = {
        "objects": len(objects.fill),
        "mean_fill": float(objects.fill.mean()),
        "true_mask_fails": {f"ciou@{level:g}": value for level, value in failing.items()},
        "rank_correlation": correlations,
        "bins": [asdict(one) for one in bins],
        "fill": np.round(objects.fill, 4).tolist(),
    }
    report.figures["boxes"] = lambda: _fill_figure(bins, answers, objects.fill)


def _fill_figure(bins: Sequence[Bin], answers: Sequence[str], fill: Values) -> Figure:
    """IoU against the fill ratio: a perfect mask under boxes, and each answer under masks and under boxes."""
    figure = new_figure(11, 4)
    curve, histogram = figure.subplots(1, 2, width_ratios=(3, 1))
    centres = [one.perfect for one in bins]
    curve.plot([0, 1], [0, 1], color="black", lw=1, label="true mask, scored by box")
    curve.plot([0, 1], [1, 1], color="black", lw=1, ls=":", label="true mask, scored by mask")
    for answer, colour in zip(answers, (FIRST, GREY), strict=False):
        for scored, style in (("by_mask", ":"), ("by_box", "-")):
            cells = [getattr(one, scored)[answer] for one in bins]
            words = f"{answer}, scored {scored.replace('_', ' ')}"
            values = [cell.value for cell in cells]
            curve.errorbar(centres, values, yerr=margins(cells), fmt="o" + style, ms=4, color=colour, label=words)
    curve.set(xlabel="share of its box that an object fills", ylabel="IoU", xlim=(0, 1), ylim=(0, 1.03))
    curve.legend(fontsize=8, loc="upper left")
    histogram.hist(fill, bins=np.linspace(0, 1, 21).tolist(), color=GREY)
    histogram.set(xlabel="fill ratio", ylabel="objects", xlim=(0, 1))
    return figure


def _human(scenes: Sequence[Scene], view: View) -> NDArray[np.bool_]:
    """Which of a view's masks that are not empty were drawn by people, or all where nobody says."""
    drawn = []
    for number, scene in zip(view.numbers, view.scenes, strict=True):
        kinds = scenes.mask_kinds(number) if isinstance(scenes, KnowsMaskKinds) else ()
        own = np.array([kind == "human" for kind in kinds] or [True] * len(scene.masks), dtype=np.bool_)
        drawn.append(own[scene.masks.any((1, 2))])
    return np.concatenate(drawn)


def _overlaps(maps: Tensor, truth: Tensor) -> Values:
    """IoU of every object (N,) as the paper scores it."""
    preset = find_preset("scav")
    pairs = score(upsample(maps, (truth.shape[-2], truth.shape[-1]), preset), truth, preset)
    return pairs.iou.numpy()


def _rules(name: str) -> str:
    preset = PRESETS[name]
    called = "" if preset.call == "picture" else ", called on single frames"
    return f"{preset.origin}: {preset.domain}{called}, {preset.rule}, {preset.matching} matching. {preset.note}".strip()
