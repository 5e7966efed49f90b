"""Selective convergence (tab:selective_convergence): does stage 1's one map settle on one of two sources?

The dominant source of a scene is the one the map overlaps more, so *any* single map shows a gap between dominant and
second source; the same two rows for a random, a constant and a feature-norm map say how much of it means something.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np
import torch

from soundwhere.analysis.report import FIRST, SECOND, Report, rows_with_intervals
from soundwhere.analysis.winners import agreement, agreement_table, predict, predictor_table
from soundwhere.data.selection import Selected
from soundwhere.errors import ConfigError, DataError
from soundwhere.evaluation.answerers import RANDOM, InputFreeAnswerer
from soundwhere.evaluation.constant import Blobs
from soundwhere.evaluation.network_answerer import NetworkAnswerer, watched
from soundwhere.evaluation.page import new_figure
from soundwhere.evaluation.published import find_published
from soundwhere.evaluation.rows import FEATURE_NORM, Row
from soundwhere.evaluation.scoring import evaluate
from soundwhere.evaluation.summary import as_json
from soundwhere.evaluation.tables import INTERVALS
from soundwhere.metrics.bootstrap import intervals, paired_differences
from soundwhere.metrics.dominance import by_dominance, first_wins
from soundwhere.metrics.listening import mean_interval
from soundwhere.metrics.presets import find_preset
from soundwhere.metrics.report import Cell, Table, figure_name, figures_table, percent
from soundwhere.training.run import STEPS, stage_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from soundwhere.evaluation.summary import Figures
    from soundwhere.methods.method import Network
    from soundwhere.metrics.bootstrap import Interval
    from soundwhere.metrics.frames import Grid
    from soundwhere.metrics.pairs import PairScores
    from soundwhere.types import Scene

    Values = NDArray[np.float64]
    Wins = NDArray[np.bool_]
    Curve = Sequence[tuple[int, dict[str, Figures]]]  # the gap at each step

PAPER: Final = {
    source: {
        column: figure / 100
        for column, figure in find_published(f"SCAV, stage 1, {source} source", "vggsound-duet").figures.items()
    }
    for source in ("dominant", "second")
}
"""The paper's rows, on VGGSound-Duet."""
COLUMNS: Final = ("cap", "ciou@0.3", "auc")
STAGE_ONE: Final = "stage 1"
"""What SCAV calls its first stage's one map."""
OTHER_SOUND: Final = "other sound"
"""What the row of a model is called that hears another scene."""
_ANY_MAP = (
    "Which source is dominant is decided by the truth, scene by scene: any single map shows a gap. "
    f"`{OTHER_SOUND}`: the same model hears the scene half the list away."
)


@dataclass(frozen=True)
class Observations:
    """Who answered what about N scenes of two sources each.

    Attributes:
        names: The scenes.
        pairs: By answer: two rows per scene, in the order of the scenes.
        first_is_left: Whether the first source is the one further left, shape (N,), bool.
        level_db: Level of the left source above the right one, shape (N,); NaN where they share one recording.
        doublings: log2 of the left source's area over the right one's, shape (N,).
        left_out: How many scenes do not have two sources that are seen.
    """

    names: tuple[str, ...]
    pairs: dict[str, PairScores]
    first_is_left: Wins
    level_db: Values
    doublings: Values
    left_out: int

    def left_wins(self, answer: str) -> Wins:
        """Whether the left source is an answer's dominant one, shape (N,)."""
        wins: Wins = first_wins(self.pairs[answer]) == self.first_is_left
        return wins


class Gains(Selected):
    """Scenes with the level of each sound changed at random, always in the same way.

    Args:
        scenes: All of them.
        gain_db: Gains are drawn within plus or minus this, by the scene's name.
    """

    def __init__(self, scenes: Sequence[Scene], gain_db: float) -> None:
        super().__init__(scenes, range(len(scenes)))
        self._gain_db = gain_db

    def __getitem__(self, index: int) -> Scene:  # type: ignore[override] # nobody slices
        scene = super().__getitem__(index)
        rng = np.random.default_rng(crc32(scene.name.encode()))
        gains = 10 ** (rng.uniform(-self._gain_db, self._gain_db, (len(scene.sounds), 1)) / 20)
        return replace(scene, sounds=scene.sounds * gains.astype(np.float32))


