"""Rows of a table that are training runs: trained once, gone on with where they stopped, or found finished."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from soundwhere.config import changed_settings, to_dict
from soundwhere.errors import ConfigError, SoundwhereError
from soundwhere.files import claimed_folder, parse_json, sha256, write_json
from soundwhere.methods.catalogue import config_from, find_method
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import BEST, CHANGEABLE, LATEST, train

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.config import Config

_ROW = "row.json"


def train_row(
    config: Config,
    folder: Path,
    *,
    start: Path | None = None,
    download: bool = False,
    gives: str = BEST,
    data: str | None = None,
    longest_s: float = math.inf,
) -> Path:
    """Train one row in its folder, go on with it, or find it finished; returns the file of the model.

    Args:
        config: Of the row.
        folder: Of the row.
        start: The model it starts from; None trains from the beginning.
        download: As in `train`.
        gives: The file that the last stage leaves and that is returned.
        data: Names the content of what is trained on, where that may change.
        longest_s: Seconds of steps after which training stops, for the time being: the latest checkpoint is returned.

    Raises:
        ConfigError: The folder holds a row of other settings, of another start, or trained on other data.
    """
    check_row(config, folder, start=start, data=data)
    latest = folder / LATEST
    if not latest.exists():
        note = {"config": to_dict(config), "stage_one": None if start is None else sha256(start), "data": data}
        with claimed_folder(folder):
            write_json(folder / _ROW, note)
            try:
                file = train(config, folder, start=start, download=download, longest_s=longest_s)
            except SoundwhereError:
                if not latest.exists():  # refused: what has not begun is no row
                    (folder / _ROW).unlink(missing_ok=True)
                raise
    else:
        _, progress = read_progress(latest)
        last = find_method(config.method.family).stages(config.method)[-1]
        ended = progress.stage == last.name and progress.step >= last.phases[-1].until
        if ended and (folder / gives).is_file():
            return folder / gives
        if not ended and progress.seconds >= longest_s:
            return latest
        file = train(config, folder, resume=True, longest_s=longest_s)
    return file if file == latest else folder / gives


def check_row(config: Config, folder: Path, *, start: Path | None = None, data: str | None = None) -> None:
    """Make sure that a folder in which training has begun is that of this row; see `train_row`."""
    path = folder / _ROW
    if not ((folder / LATEST).exists() and path.is_file()):
        return
    try:
        noted = parse_json(path.read_bytes())
        before, started_from = config_from(noted["config"], str(path)), noted["stage_one"]
        trained_on = noted.get("data")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} does not say what was trained there ({type(error).__name__}: {error}).",
            "Move that folder away, or give another --out.",
        ) from error
    # where things are and how it logs may change; how long and how fast it trains is part of what a row is
    changed = sorted(set(changed_settings(before, config)) - CHANGEABLE)
    if started_from != (None if start is None else sha256(start)):
        changed.append("the stage 1 it starts from")
    if None not in (trained_on, data) and trained_on != data:
        changed.append("the data it is trained on")
    if changed:
        raise ConfigError(
            f"{path.parent} holds a row that was trained with other settings: {', '.join(changed)}.",
            "Give the settings it was trained with, or another --out.",
        )
