"""What is scored: the scenes of a benchmark that can be and are to be used, and the methods."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soundwhere.data.benchmarks.catalogue import Options, open_benchmark
from soundwhere.data.benchmarks.scenes import BenchmarkScenes
from soundwhere.data.selection import Selected, Solos
from soundwhere.errors import DataError
from soundwhere.evaluation.constant import SIGMAS_PX, Constant, choose_constant
from soundwhere.evaluation.probes import FilesProbe, Method, ModelProbe
from soundwhere.evaluation.scorebook import Scorebook
from soundwhere.files import is_whole
from soundwhere.models.registry import load_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from soundwhere.data.benchmarks.scenes import Benchmark
    from soundwhere.evaluation.predictions import Predictions
    from soundwhere.metrics.presets import Preset
    from soundwhere.types import Scene

_LOOKED_AT = 16  # scenes, to learn how many sources they have


@dataclass(frozen=True)
class Places:
    """Where a benchmark is and which one.

    Attributes:
        name: As the catalogue names it.
        data: Folder of its media.
        annotations: Folder of its annotation files.
        options: What is chosen among its options.
    """

    name: str
    data: Path | None = None
    annotations: Path | None = None
    options: Options = Options()  # noqa: RUF009 - frozen

    def open(self) -> Benchmark:
        """Open the benchmark."""
        return open_benchmark(self.name, self.data, self.annotations, self.options)

    def stamp(self, besides: Path) -> str:
        """A digest of names, sizes and times of the files that scenes are made of: what was edited is scored anew.

        Args:
            besides: A folder within them that does not count, because results are written there.
        """
        digest = hashlib.sha256()
        for root in (self.data, self.annotations, self.options.masks):
            seen = set() if root is None else {os.path.realpath(besides)} - {os.path.realpath(root)}
            digest.update(repr([] if root is None else [*_file_facts(root, seen)]).encode())
        pairs = Path(self.options.pairing)
        if pairs.is_file():
            digest.update(pairs.read_bytes())
        return digest.hexdigest()

    def val(self) -> Benchmark:
        """The same benchmark's val split."""
        return dataclasses.replace(self, options=dataclasses.replace(self.options, split="val")).open()


@dataclass(frozen=True)
class Subject:
    """The scenes that are scored.

    Attributes:
        benchmark: Where they come from.
        scenes: The scenes.
        names: Their names.
        about: What the scenes depend on, as JSON values.
    """

    benchmark: Benchmark
    scenes: Sequence[Scene]
    names: list[str]
    about: dict[str, Any]

    def sources(self) -> int:
        """How many sources the first scenes have at most: as many maps are asked of answers without input."""
        return max(1, *(len(self.scenes[place].masks) for place in range(min(_LOOKED_AT, len(self.scenes)))))


def choose_scenes(
    benchmark: Benchmark,
    *,
    limit: int | None = None,
    solo: bool = False,
    truths_only: bool = False,
    allow_missing: bool = False,
    predictions: Predictions | None = None,
    stamp: str = "",
) -> Subject:
    """Choose the scenes to score.

    Args:
        benchmark: Where they come from.
        limit: The first so many only.
        solo: Let one source of each scene sound alone.
        truths_only: Every scene with a truth, whether its media are there or not, without picture and sound.
        allow_missing: Go on without scenes that lack media or predictions.
        predictions: Heatmaps that are to be scored.
        stamp: Of the benchmark's files, where scores are kept.

    Raises:
        DataError: Something is missing and that is not allowed, or fewer than two scenes are left.
    """
    if truths_only:
        listed, names = benchmark.truths, _truth_names(benchmark)
    else:
        benchmark.require(allow_missing)
        listed, names = benchmark.scenes, list(benchmark.order)
    numbers = list(range(len(names)))[:limit]
    if predictions is not None:
        numbers = _predicted(predictions, names, numbers, allow_missing)
    if len(numbers) < 2:
        raise DataError(
            f"{benchmark.name}: {len(numbers)} scenes can be scored.",
            "At least 2 are needed: every scene is also shown with another one's sound.",
        )
    about = {
        "benchmark": benchmark.name,
        "choices": benchmark.choices,
        "solo": solo,
        "truths_only": truths_only,
        **({"stamp": stamp} if stamp else {}),
    }
    scenes = Solos(listed, numbers) if solo else Selected(listed, numbers)
    return Subject(benchmark, scenes, [names[number] for number in numbers], about)


