"""`soundwhere analyse protocols`: one answer under every preset, and boxes against masks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from soundwhere.errors import ConfigError
from soundwhere.terminal.messages import say
from soundwhere.terminal.options import named
from soundwhere.terminal.scenes import Scored, settings_of, task_of

if TYPE_CHECKING:
    from soundwhere.analysis.report import Report


@dataclass(frozen=True)
class Options(Scored):
    """One answer under every preset, and what boxes do to the score of objects that do not fill them."""

    model: Annotated[str | None, named("MODEL")] = None
    """A model: its name, its file, or the folder of a run."""
    predictions: Annotated[Path | None, named("DIR")] = None
    """Heatmaps in this folder instead of a model's."""


def run(options: Options) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    if (options.model is None) == (options.predictions is None):
        raise ConfigError("Either a model or predictions are compared.", "Give one of --model and --predictions.")
    from soundwhere.analysis.protocols import compare_protocols, protocols_results
    from soundwhere.evaluation.answerers import FilesAnswerer, Method
    from soundwhere.evaluation.network_answerer import NetworkAnswerer
    from soundwhere.evaluation.predictions import Predictions
    from soundwhere.evaluation.rows import Row
    from soundwhere.evaluation.task import model_label, told
    from soundwhere.methods.files import load_model
    from soundwhere.terminal.progress import Bar

    predictions = None if options.predictions is None else Predictions(options.predictions)
    network = None if options.model is None else load_model(options.model)
    task = task_of(options, predictions=predictions)
    grid = task.benchmark.grid
    method: Method
    single: Method | None = None
    if network is not None and options.model is not None:
        label = told(model_label(options.model), network)
        method = NetworkAnswerer(label, network, grid, rows=[Row(label)])
        single = NetworkAnswerer(label, network, grid, rows=[Row(label)], single_frames=True)
    else:
        assert predictions is not None
        method = FilesAnswerer(predictions.folder.resolve().name, predictions, task.names)
        say(
            "avgn calls a model on one frame at a time, which files of maps do not allow: the maps are cut into frames."
        )
    masks = task.benchmark.truth == "masks"
    with Bar("scoring", len(task.names), "scenes") as bar:
        comparison = compare_protocols(
            method,
            task.scenes,
            grid,
            single_frames=single,
            masks=masks,
            sigma_px=options.sigma_px,
            tick=bar.update,
        )
    if comparison.boxed is None:
        say(f"{options.benchmark} has no masks: boxes cannot be compared with them.")
    settings = {**settings_of(options, task), "answer": options.model or str(options.predictions)}
    return protocols_results(comparison), settings
