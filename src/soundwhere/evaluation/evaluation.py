"""Streaming evaluation: every scene is read once, everybody is asked about it, and only scalars are kept."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from soundwhere import __version__
from soundwhere.data.controls import absent_partners
from soundwhere.data.selection import KnowsMaskKinds, KnowsSeenKinds
from soundwhere.errors import DataError
from soundwhere.evaluation.probes import FilesProbe, View, heard_apart
from soundwhere.evaluation.scorebook import Scorebook
from soundwhere.metrics.listening import FramesFound, confidence, frames_found, lit_share, solo_peaks
from soundwhere.metrics.pairs import PairScores
from soundwhere.metrics.presets import Preset, score, upsample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from soundwhere.evaluation.probes import Probe, Row
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Scene

_SCHEMA: Final = 1  # of the lines kept for each scene
_MOST: Final = 1_000_000  # sources or maps of a scene
_NO_FRAMES: Final = [math.nan] * len(FramesFound._fields)


@dataclass(frozen=True)
class SceneFacts:
    """What is known of a scene besides scores.

    Attributes:
        areas: Share of the picture that each source covers.
        level_difference_db: Between the loudest and the quietest source; None where they cannot be told apart.
        mask_kinds: Who made each source's mask; empty if unknown.
    """

    areas: tuple[float, ...]
    level_difference_db: float | None
    mask_kinds: tuple[str, ...]


@dataclass(frozen=True)
class RowScores:
    """What one row scored on N scenes.

    Attributes:
        row: Which.
        pairs: Scores of the matched pairs; `scene` counts the scenes. Empty for scenes without truth.
        confidence: Of each scene, shape (N,), float64; NaN where the row was not asked.
        lit: Share of the picture lit at the gate, shape (N,), float64; NaN likewise.
        frames: Whether the sounding frames were found, shape (N, 5), float64; see `FramesFound`. NaN where a scene has
            no silent frame.
        solo: Share of a scene's sounds whose peak lies in the right place when heard alone, and what chance would find,
            shape (N, 2), float64; NaN for rows of another kind than `solo` and for sounds that nobody knows apart.
    """

    row: Row
    pairs: PairScores
    confidence: NDArray[np.float64]
    lit: NDArray[np.float64]
    frames: NDArray[np.float64]
    solo: NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """Everything that was scored.

    Attributes:
        names: The scenes.
        facts: Of each scene.
        scores: By the name of the row, in the order of the table.
        preset: How it was scored.
        grid: Rows and columns of frames in the pictures.
    """

    names: tuple[str, ...]
    facts: tuple[SceneFacts, ...]
    scores: dict[str, RowScores]
    preset: Preset
    grid: Grid


def evaluate(
    scenes: Sequence[Scene],
    names: Sequence[str],
    probes: Sequence[Probe],
    preset: Preset,
    grid: Grid,
    folder: Path,
    *,
    about: dict[str, Any],
    batch: int = 16,
    tick: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Ask every probe about every scene; what was scored before with the same settings is not asked again.

    Args:
        scenes: With the truth.
        names: Their names.
        probes: Who is asked.
        preset: How to score.
        grid: Rows and columns of frames in the pictures.
        folder: Where lines for each scene are kept, in a file per probe.
        about: What else the scores depend on (the benchmark and its options), as JSON values.
        batch: Scenes at a time.
        tick: Called with the number of scenes done and that of all.

    Raises:
        DataError: There is no scene, or an answer cannot be scored.
    """
    count = len(names)
    keys = [f"{number} {name}" for number, name in enumerate(names)]  # whatever a data set calls its scenes
    if not count:
        raise DataError("There is nothing to score: no scene was given.", "Check the data folder, or raise --limit.")
    listed = hashlib.sha256("\n".join(names).encode()).hexdigest()
    shared = {
        "schema": _SCHEMA,
        "version": __version__,
        "about": about,
        "scenes": listed,
        "grid": list(grid),
        "preset": asdict(preset),
    }
    files = [probe for probe in probes if isinstance(probe, FilesProbe)]
    facts_book = Scorebook(folder, {"schema": _SCHEMA, "about": about, "scenes": listed, "facts": True}, _fits_facts)
    books = [Scorebook(folder, {**shared, "probe": probe.identity}, _fits_scores) for probe in probes]
    absent = _absent(scenes) if any(row.kind == "negative" for probe in probes for row in probe.rows) else []
    for start in range(0, count, batch):  # fixed borders: a resumed run sees the same batches
        numbers = range(start, min(start + batch, count))
        if any(keys[number] not in book for book in (facts_book, *books) for number in numbers):
            loaded = [(number, scenes[number]) for number in numbers]
            facts_book.add({keys[number]: _facts(scenes, number, scene) for number, scene in loaded})
            for _, group in groupby(loaded, key=lambda item: _alike(item[1], files)):
                places, members = map(list, zip(*group, strict=True))
                view = View(scenes, places, members, absent)
                called = [keys[place] for place in places]
                for probe, book in zip(probes, books, strict=True):
                    if any(key not in book for key in called):
                        book.add(dict(zip(called, _ask(probe, view, preset, grid), strict=True)))
        if tick is not None:
            tick(numbers.stop, count)
    facts = tuple(SceneFacts(tuple(a), level, tuple(kinds)) for a, level, kinds in map(facts_book.__getitem__, keys))
    scores = {
        row.name: _collect(row, [book[key].get(row.name) for key in keys])
        for probe, book in zip(probes, books, strict=True)
        for row in probe.rows
    }
    return Evaluation(tuple(names), facts, scores, preset, grid)


