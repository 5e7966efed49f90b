"""Streaming evaluation: every scene is read once, everybody is asked about it, and only scalars are kept."""

from __future__ import annotations

import hashlib
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from soundwhere import __version__, cores, distributed
from soundwhere.data.selection import KnowsMaskKinds, KnowsParts
from soundwhere.errors import ConfigError, DataError, SoundwhereError
from soundwhere.evaluation.answerers import alike
from soundwhere.evaluation.reading import BATCH, heard_apart, rounds
from soundwhere.evaluation.scorebook import Scorebook
from soundwhere.metrics.listening import FramesFound, confidence, frames_found, lit_share, solo_peaks
from soundwhere.metrics.pairs import PairScores
from soundwhere.metrics.presets import Preset, score, upsample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from soundwhere.evaluation.answerers import Answer, Answerer
    from soundwhere.evaluation.reading import View
    from soundwhere.evaluation.rows import Kind, Row
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Scene

    Values = NDArray[np.float64]
    Found = list[dict[str, Any]]

Measure = Literal["pairs", "light", "frames"]
"""What is looked at: how well maps fit the truth; how much is lit and how surely; whether sounding frames are found."""
EVERYTHING: Final[tuple[Measure, ...]] = ("pairs", "light", "frames")
_FRAMES: Final = len(FramesFound._fields)
_MOST_THREADS: Final = 8  # each has a batch in memory


@dataclass(frozen=True)
class SceneFacts:
    """What is known of a scene besides scores.

    Attributes:
        areas: Share of the picture that each source covers.
        columns: Where the middle of each source is, in pixels from the left; None for one that is not seen.
        levels_db: Level of each source; empty where they cannot be told apart, None for one that is silent.
        mask_kinds: Who made each source's mask; empty if unknown.
        made_of: Parts that other scenes share, such as videos; empty if there are none.
    """

    areas: tuple[float, ...]
    columns: tuple[float | None, ...]
    levels_db: tuple[float | None, ...]
    mask_kinds: tuple[str, ...]
    made_of: tuple[str, ...] = ()

    @property
    def level_difference_db(self) -> float | None:
        """Between the loudest and the quietest source, to a hundredth: less is rounding of the samples."""
        known = [level for level in self.levels_db if level is not None]
        return round(max(known) - min(known), 2) if known and len(known) == len(self.levels_db) else None


@dataclass(frozen=True)
class RowScores:
    """What one row scored on N scenes.

    Attributes:
        kind: Of the row.
        pairs: Scores of the matched pairs; `scene` counts the scenes. Empty for scenes without truth.
        confidence: Of each scene, the highest value of the maps, shape (N,), float64; NaN where the row was not asked.
        lit: Share of the picture lit at the gate, shape (N,), float64; NaN likewise.
        frames: Whether the sounding frames were found, shape (N, 5), float64; see `FramesFound`. NaN where a scene has
            no silent frame.
        solo: Share of a scene's sounds whose peak lies in the right place when heard alone, and what chance would find,
            shape (N, 2), float64; NaN for rows of another kind than `solo` and for sounds that nobody knows apart.
        sure: How sure a network itself is of each of its K maps, shape (N, K), float64; NaN where it was not asked.
    """

    kind: Kind
    pairs: PairScores
    confidence: Values
    lit: Values
    frames: Values
    solo: Values
    sure: Values


@dataclass(frozen=True)
class Evaluation:
    """Everything that was scored.

    Attributes:
        names: The scenes.
        facts: Of each scene.
        scores: By row, in the order of the table.
        preset: How it was scored.
        grid: Rows and columns of frames in the pictures.
    """

    names: tuple[str, ...]
    facts: tuple[SceneFacts, ...]
    scores: dict[Row, RowScores]
    preset: Preset
    grid: Grid


