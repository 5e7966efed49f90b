"""`soundwhere analyse collections`: recordings never heard, trained without them and scored on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from soundwhere.errors import ConfigError
from soundwhere.terminal.messages import say
from soundwhere.terminal.options import FLAG, named
from soundwhere.terminal.recipes import changed, given

if TYPE_CHECKING:
    from soundwhere.analysis.report import Report


@dataclass(frozen=True)
class Options:
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


def run(options: Options) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    from soundwhere.analysis.collections import FOLDS, collections_results, fold_recipes, score_fold
    from soundwhere.analysis.trained_rows import train_row
    from soundwhere.data.benchmarks import catalogue
    from soundwhere.distributed import initialise
    from soundwhere.evaluation.task import Request, choose_scenes
    from soundwhere.methods.catalogue import read_config
    from soundwhere.methods.files import load_model
    from soundwhere.terminal.progress import Bar

    recipe = read_config(options.config)
    settings = given(options, "steps_one", "steps_two", "visual_weights", "audio_weights")
    unknown = [name for name in settings if not hasattr(recipe.method, name)]
    if unknown:
        raise ConfigError(
            f"{recipe.method.family} has no setting {', '.join(unknown)}.", "Leave it out, or change the recipe's file."
        )
    recipe = changed(replace(recipe, data=replace(recipe.data, root=options.data)), options, settings)
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
    about = {
        "config": str(options.config),
        "split": options.split,
        "trios": {fold: len(task.names) for fold, task in tasks.items()},
        "seed": recipe.train.seed,
        **settings,
    }
    return collections_results(found), about
