"""`soundwhere analyse compare`: train what is missing, score every system alike, and put them in one table."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from soundwhere.errors import ConfigError
from soundwhere.terminal.messages import say
from soundwhere.terminal.options import FLAG, named
from soundwhere.terminal.recipes import rooted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.analysis.contenders import Contender
    from soundwhere.analysis.match import Entrant, Match
    from soundwhere.analysis.report import Report
    from soundwhere.evaluation.task import Request, Task


@dataclass(frozen=True)
class Options:
    """Every system of the paper's tables on the same data, encoders and budget: trained, resumed or found in --out."""

    benchmark: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")]
    """What to score on, one or several; an unknown one lists them all."""
    data: Annotated[Path | None, named("DIR")] = None
    """Folder of the benchmarks' media or data set."""
    annotations: Annotated[Path | None, named("DIR")] = None
    """Folder of the annotation files; by default `annotations` in --data, or --data itself."""
    masks: Annotated[Path | None, named("DIR")] = None
    """Folder of masks, for benchmarks whose authors publish them apart."""
    boxes: Annotated[bool, *FLAG] = False
    """Score benchmarks of masks a second time, by the tightest boxes around them."""
    split: Literal["val", "test"] = "test"
    """val to choose by, test to report, where a benchmark has both."""
    layout: Literal["free", "side-by-side", "stacked"] = "free"
    """Where made-up things are."""
    limit: Annotated[int | None, named("N")] = None
    """The first N scenes of each benchmark only."""
    allow_missing: Annotated[bool, *FLAG] = False
    """Go on without scenes whose media or masks are missing."""
    methods: Annotated[tuple[str, ...], named("NAME ...")] = ()
    """Only these rows; an unknown one lists them all. By default every one that there is a configuration for and that
    this data has what it needs for, such as labels."""
    steps: Annotated[int | None, named("N")] = None
    """Optimiser steps of every row, shared by its stages as in its file; by default as many as the recipe has."""
    seed: Annotated[tuple[int, ...], named("N ...")] = (0,)
    """Seeds: each trains every row."""
    also: Annotated[tuple[str, ...], named("NAME=SEED ...")] = ()
    """Further rows: a method with another seed, such as scav=1."""
    minutes: Annotated[float | None, named("M")] = None
    """Stop a row whose steps have taken so long; it is scored as it is, and its row says so."""
    take: Annotated[tuple[str, ...], named("NAME=MODEL ...")] = ()
    """Score a trained model instead of training that row: the folder of a run, its file, or a built-in name."""
    configs: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("configs/rivals")
    """Folder of the rows' configurations, NAME-controlled.toml."""
    recipe: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("configs/real-duet.toml")
    """Configuration of SCAV's row; the others take clips, encoders, front end and schedule from it."""
    keep_every: Annotated[int | None, named("N")] = None
    """Steps between copies of SCAV's weights that stay, to see how it converges."""
    root: Annotated[Path | None, named("DIR")] = None
    """Folder to train on; by default that of the files, else --data."""
    cache: Annotated[Path | None, named("DIR")] = None
    """Folder for frozen visual features, which all rows share; by default below the user's cache folder."""
    captions: Annotated[Path | None, named("FILE")] = None
    """Embeddings of captions, which oa-ssl needs; without, its row is left out."""
    visual_weights: Annotated[str | None, named("FILE")] = None
    """Weights that visual encoders start from, instead of the files'."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    download: Annotated[bool, *FLAG] = False
    """Fetch ImageNet weights if they are not on this machine."""
    batch: int = 16
    """Scenes scored at a time."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("analysis/compare")
    """Folder of the trainings, the scores and the results."""


def run(options: Options) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    _check(options)
    from soundwhere.analysis.compare import compare_results
    from soundwhere.analysis.contenders import OWN, REFERENCE, labels_of, total_steps
    from soundwhere.methods.catalogue import read_config
    from soundwhere.training.loop import DivergedError

    steps = options.steps or total_steps(read_config(options.recipe))
    contenders, left_out = contenders_of(options, steps)
    tasks = _tasks(options)
    labels = labels_of(contenders)
    rows, digests = _possible(
        options, list(zip(labels, contenders, strict=True)), [task for _, task in tasks], left_out
    )
    entrants = []
    for label, contender in rows:
        try:
            entrants.append(_enter(options, label, contender, digests))
        except DivergedError as error:
            left_out[label] = error.message
            say(f"{label} is left out: {error.message}")
    # as in the paper's tables: what was told more stands above, SCAV last
    entrants.sort(key=lambda each: (each.name == REFERENCE, each.facts.kind == OWN, each.facts.kind))
    if not entrants:
        raise ConfigError("No row is left to compare.", "See above why each was left out.")
    matches = [_match(options, entrants, request, task) for request, task in tasks]
    settings = {
        "benchmarks": [match.title for match in matches],
        "scenes": [len(match.evaluation.names) for match in matches],
        "configs": str(options.configs),
        "recipe": str(options.recipe),
        "steps": steps,
        "minutes": options.minutes or "no limit",
        "seeds": list(options.seed),
        "also": list(options.also) or "none",
        "taken": list(options.take) or "none",
    }
    return compare_results(entrants, matches, left_out), settings


