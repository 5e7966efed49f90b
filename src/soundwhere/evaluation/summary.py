"""What an evaluation says: every figure with its interval, what the sound is worth, and who is better than whom."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from soundwhere.data.controls import nothing_for
from soundwhere.evaluation.rows import Row
from soundwhere.metrics.bootstrap import DRAWS, Interval, intervals, paired_differences
from soundwhere.metrics.counting import count_right
from soundwhere.metrics.listening import FramesFound, auroc_interval, mean_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from soundwhere.evaluation.constant import Constant
    from soundwhere.evaluation.scoring import Evaluation, RowScores
    from soundwhere.metrics.pairs import PairScores
    from soundwhere.metrics.presets import Preset

Figures = dict[str, Interval]


@dataclass(frozen=True)
class Summary:
    """Figures with 95 % intervals (bootstrap over scenes), all in [0, 1].

    Attributes:
        scores: Of each row, by figure.
        drops: Of each method and each rival made of a part of it, by figure: with its own sound minus with that of
            another scene, paired.
        differences: Of each pair of methods, of each method and the best constant answer, and of each method and the
            rivals made of a part of it: first minus second, paired.
        frames: Of each row, whether the sounding frames were found; see `FramesFound`. Empty if all frames sound.
        solo_peaks: Of each row of that kind, the share of sounds that are placed in the right frame when heard alone
            (`found`; on the right object in pictures of one frame), and what a random place would (`chance`).
        negatives: Of each method, how much it lights and how sure it is with its own sound and with one of absent
            classes, and how well its confidence tells them apart (`auroc`).
        counting: Of each method, how often it says rightly how many things sound; see `metrics.counting`.
        mask_kinds: By who made the masks, then by row and figure. Empty if that is unknown or all of one kind.
    """

    scores: dict[Row, Figures]
    drops: dict[Row, Figures] = field(default_factory=dict)
    differences: dict[tuple[Row, Row], Figures] = field(default_factory=dict)
    frames: dict[Row, Figures] = field(default_factory=dict)
    solo_peaks: dict[Row, Figures] = field(default_factory=dict)
    negatives: dict[Row, Figures] = field(default_factory=dict)
    counting: dict[Row, Figures] = field(default_factory=dict)
    mask_kinds: dict[str, dict[Row, Figures]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values, by the text of each row."""
        return {name: as_json(value) for name, value in vars(self).items()}


def as_json(value: Any) -> Any:
    """Figures in dictionaries as JSON values: rows by their text, a pair of rows as `first - second`."""
    if value is None or isinstance(value, Interval):
        return value and asdict(value)
    return {
        " - ".join(map(str, key)) if isinstance(key, tuple) else str(key): as_json(each) for key, each in value.items()
    }


def summarise_evaluation(
    evaluation: Evaluation,
    constant: Constant | None = None,
    *,
    real_pairs: Mapping[Row, RowScores] | None = None,
    thresholds: Mapping[Row, float] | None = None,
    draws: int = DRAWS,
) -> Summary:
    """Summarise an evaluation.

    Args:
        evaluation: What was scored.
        constant: The constant answer among its rows.
        real_pairs: For scenes that are all negatives: what each method scored on pictures with their own sound.
        thresholds: Of each method, the confidence from which a source counts as sounding.
        draws: Bootstrap samples of the scenes.
    """
    everything = evaluation.scores
    scored = {row: scores for row, scores in everything.items() if len(scores.pairs)}
    methods = [row for row, scores in scored.items() if scores.kind == "method"]
    answers = [row for row, scores in scored.items() if scores.kind in ("method", "training-free")]
    sampler = _Sampler(evaluation.preset, draws)
    best = constant.best if constant is not None else None
    rivals = [*combinations(methods, 2)]
    rivals += [(row, best) for row in methods if best is not None]
    rivals += [(row, other) for row in methods for other in answers if other.method == row.method and other.answer]
    parts = [facts.made_of for facts in evaluation.facts if facts.made_of]
    unchosen = set() if constant is None else {*constant.rows} - {constant.best}
    return Summary(
        scores={row: sampler.figures(scores.pairs) for row, scores in scored.items()},
        drops={
            row: sampler.difference(scored[row].pairs, scored[shuffled].pairs)
            for row in answers
            if (shuffled := row.under("shuffled")) in scored
        },
        differences={(a, b): sampler.difference(scored[a].pairs, scored[b].pairs) for a, b in rivals},
        frames={
            row: found
            for row, scores in scored.items()
            if row not in unchosen and (found := sampler.known_means(scores.frames, FramesFound._fields, parts))
        },
        solo_peaks={
            row: found
            for row, scores in everything.items()
            if (found := sampler.known_means(scores.solo, ("found", "chance")))
        },
        negatives={
            row: sampler.negatives(scores, everything.get(row.under("absent")), (real_pairs or {}).get(row))
            for row, scores in everything.items()
            if scores.kind == "method" and (row.under("absent") in everything or row not in scored)
        },
        counting={
            row: found
            for row in methods
            if row in (thresholds or {}) and (found := _counting(everything, row, (thresholds or {})[row], draws))
        },
        mask_kinds=_by_mask_kind(evaluation, scored, best, sampler),
    )


