"""`soundwhere analyse ablation`: the paper's ablation, every row trained and scored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from soundwhere.terminal.messages import say
from soundwhere.terminal.options import check_positive, named
from soundwhere.terminal.recipes import Trained, check_rows, recipe_of
from soundwhere.terminal.scenes import settings_of, task_of

if TYPE_CHECKING:
    from soundwhere.analysis.report import Report
    from soundwhere.methods.method import Network


@dataclass(frozen=True)
class Options(Trained):
    """The paper's ablation from one shared stage 1; rows are trained, resumed or, if finished, found in --out."""

    start: Annotated[Path | None, tyro.conf.arg(name="from", metavar="MODEL", help_behavior_hint="")] = None
    """The shared stage 1: a file, the folder of a run or a name; by default it is trained first."""
    steps_two: Annotated[int | None, named("N")] = None
    """Steps of stage 2 in every row, instead of the file's."""
    minutes: Annotated[float | None, named("M")] = None
    """Stop a row whose steps have taken so long; it is scored as it is."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("analysis/ablation")
    """Folder of the shared stage 1, the rows, and the results."""


def run(options: Options) -> tuple[Report, dict[str, Any]]:
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
    from soundwhere.distributed import initialise
    from soundwhere.methods.files import check_kind, load_model, model_file
    from soundwhere.methods.scav.model import SCAV
    from soundwhere.terminal.progress import Bar

    check_positive(minutes=options.minutes)
    recipe = recipe_of(options)
    task = task_of(options)  # before hours of training, whose scores would have nothing to be scored on
    known = ablation_rows(recipe)
    check_rows(options.rows, (ALONE, *known))
    if options.start is not None:
        start = model_file(options.start)
    else:
        say(f"shared stage 1: {options.out / 'stage-one'}")
        start = train_stage_one(recipe, options.out / "stage-one", download=options.download)
    remedy = "Give a stage 1 of SCAV with --from, or leave it out to train one."
    alone = check_kind(load_model(start), SCAV, start, remedy)
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
