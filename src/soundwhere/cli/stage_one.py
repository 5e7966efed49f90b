"""`soundwhere analyse stage-one`: train what is missing, and print how every row hears."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from soundwhere.cli.ablation import Trained, check_rows, recipe_of
from soundwhere.cli.options import say
from soundwhere.cli.scored import settings_of, show, subject_of


@dataclass(frozen=True)
class StageOne(Trained):
    """How stage 1 learns to hear: a recipe with one thing changed in every row, which is trained, resumed or found."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("analysis/stage-one")
    """Folder of the rows and the results."""


def run_stage_one(options: StageOne) -> None:
    """Run the command."""
    from soundwhere.analysis.stage_one import check_apart, stage_one_results, stage_one_rows, train_and_score

    recipe = recipe_of(options)
    subject = subject_of(options)
    rows = stage_one_rows(recipe)
    check_rows(options.rows, list(rows))
    check_apart(subject.scenes)  # before hours of training
    found = {}
    for name, config in rows.items():
        if options.rows and name not in options.rows:
            continue
        folder = options.out / "rows" / name
        say(f"{name}: {folder}")
        found[name] = train_and_score(config, folder, subject.scenes, subject.benchmark.grid, download=options.download)
    tables, values = stage_one_results(found)
    about = {**settings_of(options, subject), "config": str(options.config), "seed": recipe.train.seed}
    show(options.out, "stage-one", about, tables, values, {})