def _counting(scores: Mapping[Row, RowScores], row: Row, threshold: float, draws: int) -> Figures:
    """How well a method counts; nothing if it was not asked, or does not say how sure it is."""
    heard = {control: scores.get(row.under(control)) for control in ("own", "alone", "lone", "nothing", "silent")}
    sure = {control: each.sure for control, each in heard.items() if each is not None and each.sure.size}
    if heard.keys() - sure.keys() - {"lone"}:  # not every picture has frames to look at alone
        return {}
    return count_right(sure, nothing_heard(sure), threshold, draws)


def nothing_heard(sure: Mapping[str, NDArray[np.float64]]) -> list[str]:
    """What each of N scenes heard of nothing it shows, where it is known how sure a model then is, by control."""
    return [nothing_for(number) for number in range(len(sure["own"]))]


def known_mean(values: NDArray[np.float64]) -> Interval | None:
    """The mean of the values that are not NaN; None if there are none."""
    known = values[~np.isnan(values)]
    return mean_interval(known) if len(known) else None


class _Sampler:
    """Bootstrap with the same settings everywhere."""

    def __init__(self, preset: Preset, draws: int) -> None:
        self._preset, self._draws = preset, draws

    def figures(self, pairs: PairScores) -> Figures:
        preset = self._preset
        return intervals(pairs, preset.levels, preset.meaning, draws=self._draws)

    def difference(self, first: PairScores, second: PairScores) -> Figures:
        preset = self._preset
        return paired_differences(first, second, preset.levels, preset.meaning, draws=self._draws)

    def known_means(
        self, values: NDArray[np.float64], names: tuple[str, ...], parts: Sequence[Sequence[str]] = ()
    ) -> Figures:
        """The mean of each column (N, C) over the scenes where it is known; scenes may share parts."""
        there = ~np.isnan(values[:, 0])
        shared = [part for part, known in zip(parts, there, strict=False) if known]
        if not there.any():
            return {}
        return {
            name: mean_interval(column, self._draws, made_of=shared)
            for name, column in zip(names, values[there].T, strict=True)
        }

    def negatives(self, real: RowScores, absent: RowScores | None, other: RowScores | None) -> Figures:
        """Where both were asked; without a row of absent sounds, the scenes themselves are the negatives."""
        if absent is None:
            found = {"absent_lit": self._mean(real.lit), "absent_confidence": self._mean(real.confidence)}
            if other is None:
                return found
            confidences = other.confidence, real.confidence
            return {
                "real_lit": self._mean(other.lit),
                "real_confidence": self._mean(other.confidence),
                **found,
                "auroc": auroc_interval(*confidences, self._draws, paired=False),
            }
        both = ~np.isnan(absent.confidence)
        if not both.any():
            return {}
        return {
            "real_lit": self._mean(real.lit[both]),
            "absent_lit": self._mean(absent.lit[both]),
            "real_confidence": self._mean(real.confidence[both]),
            "absent_confidence": self._mean(absent.confidence[both]),
            "auroc": auroc_interval(real.confidence[both], absent.confidence[both], self._draws),
        }

    def _mean(self, values: NDArray[np.float64]) -> Interval:
        return mean_interval(values, self._draws)


def _by_mask_kind(
    evaluation: Evaluation, scored: dict[Row, RowScores], best: Row | None, sampler: _Sampler
) -> dict[str, dict[Row, Figures]]:
    kinds = sorted({kind for facts in evaluation.facts for kind in facts.mask_kinds})
    if len(kinds) < 2:
        return {}
    shown = [
        row
        for row, scores in scored.items()
        if scores.kind in ("method", "training-free", "image-only") or row in (best, Row(row.method, "shuffled"))
    ]
    tables: dict[str, dict[Row, Figures]] = {kind: {} for kind in kinds}
    for row in shown:
        pairs = scored[row].pairs
        made_by = [
            evaluation.facts[scene].mask_kinds[source]
            for scene, source in zip(pairs.scene.tolist(), pairs.source.tolist(), strict=True)
        ]
        for kind, table in tables.items():
            chosen = torch.tensor([maker == kind for maker in made_by])
            if chosen.any():
                table[row] = sampler.figures(pairs[chosen])
    return tables