def load_methods(
    models: Sequence[str], predictions: Predictions | None, subject: Subject, preset: Preset, device: torch.device
) -> tuple[list[Method], int]:
    """The methods to score, files of predictions first, and how many maps their controls give.

    That is as many as the method with most maps gives: an answer with more maps than another is helped by the truth. If
    the preset counts surplus maps as misses, it is no more than there are sources.

    Args:
        models: Names, files or folders of runs.
        predictions: Heatmaps that other code wrote.
        subject: What they are scored on.
        preset: How they are called.
        device: Where models run.

    Raises:
        CheckpointError: A model cannot be loaded.
    """
    loaded = [load_model(name).to(device).eval() for name in models]
    labels = [] if predictions is None else [predictions.folder.resolve().name]
    labels = unique_labels([*labels, *map(model_label, models)])
    methods: list[Method] = []
    counts = [model.sources for model in loaded]
    if predictions is not None:
        files = FilesProbe(labels.pop(0), predictions, subject.names, any_number=preset.surplus_misses)
        methods.append(files)
        counts.append(files.maps)
    maps = max(counts) if counts else subject.sources()
    if preset.surplus_misses:
        maps = min(maps, subject.sources())
    for label, model in zip(labels, loaded, strict=True):
        probe = ModelProbe(
            label,
            model,
            subject.benchmark.grid,
            maps=maps,
            single_frames=preset.call == "single-frames",
            negatives=subject.benchmark.truth != "none",
        )
        methods.append(probe)
    return methods, maps


def constant_for(subject: Subject, places: Places, maps: int, preset: Preset, folder: Path) -> Constant:
    """The constant answer, chosen on val where there is one; the choice is kept with the scores.

    Args:
        subject: What is scored.
        places: Where its val split is.
        maps: How many maps it gives.
        preset: How it is scored.
        folder: Where scores are kept.
    """
    scenes, chosen_on = subject.scenes, "these scenes"
    if "split" in subject.benchmark.choices:
        chosen_on = "val"
        if places.options.split != "val":
            truths = places.val().truths
            scenes = Solos(truths, range(len(truths))) if subject.about["solo"] else truths
    settings = {
        "about": subject.about,
        "preset": dataclasses.asdict(preset),
        "maps": maps,
        "chosen_on": chosen_on,
        "scenes": len(scenes),
    }
    book = Scorebook(folder, settings, _fits_choice)
    if "choice" not in book:
        book.add({"choice": choose_constant(scenes, subject.benchmark.grid, maps, preset, chosen_on).identity})
    kept = book["choice"]
    return Constant(tuple(kept["grid"]), tuple(kept["cells"]), kept["sigma_px"], kept["chosen_on"])


def _fits_choice(kept: Any) -> bool:
    """Whether what was read can be a constant's `identity`."""
    if not isinstance(kept, dict) or not isinstance(kept.get("grid"), list) or not isinstance(kept.get("cells"), list):
        return False
    grid, cells = kept["grid"], kept["cells"]
    return (
        len(grid) == 2
        and all(is_whole(side, 1) for side in grid)
        and all(is_whole(cell, 0, grid[0] * grid[1]) for cell in cells)
        and kept.get("sigma_px") in SIGMAS_PX
        and isinstance(kept.get("chosen_on"), str)
    )


def model_label(name: str) -> str:
    """What a model is called in tables: its name, or that of its run.

    >>> model_label("runs/first/best.safetensors"), model_label("models/small.safetensors"), model_label("scav-tiny")
    ('first', 'small', 'scav-tiny')
    >>> model_label("runs/first/stage-one.safetensors")
    'first/stage-one'
    """
    path = Path(name)
    if path.suffix != ".safetensors":
        return path.resolve().name if path.is_dir() else name
    run = path.resolve().parent.name
    return {"best": run, "latest": f"{run}/latest", "stage-one": f"{run}/stage-one"}.get(path.stem, path.stem)


def unique_labels(labels: list[str]) -> list[str]:
    """Number the labels that occur more than once by their place.

    >>> unique_labels(["first", "second", "first"])
    ['first (1)', 'second', 'first (3)']
    """
    return [f"{label} ({place})" if labels.count(label) > 1 else label for place, label in enumerate(labels, 1)]


def _file_facts(folder: Path | str, seen: set[str], below: str = "") -> Iterator[tuple[str, int, int]]:
    """Name, size and time of the visible files in a folder and below, in order; also through links, but none twice."""
    place = os.path.realpath(folder)
    if place in seen:
        return
    seen.add(place)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # where nobody may look, no scene was found either
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _file_facts(entry.path, seen, f"{below}{entry.name}/")
        elif entry.is_file():
            yield below + entry.name, entry.stat().st_size, entry.stat().st_mtime_ns


def _truth_names(benchmark: Benchmark) -> list[str]:
    truths = benchmark.truths
    return [record.name for record in truths.records] if isinstance(truths, BenchmarkScenes) else list(benchmark.order)


def _predicted(predictions: Predictions, names: list[str], numbers: list[int], allow_missing: bool) -> list[int]:
    """The scenes that have predictions."""
    there = [number for number in numbers if predictions.has(names[number])]
    lacking = [names[number] for number in numbers if not predictions.has(names[number])]
    if lacking and not (there and allow_missing):
        raise DataError(
            f"{predictions.folder} has maps of {len(there)} of {len(numbers)} scenes; first missing: {lacking[0]}.",
            "Write the others as SCENE.npz or SCENE_0.png, or score these with --allow-missing.",
        )
    return there
