"""Rows of a table that are training runs: trained once, gone on with where they stopped, or found finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soundwhere.config import changed_settings, to_dict
from soundwhere.errors import ConfigError
from soundwhere.files import parse_json, write_json
from soundwhere.methods.catalogue import config_from, find_method
from soundwhere.methods.files import sha256
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import BEST, CHANGEABLE, LATEST, stage_file, train

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.config import Config

_ROW = "row.json"


def train_row(config: Config, folder: Path, *, start: Path | None = None, download: bool = False) -> Path:
    """Train one row in its folder, go on with it, or find it finished; returns the file of the model.

    Args:
        config: Of the row.
        folder: Of the row.
        start: The model it starts from; None trains from the beginning.
        download: As in `train`.

    Raises:
        ConfigError: The folder holds a row of other settings, or of another start.
    """
    origin = None if start is None else sha256(start)
    latest = folder / LATEST
    _claim(folder / _ROW, config, origin, begun=latest.exists())
    if latest.exists():
        _, progress = read_progress(latest)
        stages = find_method(config.method.family).stages(config.method)
        (steps,) = (stage.phases[-1].until for stage in stages if stage.name == progress.stage)
        # stage 1's file follows its last checkpoint
        lacking = progress.stage == "one" and not (folder / stage_file("one")).is_file()
        if progress.step < steps or lacking:
            train(config, folder, resume=True)
    else:
        train(config, folder, start=start, download=download)
    return folder / BEST


def _claim(path: Path, config: Config, origin: str | None, begun: bool) -> None:
    """Note in a folder what is trained there or, where that has begun, make sure that it is what is noted."""
    if not (begun and path.is_file()):
        write_json(path, {"config": to_dict(config), "stage_one": origin})
        return
    try:
        noted = parse_json(path.read_bytes())
        before, started_from = config_from(noted["config"], str(path)), noted["stage_one"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} does not say what was trained there ({type(error).__name__}: {error}).",
            "Move that folder away, or give another --out.",
        ) from error
    # where things are and how it logs may change; how long and how fast it trains is part of what a row is
    changed = sorted(set(changed_settings(before, config)) - CHANGEABLE)
    if started_from != origin:
        changed.append("the stage 1 it starts from")
    if changed:
        raise ConfigError(
            f"{path.parent} holds a row that was trained with other settings: {', '.join(changed)}.",
            "Give the settings it was trained with, or another --out.",
        )
