"""Rows of a comparison on one benchmark: scored as `soundwhere evaluate` does, with all its controls, and timed."""

from __future__ import annotations

import platform
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from soundwhere.evaluation.answerers import InputFreeAnswerer
from soundwhere.evaluation.reading import BATCH
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.scorebook import Scorebook
from soundwhere.evaluation.scoring import evaluate
from soundwhere.evaluation.summary import known_mean, summarise_evaluation
from soundwhere.evaluation.task import ask_network, constant_for, count_maps, maps_of, told
from soundwhere.metrics.listening import FramesFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from soundwhere.analysis.contenders import Facts
    from soundwhere.evaluation.answerers import Answerer, Method
    from soundwhere.evaluation.constant import Constant
    from soundwhere.evaluation.network_answerer import NetworkAnswerer
    from soundwhere.evaluation.scoring import Evaluation
    from soundwhere.evaluation.summary import Summary
    from soundwhere.evaluation.task import Request, Task
    from soundwhere.methods.method import Network
    from soundwhere.metrics.bootstrap import Interval
    from soundwhere.metrics.presets import Preset
    from soundwhere.types import Scene

FRAMES: Final = "by_peak"
"""How sounding frames are found: those with the highest peaks."""
_TIMED: Final = 5  # scenes


@dataclass(frozen=True)
class Entrant:
    """A row.

    Attributes:
        name: The method's, such as `ez-vsl`.
        label: What the row is called.
        network: Who answers, in eval mode.
        facts: What a reader must know of it.
    """

    name: str
    label: str
    network: Network
    facts: Facts

    @property
    def row(self) -> Row:
        """Its row with its own sound."""
        return Row(told(self.label, self.network))


@dataclass(frozen=True)
class Match:
    """All rows on one benchmark.

    Attributes:
        title: The benchmark and its split.
        task: Its scenes.
        methods: Who was asked, in the order of the rows.
        evaluation: What was scored.
        summary: Its figures.
        constant: The constant answer among its rows.
        seconds: Of each row, for one scene.
    """

    title: str
    task: Task
    methods: Sequence[Method]
    evaluation: Evaluation
    summary: Summary
    constant: Constant
    seconds: Mapping[Row, float]

    @property
    def has_frames(self) -> bool:
        """Whether there are silent frames to tell sounding ones from."""
        return bool(self.summary.frames)

    def frames(self, row: Row, other: Row) -> Interval | None:
        """How many more of the sounding frames a row finds than another, paired."""
        column = FramesFound._fields.index(FRAMES)
        first, second = (self.evaluation.scores[each].frames[:, column] for each in (row, other))
        return known_mean(first - second)

    def difference(self, row: Row, other: Row) -> dict[str, Interval]:
        """A row minus another on the same scenes, by figure, and in frames found."""
        frames = self.frames(row, other)
        return {**self.summary.differences[row, other], **({} if frames is None else {"frames": frames})}


def hold_match(
    entrants: Sequence[Entrant],
    request: Request,
    task: Task,
    preset: Preset,
    folder: Path,
    *,
    batch: int = BATCH,
    tick: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] = print,
) -> Match:
    """Score every row on one benchmark under every control; what was scored before is found in the folder.

    Args:
        entrants: The rows, the reference last.
        request: The benchmark.
        task: Its scenes.
        preset: How to score.
        folder: Where scores of scenes are kept.
        batch: Scenes at a time.
        tick: Called with the number of scenes done and that of all.
        say: Told what the user has to know.
    """
    maps = count_maps([maps_of(each.network, task) for each in entrants], task, preset)
    methods = [ask_network(each.label, each.network, task, preset, maps) for each in entrants]
    constant = constant_for(task, request, maps, preset, folder, say=say)
    asked: list[Answerer] = [*methods, InputFreeAnswerer(constant.rows, maps)]
    kept: dict[str, Any] = {"about": task.about, "batch": batch, "tick": tick}
    found = evaluate(task.scenes, task.names, asked, preset, task.benchmark.grid, folder, **kept)
    seconds = {Row(method.label): _timed(method, task, folder) for method in methods}
    split = f" {request.options.split}" if "split" in task.benchmark.choices else ""
    title = f"{request.name}{split}{', boxes' * request.boxes}"
    return Match(title, task, methods, found, summarise_evaluation(found, constant), constant, seconds)


def _timed(method: NetworkAnswerer, task: Task, folder: Path) -> float:
    """What `seconds_per_scene` says, measured once on a machine."""
    machine = {"machine": platform.node(), "threads": torch.get_num_threads(), "device": str(method.network.device)}
    book = Scorebook(folder, {"seconds": method.identity, "about": task.about, **machine})
    if "seconds" not in book:
        book.add({"seconds": seconds_per_scene(method, task.scenes)})
    return float(book["seconds"])


def seconds_per_scene(method: Method, scenes: Sequence[Scene]) -> float:
    """How long a method takes for one scene, from picture and sound to maps: the median of five, after one more."""
    taken = []
    for number in range(min(_TIMED + 1, len(scenes))):
        scene = scenes[number]
        began = time.perf_counter()
        method.own([scene])
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:] or taken)