def _alike(scene: Scene, files: Sequence[FilesProbe]) -> tuple[Any, ...]:
    """What scenes have in common that are asked about together: the sizes of the truth and of maps in files."""
    return scene.masks.shape, *(each.shape(scene) for each in files)


def _ask(probe: Probe, view: View, preset: Preset, grid: Grid) -> list[dict[str, Any]]:
    """One probe's scalars for each scene of a view, by row."""
    truth = torch.from_numpy(np.stack([scene.masks for scene in view.scenes]))
    picture = (truth.shape[-2], truth.shape[-1])
    answers = probe.answer(view)
    lines: list[dict[str, Any]] = [{} for _ in view.scenes]
    for row in probe.rows:
        maps = answers[row.name]
        if row.kind == "solo":
            apart = [place for place, scene in enumerate(view.scenes) if heard_apart(scene)]
            if apart:
                peaks = solo_peaks(upsample(maps[apart], picture, preset), truth[apart], grid)
                for place, found in zip(apart, peaks, strict=True):
                    lines[place][row.name] = {"solo": list(found)}
            continue
        for line, sure, lit in zip(lines, confidence(_flat(maps)), lit_share(_flat(maps)), strict=True):
            line[row.name] = {"confidence": _number(sure), "lit": _number(lit)}
        if row.kind == "negative":
            for line, other in zip(lines, view.negatives, strict=True):
                if other is None:
                    del line[row.name]
            continue
        if not truth.shape[1]:
            continue
        maps = upsample(maps, picture, preset) if maps.ndim == 4 else maps
        try:
            pairs = score(maps, truth, preset, grid)
        except DataError as error:
            where = f"{view.scenes[0].name} to {view.scenes[-1].name}"
            raise DataError(f"{row.name}, scenes {where}: {error.message}", error.remedy) from error
        for values in zip(*(column.tolist() for column in pairs.columns().values()), strict=True):
            entry = lines[values[0]][row.name]
            entry.setdefault("pairs", []).append([_number(value) for value in values[1:]])
        if maps.ndim == 4 and grid != (1, 1):
            for line, frames in zip(lines, frames_found(maps, truth, grid), strict=True):
                if frames is not None:
                    line[row.name]["frames"] = list(frames)
    return lines


def _collect(row: Row, lines: Sequence[dict[str, Any] | None]) -> RowScores:
    """The lines of all scenes as arrays."""
    rows = [
        (scene, *(math.nan if value is None else value for value in values))
        for scene, line in enumerate(lines)
        for values in (line or {}).get("pairs", [])
    ]
    return RowScores(
        row,
        PairScores.from_rows(rows),
        np.array([(line or {}).get("confidence", math.nan) for line in lines], np.float64),
        np.array([(line or {}).get("lit", math.nan) for line in lines], np.float64),
        np.array([(line or {}).get("frames", _NO_FRAMES) for line in lines]),
        np.array([(line or {}).get("solo", _NO_FRAMES[:2]) for line in lines]),
    )


def _fits_facts(line: Any) -> bool:
    """Whether a line that was read can be what `_facts` wrote."""
    if not isinstance(line, list) or len(line) != 3:
        return False
    areas, level, kinds = line
    return (
        _are_numbers(areas)
        and _are_numbers([0 if level is None else level])
        and isinstance(kinds, list)
        and all(isinstance(kind, str) for kind in kinds)
    )


def _fits_scores(line: Any) -> bool:
    """Whether a line that was read can be what `_ask` wrote."""
    return isinstance(line, dict) and all(
        isinstance(entry, dict)
        and _are_numbers([entry.get("confidence", 0), entry.get("lit", 0)], or_none=True)
        and _are_numbers(entry.get("frames", _NO_FRAMES), len(_NO_FRAMES))
        and _are_numbers(entry.get("solo", [0, 0]), 2)
        and isinstance(entry.get("pairs", []), list)
        and all(
            _are_numbers(pair, len(fields(PairScores)) - 1, or_none=True)
            and all(index is not None and -1 <= index < _MOST for index in pair[:2])
            for pair in entry.get("pairs", [])
        )
        for entry in line.values()
    )


def _are_numbers(values: Any, count: int | None = None, or_none: bool = False) -> bool:
    return (
        isinstance(values, list)
        and len(values) == (len(values) if count is None else count)
        and all(isinstance(value, int | float) or (or_none and value is None) for value in values)
    )


def _facts(scenes: Sequence[Scene], number: int, scene: Scene) -> list[Any]:
    """A scene's facts as JSON values, in the order of `SceneFacts`."""
    areas = [float(mask.mean()) for mask in scene.masks]
    kinds = list(scenes.mask_kinds(number)) if isinstance(scenes, KnowsMaskKinds) else []
    return [areas, _level_difference(scene), kinds]


def _level_difference(scene: Scene) -> float | None:
    """Decibels between the loudest and the quietest source, to a hundredth: less is rounding of the samples."""
    if not 2 <= len(scene.sounds) == len(scene.masks):
        return None
    levels = np.sqrt(np.square(scene.sounds, dtype=np.float64).mean(axis=1))
    return round(float(20 * np.log10(levels.max() / levels.min())), 2) if levels.min() > 0 else None


def _absent(scenes: Sequence[Scene]) -> list[int | None]:
    if not isinstance(scenes, KnowsSeenKinds):
        return []
    return absent_partners([scenes.seen_kinds(number) for number in range(len(scenes))])


def _flat(maps: Tensor) -> Tensor:
    """Maps (B, K, h, w), those of single frames counting as maps of their own."""
    return (maps.flatten(1, 2) if maps.ndim == 5 else maps).float()


def _number(value: Any) -> float | None:
    number = float(value)
    return None if math.isnan(number) else number
