"""`soundwhere analyse convergence`: which source wins, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from soundwhere.errors import ConfigError
from soundwhere.terminal.messages import say
from soundwhere.terminal.options import named
from soundwhere.terminal.scenes import Scored, settings_of, task_of

if TYPE_CHECKING:
    from soundwhere.analysis.convergence import Observations
    from soundwhere.analysis.report import Report
    from soundwhere.methods.method import Network


@dataclass(frozen=True)
class Options(Scored):
    """Dominant against second source, for stage 1 and for maps that do not listen; and which source wins."""

    model: Annotated[tuple[str, ...], named("MODEL ...")] = ()
    """Models whose stage 1 is asked; several tell whether they choose the same source. Without a model, only answers
    that neither look nor listen are scored, for which annotations are enough."""
    run: Annotated[Path | None, named("DIR")] = None
    """Folder of a training run: also the gap over its steps, if it kept copies (`soundwhere train --keep-every N`)."""
    gain_db: float = 0.0
    """Change each sound's level at random within plus or minus this, where a benchmark makes all equally loud."""


def run(options: Options) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    if not options.gain_db >= 0:
        raise ConfigError(f"--gain-db is {options.gain_db:g}.", "It must be at least 0.")
    from soundwhere.analysis.convergence import convergence_results, gap, kept_steps, observe
    from soundwhere.evaluation.task import model_label, unique_labels
    from soundwhere.methods.files import load_model
    from soundwhere.terminal.progress import Bar
    from soundwhere.training.run import stage_file

    steps = [] if options.run is None else kept_steps(options.run)
    files = options.model
    if not files and options.run is not None:
        end = options.run / stage_file("one")
        files = (str(end if end.is_file() else steps[-1][1]),)
    labels = unique_labels([model_label(file) for file in files])
    networks = {label: load_model(file) for label, file in zip(labels, files, strict=True)}
    task = task_of(options, truths_only=not networks)

    def watch(asked: dict[str, Network], what: str, controls: bool = True) -> Observations:
        chosen = {name: getattr(options, name) for name in ("sigma_px", "gain_db")}
        grid = task.benchmark.grid
        with Bar(what, len(task.names), "scenes") as bar:
            return observe(asked, task.scenes, task.names, grid=grid, controls=controls, tick=bar.update, **chosen)

    observations = watch(networks, "scoring")
    if options.run is not None and not steps:
        say(f"{options.run} kept no copies of its weights: train with --keep-every N to see the gap over the steps.")
    curve = [
        (step, gap(watch({"kept": load_model(path)}, f"step {step}", controls=False).pairs["kept"]))
        for step, path in steps
    ]
    settings = {**settings_of(options, task), "model": list(files), "gain_db": options.gain_db}
    return convergence_results(observations, curve), settings
