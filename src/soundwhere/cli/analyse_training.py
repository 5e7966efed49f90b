"""`soundwhere analyse ablation`, `stage-one` and `collections`: train what is missing, and score every row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from soundwhere.cli.analyse_scenes import Scored, settings_of, task_of
from soundwhere.cli.options import FLAG, named, say
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.analysis.report import Report
    from soundwhere.config import Config
    from soundwhere.methods.method import Network


@dataclass(frozen=True)
class Trained(Scored):
    """What to train from."""

    config: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("configs/real-duet.toml")
    """TOML file of the full recipe, which every row changes in one thing."""
    root: Annotated[Path | None, named("DIR")] = None
    """Folder to train on; by default that of the file, else --data."""
    cache: Annotated[Path | None, named("DIR")] = None
    """Folder for frozen visual features, instead of the file's."""
    rows: Annotated[tuple[str, ...], named("ROW ...")] = ()
    """Only these rows; an unknown one lists them all."""
    steps_one: Annotated[int | None, named("N")] = None
    """Steps of stage 1, instead of the file's."""
    seed: Annotated[int | None, named("N")] = None
    """Seed of every training, instead of the file's."""
    device: Annotated[str | None, named("DEVICE")] = None
    """auto, cpu, cuda or cuda:N, instead of the file's."""
    visual_weights: Annotated[str | None, named("FILE")] = None
    """Weights the visual encoder starts from, instead of the file's."""
    download: Annotated[bool, *FLAG] = False
    """Fetch ImageNet weights if they are not on this machine."""


@dataclass(frozen=True)
class Ablation(Trained):
    """The paper's ablation from one shared stage 1; rows are trained, resumed or, if finished, found in --out."""

    start: Annotated[Path | None, tyro.conf.arg(name="from", metavar="MODEL", help_behavior_hint="")] = None
    """The shared stage 1: a file, the folder of a run or a name; by default it is trained first."""
    steps_two: Annotated[int | None, named("N")] = None
    """Steps of stage 2 in every row, instead of the file's."""
    minutes: Annotated[float | None, named("M")] = None
    """Stop a row whose steps have taken so long; it is scored as it is."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("analysis/ablation")
    """Folder of the shared stage 1, the rows, and the results."""


@dataclass(frozen=True)
class StageOne(Trained):
    """How stage 1 learns to hear: a recipe with one thing changed in every row, which is trained, resumed or found."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("analysis/stage-one")
    """Folder of the rows and the results."""


