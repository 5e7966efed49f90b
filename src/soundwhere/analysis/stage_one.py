"""How stage 1 learns to hear: a recipe, and what becomes of it with one thing changed.

A row's folder is a training run of its own. No label is read in training; scoring asks in which frame the similarity
peaks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from soundwhere.analysis.report import Report
from soundwhere.analysis.trained_rows import train_row
from soundwhere.errors import DataError
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.reading import heard_apart
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.scoring import evaluate
from soundwhere.evaluation.summary import as_json, known_mean
from soundwhere.evaluation.tables import INTERVALS
from soundwhere.methods.files import load_model
from soundwhere.metrics.listening import FramesFound
from soundwhere.metrics.presets import find_preset
from soundwhere.metrics.report import figures_table
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import LATEST, stage_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from soundwhere.config import Config
    from soundwhere.methods.method import Network
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Scene

    Changes = dict[str, dict[str, Any]]
    Values = NDArray[np.float64]

FINE: Final = "14x14"
_COMPACT: Final = {"audio": "compact", "audio_weights": "none"}
CHANGES: Final[dict[str, Changes]] = {
    "recipe": {},
    "paper-loss": {"method": {"stage_one": "paper"}},
    "duets": {"method": {"single_fraction": 0.0}},
    "curriculum": {"method": {"single_fraction": 0.5}},
    "max-pooling": {"method": {"pooling": "max"}},
    FINE: {"method": {"fine_grid": True}},
    "from-noise": {"method": {"audio_weights": "none"}},
    "compact": {"method": _COMPACT},
    "compact-paper-spectrogram": {"method": {**_COMPACT, "spectrogram": "paper"}},
    "compact-peers-spectrogram": {"method": {**_COMPACT, "spectrogram": "peers"}},
    "resnet18": {"method": {"audio": "resnet18", "audio_weights": "none"}},
    "no-interference": {"data": {"interference": 0.0}},
    "no-blanks": {"method": {"blank": 0}},
}
"""What each row changes in the recipe, by section of the configuration."""


@dataclass(frozen=True)
class Trained:
    """A row that was trained.

    Attributes:
        hearing: What `hearing` found.
        steps: Of the optimiser.
        seconds: They took.
    """

    hearing: dict[str, Values]
    steps: int
    seconds: float


def stage_one_rows(recipe: Config) -> dict[str, Config]:
    """The configuration of every row that the recipe's eye allows."""
    stage_one = replace(recipe, method=replace(recipe.method, stage="one"))  # type: ignore[call-arg] # SCAV's
    rows = {}
    for name, changes in CHANGES.items():
        if name == FINE and vars(recipe.method)["visual"] != "mobilenet_v2":
            continue  # no other eye has a finer grid
        sections = {section: replace(getattr(stage_one, section), **values) for section, values in changes.items()}
        rows[name] = replace(stage_one, **sections)
    return rows


def train_and_score(
    config: Config,
    folder: Path,
    scenes: Sequence[Scene],
    grid: Grid,
    *,
    download: bool = False,
    tick: Callable[[int, int], None] | None = None,
) -> Trained:
    """Train a row, or find it trained, and score it."""
    file = train_row(config, folder, download=download, gives=stage_file("one"))
    _, progress = read_progress(folder / LATEST)
    found = hearing(load_model(file), scenes, grid, tick)
    return Trained(found, progress.step, progress.seconds)


def check_apart(scenes: Sequence[Scene]) -> None:
    """Refuse scenes whose sounds are not known apart: they do not tell how a sound is heard alone.

    Raises:
        DataError: There is one.
    """
    for scene in scenes:
        if not heard_apart(scene):
            raise DataError(
                f"The scene {scene.name} has {len(scene.masks)} sources and {len(scene.sounds)} separate sounds.",
                "Choose a benchmark with several sources and a recording of each, such as real-duet.",
            )


def hearing(
    network: Network, scenes: Sequence[Scene], grid: Grid, tick: Callable[[int, int], None] | None = None
) -> dict[str, Values]:
    """Ask a stage 1 where the sounds of scenes are, alone and mixed.

    Args:
        network: A SCAV, in eval mode.
        scenes: Whose sounds are known apart.
        grid: Rows and columns of frames in the pictures.
        tick: Called with the number of scenes done and that of all.

    Returns:
        For each scene: `solo`, the share of its sounds whose peak lies in the right frame when heard alone; `frames`,
        whether the mixture's highest frames are the sounding ones; `peak`, whether its peak lies in one of them; NaN
        where every frame sounds.
    """
    solo, mixed = Row("row", answer="solo sounds"), Row("row", answer="stage 1")
    asked = NetworkAnswerer("row", network, grid, rows=[solo, mixed])
    names = [str(number) for number in range(len(scenes))]
    found = evaluate(scenes, names, [asked], find_preset("scav"), grid, measures=("frames",), tick=tick).scores
    frames = dict(zip(FramesFound._fields, found[mixed].frames.T, strict=True))
    return {"solo": found[solo].solo[:, 0], "frames": frames["by_peak"], "peak": frames["peak"]}


def stage_one_results(rows: dict[str, Trained]) -> Report:
    """The table of all rows."""
    found = {name: {measured: known_mean(each) for measured, each in row.hearing.items()} for name, row in rows.items()}
    trained = {name: {"steps": str(row.steps), "minutes": f"{row.seconds / 60:.1f}"} for name, row in rows.items()}
    columns = {
        "solo": "solo peak (%)",
        "frames": "frames right (%)",
        "peak": "peak in a sounding frame (%)",
        "steps": "steps",
        "minutes": "minutes",
    }
    table = figures_table(
        "Stage 1",
        {name: {**found[name], **trained[name]} for name in rows},
        columns,
        "Solo peak: hearing one source alone, the similarity peaks in that source's frame.",
        "Frames right: hearing the mixture, the highest frames are exactly the sounding ones.",
        f"{INTERVALS} Minutes: those of the optimiser's steps.",
        first="changed",
    )
    values = {name: {**as_json(found[name]), "steps": row.steps, "seconds": row.seconds} for name, row in rows.items()}
    return Report([table], values)
