"""`soundwhere analyse stage-one`: how stage 1 learns to hear, every row trained and scored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from soundwhere.terminal.messages import say
from soundwhere.terminal.recipes import Trained, check_rows, recipe_of
from soundwhere.terminal.scenes import settings_of, task_of

if TYPE_CHECKING:
    from soundwhere.analysis.report import Report


@dataclass(frozen=True)
class Options(Trained):
    """How stage 1 learns to hear: a recipe with one thing changed in every row, which is trained, resumed or found."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("analysis/stage-one")
    """Folder of the rows and the results."""


def run(options: Options) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    from soundwhere.analysis.stage_one import check_apart, stage_one_results, stage_one_rows, train_and_score
    from soundwhere.terminal.progress import Bar

    recipe = recipe_of(options)
    task = task_of(options)
    rows = stage_one_rows(recipe)
    check_rows(options.rows, list(rows))
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