@dataclass(frozen=True)
class Collections:
    """Recordings never heard: trained without one collection of each class that has two, and scored on it.

    Without the first is to choose by, without the second to report. Both are trained, resumed or, if finished, found.
    """

    data: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder of wide-duet."""
    config: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("configs/scav-wide.toml")
    """TOML file of the recipe."""
    folds: Annotated[tuple[Literal["first", "second"], ...], named("{first,second} ...")] = ("first", "second")
    """Which collections are left out, one after the other."""
    cache: Annotated[Path | None, named("DIR")] = None
    """Folder for frozen visual features, instead of the file's."""
    steps_one: Annotated[int | None, named("N")] = None
    """Steps of stage 1, instead of the file's."""
    steps_two: Annotated[int | None, named("N")] = None
    """Steps of stage 2, instead of the file's."""
    seed: Annotated[int | None, named("N")] = None
    """Seed of both trainings, instead of the file's."""
    device: Annotated[str | None, named("DEVICE")] = None
    """auto, cpu, cuda or cuda:N, instead of the file's."""
    visual_weights: Annotated[str | None, named("FILE")] = None
    """Weights the visual encoder starts from, instead of the file's."""
    audio_weights: Annotated[str | None, named("FILE")] = None
    """Weights the audio encoder starts from, instead of the file's."""
    download: Annotated[bool, *FLAG] = False
    """Fetch ImageNet weights if they are not on this machine."""
    split: Literal["val", "test"] = "test"
    """Whose photos are shown."""
    limit: Annotated[int | None, named("N")] = None
    """The first N trios of each fold only."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("analysis/collections")
    """Folder of both runs, and the results."""


def ablation(options: Ablation) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    from soundwhere.analysis.ablation import (
        ALONE,
        FULL,
        JOINT,
        LABELS,
        LITERAL,
        ablation_results,
        ablation_rows,
        score_rows,
        train_stage_one,
    )
    from soundwhere.analysis.trained_rows import train_row
    from soundwhere.cli.terminal import Bar
    from soundwhere.distributed import initialise
    from soundwhere.methods.files import load_model, model_file
    from soundwhere.methods.scav.model import SCAV

    recipe = _recipe(options)
    task = task_of(options)  # before hours of training, whose scores would have nothing to be scored on
    known = ablation_rows(recipe)
    _check_rows(options.rows, (ALONE, *known))
    if options.start is not None:
        start = model_file(options.start)
    else:
        say(f"shared stage 1: {options.out / 'stage-one'}")
        start = train_stage_one(recipe, options.out / "stage-one", download=options.download)
    alone = load_model(start)
    assert isinstance(alone, SCAV)
    networks: dict[str, Network] = {ALONE: alone.without_stage_two()}
    for name, config in known.items():
        if options.rows and name not in options.rows:
            continue
        folder = options.out / "rows" / name
        say(f"{LABELS[name]}: {folder}")
        begin = None if name == JOINT else start
        longest_s = 60 * (options.minutes or math.inf)
        file = train_row(config, folder, start=begin, download=options.download, longest_s=longest_s)
        networks[name] = load_model(file)
    device = initialise(recipe.train.device)
    asked = {name: network.to(device).eval() for name, network in networks.items()}
    with Bar("scoring", len(task.names), "scenes") as bar:
        rows = score_rows(asked, task.scenes, task.benchmark.grid, sigma_px=options.sigma_px, tick=bar.update)
    method = vars(recipe.method)
    settings = {
        **settings_of(options, task),
        "config": str(options.config),
        "steps_one": method["steps_one"] if options.start is None else f"as in {options.start}",
        "steps_two": method["steps_two"],
        "seed": recipe.train.seed,
        "rows": [LABELS[name] for name in networks],
    }
    return ablation_results(rows, LITERAL if LITERAL in known else FULL), settings


def stage_one(options: StageOne) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    from soundwhere.analysis.stage_one import check_apart, stage_one_results, stage_one_rows, train_and_score
    from soundwhere.cli.terminal import Bar

    recipe = _recipe(options)
    task = task_of(options)
    rows = stage_one_rows(recipe)
    _check_rows(options.rows, list(rows))
    check_apart(task.scenes)  # before hours of training
    found = {}
    for name, config in rows.items():
        if options.rows and name not in options.rows:
            continue
        folder = options.out / "rows" / name
        say(f"{name}: {folder}")
        with Bar("scoring", len(task.names), "scenes") as bar:
            found[name] = train_and_score(
                config, folder, task.scenes, task.benchmark.grid, download=options.download, tick=bar.update
            )
    settings = {**settings_of(options, task), "config": str(options.config), "seed": recipe.train.seed}
    return stage_one_results(found), settings


def collections(options: Collections) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    from soundwhere.analysis.collections import FOLDS, collections_results, fold_recipes, score_fold
    from soundwhere.analysis.trained_rows import train_row
    from soundwhere.cli.terminal import Bar
    from soundwhere.data.benchmarks import catalogue
    from soundwhere.distributed import initialise
    from soundwhere.evaluation.task import Request, choose_scenes
    from soundwhere.methods.catalogue import read_config
    from soundwhere.methods.files import load_model

    recipe = read_config(options.config)
    changed = _given(options, "steps_one", "steps_two", "visual_weights", "audio_weights")
    unknown = [name for name in changed if not hasattr(recipe.method, name)]
    if unknown:
        raise ConfigError(
            f"{recipe.method.family} has no setting {', '.join(unknown)}.", "Leave it out, or change the recipe's file."
        )
    recipe = replace(
        recipe,
        method=replace(recipe.method, **changed),
        data=replace(recipe.data, root=options.data, cache=options.cache or recipe.data.cache),
        train=replace(recipe.train, **_given(options, "seed", "device")),
    )
    tasks = {}
    for fold in options.folds:  # all of them before hours of training
        asked = catalogue.Options(split=options.split, left_out=fold)
        tasks[fold] = choose_scenes(Request("collection-trio", options.data, None, asked).open(), limit=options.limit)
    device = initialise(recipe.train.device)
    found = {}
    for fold, config in fold_recipes(recipe).items():
        if fold not in tasks:
            continue
        folder = options.out / "rows" / fold
        say(f"without the {fold} collection ({FOLDS[fold]}): {folder}")
        network = load_model(train_row(config, folder, download=options.download)).to(device)
        with Bar("scoring", len(tasks[fold].names), "scenes") as bar:
            found[fold] = score_fold(network, tasks[fold], tick=bar.update)
    settings = {
        "config": str(options.config),
        "split": options.split,
        "trios": {fold: len(task.names) for fold, task in tasks.items()},
        "seed": recipe.train.seed,
        **changed,
    }
    return collections_results(found), settings


def _given(options: object, *names: str) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def _recipe(options: Trained) -> Config:
    """The configuration file with what was changed on the command line."""
    from soundwhere.methods.catalogue import read_config
    from soundwhere.methods.scav.config import SCAVConfig

    recipe = read_config(options.config)
    if not isinstance(recipe.method, SCAVConfig):
        raise ConfigError(
            f"{options.config} is a recipe of the method {recipe.method.family}, not of scav.",
            "This analysis changes one thing at a time in SCAV: give a recipe such as configs/real-duet.toml.",
        )
    root = options.root or recipe.data.root or (options.data if recipe.data.source != "synthetic" else None)
    return replace(
        recipe,
        method=replace(recipe.method, **_given(options, "steps_one", "steps_two", "visual_weights")),
        data=replace(recipe.data, root=root, cache=options.cache or recipe.data.cache),
        train=replace(recipe.train, **_given(options, "seed", "device")),
    )


def _check_rows(asked: Sequence[str], known: Sequence[str]) -> None:
    wrong = [name for name in asked if name not in known]
    if wrong:
        raise ConfigError(f"This recipe has no row {', '.join(wrong)}.", f"Choose among {', '.join(known)}.")