def observe(
    networks: Mapping[str, Network],
    scenes: Sequence[Scene],
    names: Sequence[str],
    *,
    grid: Grid = (1, 1),
    sigma_px: float = 70.0,
    gain_db: float = 0.0,
    controls: bool = True,
    tick: Callable[[int, int], None] | None = None,
) -> Observations:
    """Ask stage 1 of every network, and answers that do not listen, about scenes.

    Args:
        networks: SCAVs by name, in eval mode.
        scenes: Those without exactly two sources are left out.
        names: Their names.
        grid: Rows and columns of frames in the pictures; the constant map lights the first of them.
        sigma_px: Width of the constant map's Gaussian.
        gain_db: Each sound's level is changed by a gain drawn within plus or minus this.
        controls: Whether to ask anybody but the networks.
        tick: Called with the number of scenes done and that of all.

    Raises:
        ConfigError: A network has no stage 1.
        DataError: No scene has two sources.
    """
    for name, network in networks.items():
        if STAGE_ONE not in watched(network):
            raise ConfigError(f"The model {name} has no stage 1.", "Give models of SCAV.")
    rows = {name: Row(name, answer=STAGE_ONE) for name in networks}
    blob: dict[Row, Blobs] = {}
    if controls:
        rows |= {f"{name}, {OTHER_SOUND}": rows[name].under("shuffled") for name in networks}
        rows |= {f"feature norm of {name}": Row(name, answer=FEATURE_NORM) for name in list(networks)[:1]}
        rows |= {"constant": Row(answer="constant"), "random": RANDOM}
        blob = {rows["constant"]: Blobs(grid, (0,), sigma_px)}
    asked = [
        NetworkAnswerer(name, network, rows=[row for row in rows.values() if row.method == name])
        for name, network in networks.items()
    ]
    found = evaluate(
        Gains(scenes, gain_db) if gain_db else scenes,
        names,
        [*asked, InputFreeAnswerer(blob, 1, [RANDOM] if controls else [])],
        find_preset("scav"),
        (1, 1),
        measures=("pairs",),
        tick=tick,
    )
    duets = [number for number, facts in enumerate(found.facts) if len(facts.areas) == 2 and all(facts.areas)]
    if not duets:
        raise DataError("No scene has exactly two sources that are seen.", "Choose a benchmark of duets.")
    pairs = {name: found.scores[row].pairs for name, row in rows.items()}
    facts = [found.facts[number] for number in duets]
    areas, columns = (np.array([getattr(each, name) for each in facts]) for name in ("areas", "columns"))
    levels = np.array([each.levels_db or (None, None) for each in facts], dtype=np.float64)
    first_is_left = columns[:, 0] <= columns[:, 1]
    sides = np.stack([~first_is_left, first_is_left], axis=1).astype(int)  # the left source's number, and the other's
    (left, right), (louder, quieter) = (np.take_along_axis(each, sides, 1).T for each in (areas, levels))
    return Observations(
        tuple(names[number] for number in duets),
        {name: each[torch.isin(each.scene, torch.tensor(duets))] for name, each in pairs.items()},
        first_is_left,
        louder - quieter,
        np.log2(left / right),
        len(scenes) - len(duets),
    )


def kept_steps(run: Path) -> list[tuple[int, Path]]:
    """The copies of stage 1 that a run kept, by step; none unless it was asked to (`--keep-every`).

    Raises:
        ConfigError: The folder holds no stage 1 at all.
    """
    paths = sorted((run / STEPS).glob("stage-one-*.safetensors"))
    if not paths and not (run / stage_file("one")).is_file():
        raise ConfigError(f"{run} holds no {stage_file('one')}.", "Give the folder of a run of `soundwhere train`.")
    return [(int(path.stem.removeprefix("stage-one-")), path) for path in paths]


def gap(pairs: PairScores) -> dict[str, Figures]:
    """Every figure of the dominant source, of the second, and the first minus the second, paired."""
    dominant, second = by_dominance(pairs)
    return {
        "dominant": intervals(dominant),
        "second": intervals(second),
        "gap": paired_differences(dominant, second),
    }


def more_than(pairs: PairScores, other: PairScores) -> Interval:
    """By how much the gap in CIoU@0.3 of one answer is larger than that of another on the same scenes, paired."""
    own, theirs = (
        np.subtract(*((each.iou >= 0.3).double().numpy() for each in by_dominance(every))) for every in (pairs, other)
    )
    return mean_interval(own - theirs)


