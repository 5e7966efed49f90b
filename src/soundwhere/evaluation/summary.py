"""What an evaluation says: every figure with its interval, what the sound is worth, and who is better than whom."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from soundwhere.metrics.bootstrap import DRAWS, Interval, intervals, paired_differences
from soundwhere.metrics.listening import FramesFound, auroc_interval, mean_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from soundwhere.evaluation.evaluation import Evaluation, RowScores
    from soundwhere.metrics.pairs import PairScores
    from soundwhere.metrics.presets import Preset

Figures = dict[str, Interval]


@dataclass(frozen=True)
class Summary:
    """Figures with 95 % intervals (bootstrap over scenes), all in [0, 1].

    Attributes:
        scores: Of each row, by figure.
        drops: Of each method, by figure: with its own sound minus with that of another scene, paired.
        differences: Of each pair of methods, and of each method and the best constant answer: first minus second,
            paired; each method and `peel` on its own first stage likewise.
        frames: Of each row, whether the sounding frames were found; see `FramesFound`. Empty if all frames sound.
        solo_peaks: Of each model, the share of sounds that its first stage, hearing them alone, places in the right
            frame (`found`; on the right object in pictures of one frame), and what a random place would (`chance`).
        negatives: Of each method, how much it lights and how sure it is with its own sound and with one of absent
            classes, and how well its confidence tells them apart (`auroc`).
        mask_kinds: By who made the masks, then by row and figure. Empty if that is unknown or all of one kind.
    """

    scores: dict[str, Figures]
    drops: dict[str, Figures] = field(default_factory=dict)
    differences: dict[str, Figures] = field(default_factory=dict)
    frames: dict[str, Figures] = field(default_factory=dict)
    solo_peaks: dict[str, Figures] = field(default_factory=dict)
    negatives: dict[str, Figures] = field(default_factory=dict)
    mask_kinds: dict[str, dict[str, Figures]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return asdict(self)


def summarise_evaluation(
    evaluation: Evaluation,
    best_constant: str | None = None,
    *,
    real_pairs: Mapping[str, RowScores] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Summary:
    """Summarise an evaluation.

    Args:
        evaluation: What was scored.
        best_constant: Name of the row of the best constant answer.
        real_pairs: For scenes that are all negatives: what each method scored on pictures with their own sound.
        draws: Bootstrap samples of the scenes.
        seed: Decides which scenes are drawn.
    """
    scored = {name: scores for name, scores in evaluation.scores.items() if len(scores.pairs)}
    methods = [name for name, scores in scored.items() if scores.row.kind == "method"]
    sampler = _Sampler(evaluation.preset, draws, seed)
    rivals = [*combinations(methods, 2)]
    rivals += [(name, best_constant) for name in methods if best_constant is not None]
    rivals += [(name, peeled) for name in methods if (peeled := f"{name}, peel") in scored]
    return Summary(
        scores={name: sampler.figures(scores.pairs) for name, scores in scored.items()},
        drops={
            name: sampler.difference(scored[name].pairs, scored[shuffled].pairs)
            for name, scores in scored.items()
            if scores.row.kind in ("method", "training-free") and (shuffled := f"{name}, audio-shuffled") in scored
        },
        differences={f"{a} - {b}": sampler.difference(scored[a].pairs, scored[b].pairs) for a, b in rivals},
        frames={
            name: found
            for name, scores in scored.items()
            if not scores.row.variant and (found := sampler.frames(scores))
        },
        solo_peaks={name: found for name, scores in evaluation.scores.items() if (found := sampler.solo_peaks(scores))},
        negatives={
            name: sampler.negatives(
                scores, evaluation.scores.get(f"{name}, absent sound"), (real_pairs or {}).get(name)
            )
            for name, scores in evaluation.scores.items()
            if scores.row.kind == "method" and (f"{name}, absent sound" in evaluation.scores or name not in scored)
        },
        mask_kinds=_by_mask_kind(evaluation, scored, best_constant, sampler),
    )


class _Sampler:
    """Bootstrap with the same settings everywhere."""

    def __init__(self, preset: Preset, draws: int, seed: int) -> None:
        self._preset, self._draws, self._seed = preset, draws, seed

    def figures(self, pairs: PairScores) -> Figures:
        preset = self._preset
        return intervals(pairs, preset.levels, preset.meaning, draws=self._draws, seed=self._seed)

    def difference(self, first: PairScores, second: PairScores) -> Figures:
        preset = self._preset
        return paired_differences(first, second, preset.levels, preset.meaning, draws=self._draws, seed=self._seed)

    def frames(self, scores: RowScores) -> Figures:
        known = scores.frames[~np.isnan(scores.frames[:, 0])]
        if not len(known):
            return {}
        return {name: self._mean(column) for name, column in zip(FramesFound._fields, known.T, strict=True)}

    def solo_peaks(self, scores: RowScores) -> Figures:
        known = scores.solo[~np.isnan(scores.solo[:, 0])]
        return {"found": self._mean(known[:, 0]), "chance": self._mean(known[:, 1])} if len(known) else {}

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
                "auroc": auroc_interval(*confidences, self._draws, self._seed, paired=False),
            }
        both = ~np.isnan(absent.confidence)
        if not both.any():
            return {}
        return {
            "real_lit": self._mean(real.lit[both]),
            "absent_lit": self._mean(absent.lit[both]),
            "real_confidence": self._mean(real.confidence[both]),
            "absent_confidence": self._mean(absent.confidence[both]),
            "auroc": auroc_interval(real.confidence[both], absent.confidence[both], self._draws, self._seed),
        }

    def _mean(self, values: NDArray[np.float64]) -> Interval:
        return mean_interval(values, self._draws, self._seed)


def _by_mask_kind(
    evaluation: Evaluation, scored: dict[str, RowScores], best_constant: str | None, sampler: _Sampler
) -> dict[str, dict[str, Figures]]:
    kinds = sorted({kind for facts in evaluation.facts for kind in facts.mask_kinds})
    if len(kinds) < 2:
        return {}
    shown = [
        name
        for name, scores in scored.items()
        if scores.row.kind in ("method", "training-free", "image-only")
        or name in (best_constant, f"{scores.row.method}, audio-shuffled")
    ]
    tables: dict[str, dict[str, Figures]] = {kind: {} for kind in kinds}
    for name in shown:
        pairs = scored[name].pairs
        made_by = [
            evaluation.facts[scene].mask_kinds[source]
            for scene, source in zip(pairs.scene.tolist(), pairs.source.tolist(), strict=True)
        ]
        for kind, table in tables.items():
            rows = torch.tensor([maker == kind for maker in made_by])
            if rows.any():
                table[name] = sampler.figures(pairs[rows])
    return tables
