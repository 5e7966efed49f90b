"""`soundwhere analyse ablation`: train what is missing, score every row, print the paper's numbers beside ours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from soundwhere.cli.options import FLAG, named, say
from soundwhere.cli.scored import Scored, progress, require_matplotlib, settings_of, show, subject_of
from soundwhere.config import Config, read_config
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.methods.scav.model import SCAV


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
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("analysis/ablation")
    """Folder of the shared stage 1, the rows, and the results."""


def run_ablation(options: Ablation) -> None:
    """Run the command."""
    require_matplotlib(options.out)

    from soundwhere.analysis.ablation import ALONE, FULL, LABELS, LITERAL, ablation_rows, score_rows
    from soundwhere.analysis.ablation_report import ablation_results, shown
    from soundwhere.analysis.plots import rows_with_intervals

    recipe = recipe_of(options)
    subject = subject_of(options)  # before hours of training, whose scores would have nothing to be scored on
    known = ablation_rows(recipe)
    check_rows(options.rows, (ALONE, *known))
    models = _models(options, recipe)
    with progress("scoring", len(subject.scenes)) as tick:
        rows = score_rows(models, subject.scenes, subject.benchmark.grid, sigma_px=options.sigma_px, tick=tick)
    tables, values = ablation_results(rows, LITERAL if LITERAL in known else FULL)
    drawn = rows_with_intervals(shown(rows), "Ablation", "CIoU@0.3 (%)")
    about = {
        **settings_of(options, subject),
        "config": str(options.config),
        "steps_one": recipe.train.steps_one if options.start is None else f"as in {options.start}",
        "steps_two": recipe.train.steps_two,
        "seed": recipe.train.seed,
        "rows": [LABELS[name] for name in models],
    }
    show(options.out, "ablation", about, tables, values, {"ablation": drawn})


def check_rows(asked: Sequence[str], known: Sequence[str]) -> None:
    """Refuse rows that do not exist."""
    wrong = [name for name in asked if name not in known]
    if wrong:
        raise ConfigError(f"This recipe has no row {', '.join(wrong)}.", f"Choose among {', '.join(known)}.")


def recipe_of(options: Trained) -> Config:
    """The configuration file with what was changed on the command line."""
    recipe = read_config(options.config)
    changes = {
        name: value
        for name in ("steps_one", "steps_two", "seed", "device")
        if (value := getattr(options, name, None)) is not None
    }
    recipe = replace(recipe, train=replace(recipe.train, **changes))
    root = options.root or recipe.data.root or (options.data if recipe.data.source != "synthetic" else None)
    recipe = replace(recipe, data=replace(recipe.data, root=root, cache=options.cache or recipe.data.cache))
    if options.visual_weights is not None:
        recipe = replace(recipe, model=replace(recipe.model, visual_weights=options.visual_weights))
    return recipe


def _models(options: Ablation, recipe: Config) -> dict[str, SCAV]:
    """The model of every row that is asked for, trained if need be."""
    from soundwhere.analysis.ablation import ALONE, JOINT, LABELS, ablation_rows, train_row, train_stage_one
    from soundwhere.distributed import initialise
    from soundwhere.models.registry import load_model, model_file

    out = options.out
    if options.start is not None:
        start = model_file(options.start)
    else:
        say(f"shared stage 1: {out / 'stage-one'}")
        start = train_stage_one(recipe, out / "stage-one", download=options.download)
    device = initialise(recipe.train.device)
    models = {ALONE: load_model(start).without_stage_two()}
    for name, config in ablation_rows(recipe).items():
        if options.rows and name not in options.rows:
            continue
        folder = out / "rows" / name
        say(f"{LABELS[name]}: {folder}")
        begin = None if name == JOINT else start
        models[name] = load_model(train_row(config, folder, start=begin, download=options.download))
    return {name: model.to(device).eval() for name, model in models.items()}