def _check(options: Options) -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("The comparison runs on one process.", "Start it without torchrun.")
    for name, wrong in (
        ("benchmark", not options.benchmark),
        ("seed", not options.seed or min(options.seed, default=0) < 0),
        ("steps", options.steps is not None and options.steps < 1),
        ("minutes", options.minutes is not None and not options.minutes > 0),
        ("limit", options.limit is not None and options.limit < 2),
        ("batch", options.batch < 1),
    ):
        if wrong:
            least = {"limit": "at least 2", "seed": "0 or more"}.get(name, "at least one, greater than 0")
            raise ConfigError(f"--{name} is {getattr(options, name)}.", f"Give {least}.")


def _pairs(given: Sequence[str], flag: str, what: str) -> list[tuple[str, str]]:
    """What was given as NAME=WHAT."""
    pairs = [(name, value) for name, _, value in (each.partition("=") for each in given)]
    for (name, value), each in zip(pairs, given, strict=True):
        if not name or not value:
            raise ConfigError(f"--{flag} {each} does not name a method and {what}.", f"Give --{flag} NAME={what}.")
    return pairs


def contenders_of(options: Options, steps: int) -> tuple[list[Contender], dict[str, str]]:
    """The rows, SCAV last, and those that are left out with the reason."""
    from soundwhere.analysis.contenders import CAPTIONS, REFERENCE, Contender, controlled_files, read_row
    from soundwhere.methods.catalogue import read_config

    recipe = read_config(options.recipe)

    files = controlled_files(options.configs, options.recipe)
    taken, also = _pairs(options.take, "take", "MODEL"), _pairs(options.also, "also", "SEED")
    for name in (*options.methods, *(name for name, _ in also)):
        if name not in files and name not in dict(taken):
            raise ConfigError(f"There is no row {name}.", f"Choose among {', '.join(files)}.")
    if not all(seed.isdecimal() for _, seed in also):
        raise ConfigError(f"--also is {' '.join(options.also)}.", "Give seeds as numbers: --also scav=1.")
    left_out: dict[str, str] = {}
    wanted = [name for name in (options.methods or files) if name in files and name not in dict(taken)]
    if not options.methods and options.captions is None and CAPTIONS in wanted:
        wanted.remove(CAPTIONS)
        left_out[CAPTIONS] = "it needs the embeddings of captions (--captions FILE)"
    rows = [(name, seed) for name in wanted for seed in options.seed]
    rows += [(name, int(seed)) for name, seed in also]
    found = [Contender(name, model) for name, model in taken]
    for name, seed in dict.fromkeys(rows):
        try:
            config = read_row(
                files[name],
                recipe,
                steps=steps,
                seed=seed,
                cache=options.cache,
                device=options.device,
                visual_weights=options.visual_weights,
                captions=options.captions,
            )
        except ConfigError as error:
            if options.methods or name == REFERENCE:
                raise
            left_out[name] = error.message
            continue
        if name == REFERENCE:
            keep = options.keep_every or config.train.keep_every
            config = replace(config, train=replace(config.train, keep_every=keep))
        found.append(Contender(name, rooted(config, options)))
    order = {name: place for place, name in enumerate((*files, *dict(taken)))}
    return sorted(found, key=lambda each: (each.name == REFERENCE, order[each.name])), left_out


