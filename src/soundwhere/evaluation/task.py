"""The task: which scenes of which benchmark are scored, by which methods, and what the constant is chosen on."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soundwhere.data.benchmarks.boxed import boxed
from soundwhere.data.benchmarks.catalogue import Options, open_benchmark
from soundwhere.data.benchmarks.scenes import BenchmarkScenes
from soundwhere.data.selection import Selected, Solos
from soundwhere.errors import DataError
from soundwhere.evaluation.answerers import FilesAnswerer, Method
from soundwhere.evaluation.constant import choose_constant
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.methods.files import load_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from soundwhere.data.benchmarks.scenes import Benchmark
    from soundwhere.evaluation.constant import Constant
    from soundwhere.evaluation.predictions import Predictions
    from soundwhere.methods.method import Network
    from soundwhere.metrics.presets import Preset
    from soundwhere.types import Scene

_LOOKED_AT = 16  # scenes, to learn how many sources they have


@dataclass(frozen=True)
class Request:
    """A benchmark as it was asked for.

    Attributes:
        name: As the catalogue names it.
        data: Folder of its media.
        annotations: Folder of its annotation files.
        options: What is chosen among its options.
        boxes: Score masks by the boxes around them.
    """

    name: str
    data: Path | None = None
    annotations: Path | None = None
    options: Options = Options()  # noqa: RUF009 - frozen
    boxes: bool = False

    def open(self) -> Benchmark:
        """Open the benchmark."""
        benchmark = open_benchmark(self.name, self.data, self.annotations, self.options)
        return boxed(benchmark) if self.boxes else benchmark

    def val(self) -> Request:
        """The same benchmark's val split."""
        return replace(self, options=replace(self.options, split="val"))

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


@dataclass(frozen=True)
class Task:
    """The scenes that are scored.

    Attributes:
        benchmark: Where they come from.
        scenes: The scenes.
        truths: The same with black pictures and silence where media would be.
        names: Their names.
        about: What the scenes depend on, as JSON values.
    """

    benchmark: Benchmark
    scenes: Sequence[Scene]
    truths: Sequence[Scene]
    names: list[str]
    about: dict[str, Any]

    def sources(self) -> int:
        """How many sources the first scenes have at most: as many maps are asked of answers without input."""
        return max(1, *(len(self.truths[place].masks) for place in range(min(_LOOKED_AT, len(self.truths)))))


def choose_scenes(
    benchmark: Benchmark,
    *,
    limit: int | None = None,
    solo: bool = False,
    truths_only: bool = False,
    allow_missing: bool = False,
    predictions: Predictions | None = None,
    stamp: str = "",
) -> Task:
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
    truths = _truth_names(benchmark)
    if truths_only:
        listed, names = benchmark.truths, truths
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
    kind = Solos if solo else Selected
    # which source is left alone depends on the number of a scene, which differs where others are missing
    alike = names == truths or not solo
    places = {name: place for place, name in enumerate(truths)}
    return Task(
        benchmark,
        kind(listed, numbers),
        kind(benchmark.truths, [places[names[number]] for number in numbers]) if alike else kind(listed, numbers),
        [names[number] for number in numbers],
        about,
    )


def load_methods(
    models: Sequence[str],
    predictions: Predictions | None,
    task: Task,
    preset: Preset,
    device: torch.device,
    load: Callable[[str], Network] = load_model,
) -> tuple[list[Method], int]:
    """The methods to score, files of predictions first, and how many maps their controls give; see `count_maps`.

    Args:
        models: Names, files or folders of runs.
        predictions: Heatmaps that other code wrote.
        task: What they are scored on.
        preset: How they are called.
        device: Where models run.
        load: How models are loaded.

    Raises:
        CheckpointError: A model cannot be loaded.
    """
    loaded = [load(name).to(device).eval() for name in models]
    labels = [] if predictions is None else [predictions.folder.resolve().name]
    labels = unique_labels([*labels, *map(model_label, models)])
    files = []
    if predictions is not None:
        files.append(FilesAnswerer(labels.pop(0), predictions, task.names, any_number=preset.surplus_misses))
    maps = count_maps([*(each.maps for each in files), *(maps_of(network, task) for network in loaded)], task, preset)
    asked = zip(labels, loaded, strict=True)
    return [*files, *(ask_network(label, network, task, preset, maps) for label, network in asked)], maps


def maps_of(network: Network, task: Task) -> int:
    """How many maps a network gives, which may be told how many sources there are."""
    return task.sources() if "number" in network.needs else network.sources


def count_maps(counts: Sequence[int], task: Task, preset: Preset) -> int:
    """How many maps controls give, where methods give some.

    As many as the method with most maps: an answer with more maps than another is helped by the truth. If the preset
    counts surplus maps as misses, it is no more than there are sources.
    """
    maps = max(counts) if counts else task.sources()
    return min(maps, task.sources()) if preset.surplus_misses else maps


def ask_network(label: str, network: Network, task: Task, preset: Preset, maps: int) -> NetworkAnswerer:
    """A network under every control, on a benchmark and as a preset calls it."""
    return NetworkAnswerer(
        told(label, network),
        network,
        task.benchmark.grid,
        maps=maps,
        single_frames=preset.call == "single-frames",
        negatives=task.benchmark.truth != "none",
    )


def constant_for(
    task: Task,
    request: Request,
    maps: int,
    preset: Preset,
    folder: Path,
    *,
    tick: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] = print,
) -> Constant:
    """The constant answer, chosen on val where there is one, else on these scenes, whose media are not read for it.

    Args:
        task: What is scored.
        request: Where its val split is.
        maps: How many maps it gives.
        preset: How it is scored.
        folder: Where scores are kept, and the choice.
        tick: Called with the number of scenes done and that of all.
        say: Told where a val split that there should be cannot be read: the choice is then made on these scenes.
    """

    def choose(scenes: Sequence[Scene], chosen_on: str) -> Constant:
        grid, about = task.benchmark.grid, task.about
        return choose_constant(scenes, grid, maps, preset, chosen_on, folder=folder, about=about, tick=tick)

    if "split" not in task.benchmark.choices:
        return choose(task.truths, "these scenes")
    if request.options.split == "val":
        return choose(task.truths, "val")
    try:
        truths = request.val().open().truths
        return choose(Solos(truths, range(len(truths))) if task.about["solo"] else truths, "val")
    except DataError as error:
        say(f"The constant answer is chosen on these scenes, because val cannot be read: {error.message}")
        return choose(task.truths, "these scenes")


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


def told(label: str, network: Network) -> str:
    """A label that says what the network is given besides picture and sound, and what it has to say of itself.

    Such as `mine (labels given)`, or `mine (same map twice)`.
    """
    given = f"{' and '.join(sorted(network.needs))} given" if network.needs else ""
    words = [words for words in (given if given not in network.note else "", network.note) if words]
    return f"{label} ({', '.join(words)})" if words else label


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