def evaluate(
    scenes: Sequence[Scene],
    names: Sequence[str],
    asked: Sequence[Answerer],
    preset: Preset,
    grid: Grid,
    folder: Path | None = None,
    *,
    about: dict[str, Any] | None = None,
    measures: Sequence[Measure] = EVERYTHING,
    batch: int = BATCH,
    tick: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Ask everybody about every scene; what was scored before with the same settings is not asked again.

    Several processes that call it with the same arguments share the scenes, and each returns all the scores, which are
    those that one process would have found.

    Args:
        scenes: With the truth.
        names: Their names.
        asked: Who is asked.
        preset: How to score.
        grid: Rows and columns of frames in the pictures.
        folder: Where lines for each scene are kept, in a file for each answerer; None keeps none.
        about: What else the scores depend on (the benchmark and its options), as JSON values.
        measures: What is looked at.
        batch: Scenes at a time.
        tick: Called with the number of scenes done and that of all.

    Raises:
        DataError: There is no scene, or an answer cannot be scored.
        ConfigError: Processes were given different scenes or methods.
    """
    keys = [f"{number} {name}" for number, name in enumerate(names)]  # whatever a data set calls its scenes
    if not keys:
        raise DataError("There is nothing to score: no scene was given.", "Check the data folder, or raise --limit.")
    listed = hashlib.sha256("\n".join(names).encode()).hexdigest()
    about = {"about": about or {}, "scenes": listed}
    facts_book = Scorebook(folder, {**about, "facts": True})
    shared = {**about, "version": __version__, "grid": list(grid), "preset": asdict(preset)}
    identities = [each.identity if folder or distributed.world_size() > 1 else {} for each in asked]
    _agree([listed, batch, {**shared, "about": None}, identities])
    books = [Scorebook(folder, {**shared, "answerer": identity}) for identity in identities]
    threads = min(_MOST_THREADS, *distributed.from_all(cores.cores()))  # the same number in all processes
    over = Event()  # who interrupts does not wait until everybody was asked

    def look(view: View) -> Found:
        """What each book, that of facts being the first, is to hold of some scenes."""
        called = [keys[number] for number in view.numbers]
        found: Found = [{keys[number]: _facts(scenes, number, scene) for number, scene in _numbered(view)}]
        for answerer, book in zip(asked, books, strict=True):
            if over.is_set():
                break
            known = all(key in book for key in called)
            lines = [] if known else zip(called, _lines(answerer, view, preset, grid, measures), strict=True)
            found.append(dict(lines))
        return found

    # each thread computes by itself: most of the work is in pieces too small to be shared by several
    with ThreadPoolExecutor(threads, initializer=cores.settle, initargs=(cores.cores() // threads,)) as pool:
        seen = rounds(
            scenes,
            {row.control for each in asked for row in each.rows},
            share=(distributed.rank(), distributed.world_size()),
            at_once=threads,
            read=pool.map,
            batch=batch,
            alike=alike(asked),
            wanted=lambda numbers: any(keys[number] not in book for book in (facts_book, *books) for number in numbers),
            tick=tick,
        )
        try:
            for mine in seen:
                for found in _exchanged(lambda: list(pool.map(look, mine))):  # noqa: B023 - in the order of one thread
                    for book, new in zip((facts_book, *books), found, strict=True):
                        book.add(new)
        finally:
            over.set()
    scores = {
        row: _collect(kind, [book[key].get(str(row), {}) for key in keys])
        for answerer, book in zip(asked, books, strict=True)
        for row, kind in answerer.rows.items()
    }
    facts = tuple(SceneFacts(*map(tuple, facts_book[key])) for key in keys)
    return Evaluation(tuple(names), facts, scores, preset, grid)


def _agree(given: list[Any]) -> None:
    """Refuse to share the work among processes that were given different things."""
    digests = distributed.from_all(hashlib.sha256(repr(given).encode()).hexdigest())
    for rank, digest in enumerate(digests):
        if digest != digests[0]:
            raise ConfigError(
                f"Process {rank} of this evaluation was given other scenes or models than process 0.",
                "Let all machines read the same files, such as those of a shared folder, with the same version.",
            )


def _exchanged(look: Callable[[], list[Found]]) -> list[Found]:
    """What all processes found; a scene that one of them cannot score ends them all, as it would end one."""
    found: list[Found] | SoundwhereError
    try:
        found = look()
    except SoundwhereError as error:
        found = error
    everything: list[Found] = []
    for each in distributed.from_all(found):
        if isinstance(each, SoundwhereError):
            raise each
        everything += each
    return everything


def _lines(
    answerer: Answerer, view: View, preset: Preset, grid: Grid, measures: Sequence[Measure]
) -> list[dict[str, dict[str, Any]]]:
    """Scalars of each scene of a view, by row, as JSON values."""
    answers = answerer.answer(view)
    lines: list[dict[str, dict[str, Any]]] = [{} for _ in view.scenes]
    for row, kind in answerer.rows.items():
        entries = [{} for _ in view.scenes] if kind == "solo" else _light(answers[row], measures)
        if kind == "solo":
            _add_solo(entries, answers[row].maps, view, preset, grid)
        elif kind != "negative" and view.truth.shape[1]:
            try:
                _add_scores(entries, answers[row].maps, view, preset, grid, measures)
            except DataError as error:
                where = f"{view.scenes[0].name} to {view.scenes[-1].name}"
                raise DataError(f"{row}, scenes {where}: {error.message}", error.remedy) from error
        for line, entry, heard in zip(lines, entries, view.can_hear(row.control), strict=True):
            if entry and heard:
                line[str(row)] = entry
    return lines


def _light(answer: Answer, measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """How much each scene's maps light, and how surely; those of single frames count as maps of their own."""
    entries: list[dict[str, Any]] = [{} for _ in answer.maps]
    if "light" not in measures:
        return entries
    maps = (answer.maps.flatten(1, 2) if answer.maps.ndim == 5 else answer.maps).float()
    for entry, highest, lit in zip(entries, confidence(maps), lit_share(maps), strict=True):
        entry |= {"confidence": _number(highest), "lit": _number(lit)}
    if answer.confidence is not None:
        for entry, sure in zip(entries, answer.confidence.tolist(), strict=True):
            entry["sure"] = [_number(value) for value in sure]
    return entries


def _add_solo(entries: list[dict[str, Any]], maps: Tensor, view: View, preset: Preset, grid: Grid) -> None:
    apart = [place for place, scene in enumerate(view.scenes) if heard_apart(scene)]
    if apart:
        peaks = solo_peaks(upsample(maps[apart], view.size, preset), view.truth[apart], grid)
        for place, found in zip(apart, peaks, strict=True):
            entries[place]["solo"] = list(found)


def _add_scores(
    entries: list[dict[str, Any]],
    maps: Tensor,
    view: View,
    preset: Preset,
    grid: Grid,
    measures: Sequence[Measure],
) -> None:
    maps = upsample(maps, view.size, preset) if maps.ndim == 4 else maps
    if "pairs" in measures:
        pairs = score(maps, view.truth, preset, grid)
        for values in zip(*(column.tolist() for column in pairs.columns().values()), strict=True):
            entries[values[0]].setdefault("pairs", []).append([_number(value) for value in values[1:]])
    if "frames" in measures and maps.ndim == 4 and grid != (1, 1):
        for entry, frames in zip(entries, frames_found(maps, view.truth, grid), strict=True):
            if frames is not None:
                entry["frames"] = list(frames)


def _collect(kind: Kind, lines: Sequence[dict[str, Any]]) -> RowScores:
    """The lines of all scenes as arrays."""
    rows = [
        (scene, *(math.nan if value is None else value for value in values))
        for scene, line in enumerate(lines)
        for values in line.get("pairs", [])
    ]
    sure = [line.get("sure", []) for line in lines]
    most = max(map(len, sure))

    def column(name: str, *shape: int) -> Values:
        nothing = np.full(shape, np.nan).tolist()
        return np.array([line.get(name, nothing) for line in lines], np.float64).reshape(len(lines), *shape)

    return RowScores(
        kind,
        PairScores.from_rows(rows),
        column("confidence"),
        column("lit"),
        column("frames", _FRAMES),
        column("solo", 2),
        np.array([[*each, *[math.nan] * (most - len(each))] for each in sure], np.float64),
    )


def _numbered(view: View) -> list[tuple[int, Scene]]:
    return list(zip(view.numbers, view.scenes, strict=True))


def _facts(scenes: Sequence[Scene], number: int, scene: Scene) -> list[list[Any]]:
    """A scene's facts as JSON values, in the order of `SceneFacts`."""
    areas = [float(mask.mean()) for mask in scene.masks]
    places = np.arange(scene.masks.shape[-1])
    columns = [float(mask.sum(0) @ places / mask.sum()) if mask.any() else None for mask in scene.masks]
    powers = np.square(scene.sounds, dtype=np.float64).mean(axis=1) if heard_apart(scene) else np.empty(0)
    levels = [float(10 * np.log10(power)) if power > 0 else None for power in powers]
    kinds = list(scenes.mask_kinds(number)) if isinstance(scenes, KnowsMaskKinds) else []
    parts = list(scenes.made_of(number)) if isinstance(scenes, KnowsParts) else []
    return [areas, columns, levels, kinds, parts]


def _number(value: Any) -> float | None:
    number = float(value)
    return None if math.isnan(number) else number