def _tasks(options: Options) -> list[tuple[Request, Task]]:
    """The scenes of every benchmark."""
    from soundwhere.data.benchmarks import catalogue
    from soundwhere.evaluation.task import Request, choose_scenes

    found = []
    names = list(dict.fromkeys(options.benchmark))
    for name in names:
        entry = catalogue.BENCHMARKS.get(name)
        chosen: dict[str, Any] = {"split": options.split, "layout": options.layout, "masks": options.masks}
        if entry is not None and len(names) > 1:  # what one of several does not take is meant for the others
            chosen = {option: value for option, value in chosen.items() if option in entry.options}
        request = Request(name, options.data, options.annotations, catalogue.Options(**chosen))
        benchmark = request.open()
        say(benchmark.describe())
        if benchmark.truth == "none":
            raise ConfigError(f"{name} has no truth to score by.", "Choose a benchmark with sounding objects.")
        stamp = request.stamp(options.out)
        both = [request, replace(request, boxes=True)] if options.boxes and benchmark.truth == "masks" else [request]
        for each in both:
            opened = benchmark if each is request else each.open()
            task = choose_scenes(opened, limit=options.limit, allow_missing=options.allow_missing, stamp=stamp)
            found.append((each, task))
    return found


def _possible(
    options: Options, rows: Sequence[tuple[str, Contender]], tasks: Sequence[Task], left_out: dict[str, str]
) -> tuple[list[tuple[str, Contender]], dict[str, str]]:
    """The rows that can be trained and scored, and what names the data of each by its folder.

    Of all rows, those that cannot are left out with the reason; one that was asked for is refused.
    """
    from soundwhere.analysis.contenders import REFERENCE, check_given, data_digest, preview, take
    from soundwhere.analysis.trained_rows import check_row

    digests: dict[str, str] = {}
    known: dict[Any, str] = {}
    possible = []
    for label, contender in rows:
        source = contender.source
        try:
            network = take(contender.name, source) if isinstance(source, str) else preview(source)
            for task in tasks:
                check_given(label, network, task)
        except ConfigError as error:
            if options.methods or isinstance(source, str) or contender.name == REFERENCE:
                raise ConfigError(f"{label}: {error.message}", error.remedy) from error
            left_out[label] = error.message
            say(f"{label} is left out: {error.message}")
            continue
        possible.append((label, contender))
        if not isinstance(source, str):
            data = source.data
            what = data.source, data.root, data.split, data.left_out, data.made_up
            known[what] = known.get(what) or data_digest(data)
            digests[contender.folder] = known[what]
            check_row(source, options.out / "rows" / contender.folder, data=known[what])
    return possible, digests


def _enter(options: Options, label: str, contender: Contender, digests: dict[str, str]) -> Entrant:
    """Train a row, go on with it, find it finished, or take it."""
    from soundwhere.analysis.contenders import facts_of, take, trained_words
    from soundwhere.analysis.match import Entrant
    from soundwhere.analysis.trained_rows import train_row
    from soundwhere.distributed import initialise
    from soundwhere.methods.files import load_model
    from soundwhere.training.checkpoint import read_progress
    from soundwhere.training.run import LATEST

    device = initialise(options.device)
    if isinstance(contender.source, str):
        network = take(contender.name, contender.source).to(device).eval()
        return Entrant(contender.name, label, network, facts_of(network, f"taken from {contender.source}"))
    folder = options.out / "rows" / contender.folder
    say(f"{label}: {folder}")
    file = train_row(
        contender.source,
        folder,
        download=options.download,
        data=digests[contender.folder],
        longest_s=60 * (options.minutes or math.inf),
    )
    network = load_model(file).to(device).eval()
    _, progress = read_progress(folder / LATEST)
    trained = trained_words(contender.source, progress.stage, progress.step, progress.seconds)
    return Entrant(contender.name, label, network, facts_of(network, trained, contender.source.train.seed))


def _match(options: Options, entrants: Sequence[Entrant], request: Request, task: Task) -> Match:
    """Score every row on a benchmark, and leave what `soundwhere evaluate` would."""
    from soundwhere.analysis.match import hold_match
    from soundwhere.evaluation.files import write_evaluation
    from soundwhere.evaluation.tables import evaluation_tables
    from soundwhere.metrics.presets import find_preset
    from soundwhere.terminal.progress import Bar

    say(f"{request.name}{' by boxes' * request.boxes}: scoring {len(task.names)} scenes")
    with Bar("scoring", len(task.names), "scenes") as bar:
        match = hold_match(
            entrants,
            request,
            task,
            find_preset("scav"),
            options.out / "scores",
            batch=options.batch,
            tick=bar.update,
            say=say,
        )
    folder = options.out / (request.name + "-boxes" * request.boxes)
    facts = {
        "about": task.about,
        "methods": {str(entrant.row): entrant.facts.trained for entrant in entrants},
        "constant": match.constant.identity,
    }
    tables = evaluation_tables(match.evaluation, match.summary, match.title)
    write_evaluation(folder, task.benchmark, match.evaluation, match.summary, tables, facts)
    return match
