"""`soundwhere analyse ablation`: train what is missing, score every row, print the paper's numbers beside ours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from soundwhere.cli.options import say
from soundwhere.config import Config, read_config
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.cli.analyse import Ablation, StageOne
    from soundwhere.models.scav import SCAV


def run_ablation(options: Ablation) -> None:
    """Run the command."""
    from soundwhere.analysis.ablation import ALONE, LABELS, ablation_rows, score_rows
    from soundwhere.analysis.ablation_report import ablation_results, shown
    from soundwhere.analysis.plots import rows_with_intervals
    from soundwhere.cli.analyse import progress, settings_of, show, subject_of

    recipe = recipe_of(options)
    subject = subject_of(options)  # before hours of training, whose scores would have nothing to be scored on
    check_rows(options.rows, (ALONE, *ablation_rows(recipe)))
    models = _models(options, recipe)
    with progress("scoring", len(subject.scenes)) as tick:
        rows = score_rows(models, subject.scenes, subject.benchmark.grid, sigma_px=options.sigma_px, tick=tick)
    tables, values = ablation_results(rows)
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


def recipe_of(options: Ablation | StageOne) -> Config:
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
    from soundwhere.models.registry import load_model

    out, start = options.out, options.start
    if start is None:
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
