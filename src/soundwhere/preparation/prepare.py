"""From a list to a set of shards: plan, make what is missing, and describe the whole when it is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere.data.shard_index import CLIPS, INDEX, PROBLEMS, read_index, shard_name, write_index
from soundwhere.errors import ConfigError, SoundwhereError
from soundwhere.files import as_csv, lock, remove_partial, write_text
from soundwhere.inference.pool import Died, work_on
from soundwhere.media import container
from soundwhere.preparation.plan import make_plan
from soundwhere.preparation.shard import Outcome, Problem, ShardMaker, finished

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soundwhere.inference.pool import Engine, Tell
    from soundwhere.preparation.lists import Listing
    from soundwhere.preparation.plan import Plan
    from soundwhere.preparation.recipe import Recipe

SHARD_BYTES: Final = 256 << 20
_ATTEMPTS: Final = 3  # at a shard whose process ended


@dataclass
class Report:
    """What became of a run.

    Attributes:
        plan: Of the whole set.
        made: Shards made by this run.
        kept: Shards that were there.
        busy: Shards that another run is at.
        failed: Shards whose process ended, every time, with the last code.
        clips: Clips in the shards made or kept.
        size: Bytes of those.
        problems: Clips that are not in them.
        complete: Whether the whole set is there.
    """

    plan: Plan
    made: int = 0
    kept: int = 0
    busy: int = 0
    failed: dict[int, int | None] = field(default_factory=dict)
    clips: int = 0
    size: int = 0
    problems: list[Problem] = field(default_factory=list)
    complete: bool = False

    def add(self, outcome: Outcome) -> None:
        """Count a shard."""
        setattr(self, outcome.state, getattr(self, outcome.state) + 1)
        self.clips += outcome.clips
        self.size += outcome.size
        self.problems += outcome.problems


@dataclass(frozen=True)
class _Refused:
    """Instead of an outcome: nothing more can be written."""

    message: str
    remedy: str


def prepare(
    folder: Path,
    listing: Listing,
    recipe: Recipe,
    *,
    shard_bytes: int = SHARD_BYTES,
    clips_per_shard: int | None = None,
    shard_range: tuple[int, int | None] = (0, None),
    part: tuple[int, int] = (0, 1),
    engine: Engine = "local",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Make a set of shards, or what is missing of it.

    Args:
        folder: Where the shards go.
        listing: What is prepared.
        recipe: How.
        shard_bytes: About how large shards should be.
        clips_per_shard: How many clips go into a shard, instead.
        shard_range: The first shard to make, and the one before which to stop.
        part: Number and count of equal parts of that range, of which one is made; it may be empty.
        engine: Who does the work.
        workers: How many shards are made at once; by default one for each processor.
        progress: Called with the clips done and all that this run has to do.

    Raises:
        ConfigError: The folder holds shards of another list or recipe, or the range is none of its shards.
        DataError: There is something wrong with the list.
        OutputError: A shard cannot be written.
    """
    encode, features = frame_encoder(recipe)
    plan = make_plan(
        folder,
        listing,
        recipe,
        shard_bytes=shard_bytes,
        clips_per_shard=clips_per_shard,
        encode=encode,
        features=features,
    )
    report = Report(plan)
    todo = []
    chosen = _chosen(plan, shard_range)
    number, count = part
    for shard in chosen[len(chosen) * number // count : len(chosen) * (number + 1) // count]:
        outcome = finished(plan, shard)
        if outcome is None:
            todo.append(shard)
        else:
            report.add(outcome)
    _make(report, todo, listing, recipe, engine, workers, progress or (lambda _done, _all: None))
    _describe(report)
    return report


def _make(
    report: Report,
    todo: list[int],
    listing: Listing,
    recipe: Recipe,
    engine: Engine,
    workers: int | None,
    progress: Callable[[int, int], None],
) -> None:
    """Make shards; one whose process ended is tried again, as the others go on."""
    total = sum(report.plan.count(shard) for shard in todo)
    done = whole = 0

    def count(news: int) -> None:
        nonlocal done
        done += news
        progress(min(done, total), total)

    make = partial(_maker, report.plan, listing, recipe)
    for _ in range(_ATTEMPTS):
        died: dict[int, int | None] = {}
        if todo:
            progress(done, total)
        for shard, answer in work_on(engine, todo, make, workers, count):
            if isinstance(answer, Died):
                died[shard] = answer.code
            elif isinstance(answer, _Refused):
                raise SoundwhereError(answer.message, answer.remedy)
            else:
                report.add(answer)
                whole += report.plan.count(shard)
                count(max(0, whole - done))  # what was not told on the way
        todo = sorted(died)
        report.failed = died


def _maker(plan: Plan, listing: Listing, recipe: Recipe, tell: Tell) -> Callable[[int], Outcome | _Refused]:
    """What each process works with."""
    container.decoder_threads = 1  # the processes fill the machine already
    encode, _ = frame_encoder(recipe)
    maker = ShardMaker(plan, listing, recipe, encode, tell)

    def make(shard: int) -> Outcome | _Refused:
        try:
            return maker.make(shard)
        except SoundwhereError as error:
            return _Refused(error.message, error.remedy)

    return make


def frame_encoder(recipe: Recipe) -> tuple[Any, dict[str, Any] | None]:
    """What computes a recipe's features, and what the manifest says about it; nothing where none are stored."""
    if not recipe.features:
        return None, None
    from soundwhere.preparation.encoder import FrameEncoder

    encoder = FrameEncoder(recipe.features)
    return encoder.encode, encoder.facts()


def _chosen(plan: Plan, shard_range: tuple[int, int | None]) -> range:
    start, stop = shard_range
    chosen = range(plan.shards)[start : plan.shards if stop is None else stop]
    if not chosen:
        raise ConfigError(
            f"--shard-range {start}:{'' if stop is None else stop} holds none of the {plan.shards} shards.",
            f"Give a range between 0 and {plan.shards}.",
        )
    return chosen


def _describe(report: Report) -> None:
    """Write what is known of the set: its problems and, once every shard is there, the index of all."""
    plan = report.plan
    with lock(plan.folder / ".plan.lock", wait=True):
        outcomes = [finished(plan, shard) for shard in range(plan.shards)]
        there = [outcome for outcome in outcomes if outcome is not None]
        problems = (vars(problem).values() for outcome in there for problem in outcome.problems)
        text = as_csv([("number", "id", "reason"), *problems])
        write_text(plan.folder / PROBLEMS, text.encode(errors="replace").decode())
        report.complete = len(there) == plan.shards
        if report.complete:
            write_set_index(plan)
            remove_partial(plan.folder)  # nobody has anything left to write


def write_set_index(plan: Plan) -> None:
    """Join the indexes of all shards into one."""
    headers, parts = [], []
    for shard in range(plan.shards):
        header, records = read_index((plan.folder / shard_name(shard)).with_suffix(".index"))
        headers.append({name: header[name] for name in ("tar", "tar_bytes", "tar_sha256")} | {"clips": len(records)})
        parts.append(records)
    header = {"recipe": plan.manifest["recipe"], "features": plan.manifest["features"], "clips": plan.clips}
    header |= {"classes": list(plan.classes), "shards": headers, "list": CLIPS}
    write_index(plan.folder / INDEX, header, np.concatenate(parts))
