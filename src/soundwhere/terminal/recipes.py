"""Options that say what is trained: a recipe's file, and what is changed in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from soundwhere.errors import ConfigError
from soundwhere.terminal.options import FLAG, named
from soundwhere.terminal.scenes import Scored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.config import Config


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


def recipe_of(options: Trained) -> Config:
    """The configuration file with what was changed on the command line."""
    from soundwhere.methods.catalogue import read_config
    from soundwhere.methods.scav.config import SCAVConfig

    recipe = read_config(options.config)
    if not isinstance(recipe.method, SCAVConfig):
        raise ConfigError(
            f"{options.config} is a recipe of the method {recipe.method.family}, not of scav.",
            "This analysis changes one thing at a time in SCAV: give a recipe such as configs/real-duet.toml.",
        )
    return changed(rooted(recipe, options), options, given(options, "steps_one", "steps_two", "visual_weights"))


def rooted(recipe: Config, options: Any) -> Config:
    """A recipe on the folder of --root, else its own, else that of --data, unless it makes clips up."""
    root = options.root or recipe.data.root or (options.data if recipe.data.source != "synthetic" else None)
    return replace(recipe, data=replace(recipe.data, root=root))


def changed(recipe: Config, options: Any, settings: dict[str, Any]) -> Config:
    """A recipe with settings of its method, and with the --cache, --seed and --device that were given."""
    return replace(
        recipe,
        method=replace(recipe.method, **settings),
        data=replace(recipe.data, **given(options, "cache")),
        train=replace(recipe.train, **given(options, "seed", "device")),
    )


def given(options: object, *names: str) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def check_rows(asked: Sequence[str], known: Sequence[str]) -> None:
    """Refuse rows that a recipe does not have."""
    wrong = [name for name in asked if name not in known]
    if wrong:
        raise ConfigError(f"This recipe has no row {', '.join(wrong)}.", f"Choose among {', '.join(known)}.")