def convergence_results(observations: Observations, curve: Curve = ()) -> Report:
    """Dominant against second source, what predicts which wins, who agrees with whom, and the gap over the steps."""
    gaps = {name: gap(pairs) for name, pairs in observations.pairs.items()}
    wins = {name: observations.left_wins(name) for name in observations.pairs}
    predictors = {name: predict(each, observations.level_db, observations.doublings) for name, each in wins.items()}
    agreed = [agreement(a, b, wins[a], wins[b]) for a, b in combinations(wins, 2)]
    heard = {name: observations.pairs.get(f"{name}, {OTHER_SOUND}") for name in gaps}
    misled = {name: more_than(observations.pairs[name], other) for name, other in heard.items() if other is not None}
    shown = {name: {source: row[source]["ciou@0.3"] for source in ("dominant", "second")} for name, row in gaps.items()}
    values = {
        "scenes": len(observations.names),
        "left_out": observations.left_out,
        "paper": PAPER,
        "gaps": as_json(gaps),
        "more_than_misled": as_json(misled),
        "predictors": as_json(predictors),
        "agreements": [asdict(each) for each in agreed],
        "scene_names": list(observations.names),
        "left_wins": {name: each.tolist() for name, each in wins.items()},
    }
    counted = f"{len(observations.names)} scenes, {observations.left_out} left out without exactly two sources."
    note = f"{counted} In percent, frame-wise, minmax-0.5. {INTERVALS}"
    tables = [
        gap_table("Dominant against second source", gaps, note, _ANY_MAP),
        predictor_table(predictors),
        agreement_table(agreed),
    ]
    title, axis = "Dominant and second source", "CIoU@0.3 (%)"
    report = Report(tables, values, {"convergence": lambda: rows_with_intervals(shown, title, axis)})
    if curve:
        report.tables.append(_steps_table(curve))
        report.values["steps"] = [{"step": step, **as_json(figures)} for step, figures in curve]
        report.figures["convergence-steps"] = lambda: _gap_over_steps(curve)
    return report


def gap_table(title: str, gaps: Mapping[str, dict[str, Figures]], *notes: str) -> Table:
    """The paper's gap and ours, by answer."""
    theirs = {**PAPER, "gap": {column: PAPER["dominant"][column] - PAPER["second"][column] for column in COLUMNS}}
    lines: list[tuple[Cell | str, ...]] = [
        ("" if number else "the paper, on VGGSound-Duet", source, *(f"{100 * each[column]:.1f}" for column in COLUMNS))
        for number, (source, each) in enumerate(theirs.items())
    ]
    for name, figures in gaps.items():
        for number, (source, cells) in enumerate(figures.items()):
            lines.append(("" if number else name, source, *(percent(cells[column]) for column in COLUMNS)))
    return Table(title, ("answer", "source", *map(figure_name, COLUMNS)), tuple(lines), notes)


def _steps_table(curve: Curve) -> Table:
    rows = {
        step: {**{source: figures[source]["ciou@0.3"] for source in figures}, "cap": figures["gap"]["cap"]}
        for step, figures in curve
    }
    columns = {source: f"{source}, CIoU@0.3" for source in ("dominant", "second", "gap")} | {"cap": "gap, CAP"}
    return figures_table("The gap over the steps of stage 1", rows, columns, f"In percent. {INTERVALS}", first="step")


def _gap_over_steps(curve: Curve) -> Figure:
    """Dominant and second source against the training step."""
    figure = new_figure(10, 3.6)
    steps = [step for step, _ in curve]
    for place, column in zip(figure.subplots(1, 3), COLUMNS, strict=True):
        for source, colour in (("dominant", FIRST), ("second", SECOND)):
            cells = [figures[source][column] for _, figures in curve]
            place.plot(steps, [100 * cell.value for cell in cells], "o-", ms=3, color=colour, label=source)
            low, high = ([100 * getattr(cell, end) for cell in cells] for end in ("low", "high"))
            place.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0)
        place.set(xlabel="step of stage 1", title=f"{figure_name(column)} (%)", ylim=(0, None))
    figure.axes[0].legend(fontsize=8)
    return figure
