"""`soundwhere analyse`: the paper's analyses, re-run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from soundwhere.analysis.theory import Setting
from soundwhere.cli.ablation import Ablation, run_ablation
from soundwhere.cli.calibration import Calibration, run_calibration
from soundwhere.cli.options import named, parse, say
from soundwhere.cli.scored import Scored, progress, require_matplotlib, settings_of, show, subject_of
from soundwhere.cli.stage_one import StageOne, run_stage_one
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from soundwhere.analysis.convergence import Observations
    from soundwhere.methods.scav.model import SCAV

DESCRIPTION = """\
Run one of the paper's analyses again. Tables are printed; with --out they are also written as Markdown, every number as
JSON, and figures as PNG.

Examples:
  soundwhere analyse convergence --benchmark real-duet --data real-duet/ --model runs/a runs/b --out analysis/
  soundwhere analyse convergence --benchmark real-duet --data real-duet/ --run runs/a --limit 200
  soundwhere analyse convergence --benchmark vggsound-duet --annotations annotations/
  soundwhere analyse protocols --benchmark real-duet --data real-duet/ --model runs/a --out analysis/
  soundwhere analyse ablation --benchmark real-duet --data real-duet/ --config configs/real-duet.toml \\
      --steps-two 200 --split val --out analysis/ablation
  soundwhere analyse stage-one --benchmark real-trio --data real-duet/ --config configs/real-duet.toml \\
      --steps-one 100 --split val --rows recipe duets compact
  soundwhere analyse calibration --benchmark real-duet --data real-duet/ --model runs/a --out analysis/
  soundwhere analyse theory --sigma 0.05 --threshold 0.4 --out analysis/
"""


@dataclass(frozen=True)
class Convergence(Scored):
    """Dominant against second source, for stage 1 and for maps that do not listen; and which source wins."""

    model: Annotated[tuple[str, ...], named("MODEL ...")] = ()
    """Models whose stage 1 is asked; several tell whether they choose the same source. Without a model, only answers
    that neither look nor listen are scored, for which annotations are enough."""
    run: Annotated[Path | None, named("DIR")] = None
    """Folder of a training run: also the gap over its steps, if it kept copies (`soundwhere train --keep-every N`)."""
    gain_db: float = 0.0
    """Change each sound's level at random within plus or minus this, where a benchmark makes all equally loud."""


@dataclass(frozen=True)
class Protocols(Scored):
    """One answer under every preset, and what boxes do to the score of objects that do not fill them."""

    model: Annotated[str | None, named("MODEL")] = None
    """A model: its name, its file, or the folder of a run."""
    predictions: Annotated[Path | None, named("DIR")] = None
    """Heatmaps in this folder instead of a model's."""


@dataclass(frozen=True)
class Theory:
    """The appendix simulated: c1 and c2 over the steps, and which of its statements hold."""

    setting: Annotated[Setting, tyro.conf.arg(name="")]
    out: Annotated[Path | None, named("DIR")] = None
    """Folder for JSON, Markdown and figures, which need matplotlib; without it, tables are only printed."""


Options = (
    Annotated[Convergence, tyro.conf.subcommand("convergence")]
    | Annotated[Protocols, tyro.conf.subcommand("protocols")]
    | Annotated[Ablation, tyro.conf.subcommand("ablation")]
    | Annotated[StageOne, tyro.conf.subcommand("stage-one")]
    | Annotated[Calibration, tyro.conf.subcommand("calibration")]
    | Annotated[Theory, tyro.conf.subcommand("theory", default=Theory(Setting()))]
)


def run(arguments: list[str]) -> int:
    """Run the command."""
    options: Any = parse(Options, arguments, "analyse", description=DESCRIPTION)  # type: ignore[arg-type]
    if isinstance(options, Convergence):
        _convergence(options)
    elif isinstance(options, Protocols):
        _protocols(options)
    elif isinstance(options, Ablation):
        run_ablation(options)
    elif isinstance(options, StageOne):
        run_stage_one(options)
    elif isinstance(options, Calibration):
        run_calibration(options)
    else:
        assert isinstance(options, Theory)
        _theory(options)
    return 0


def _convergence(options: Convergence) -> None:
    if not options.gain_db >= 0:
        raise ConfigError(f"--gain-db is {options.gain_db:g}.", "It must be at least 0.")
    require_matplotlib(options.out)

    from soundwhere.analysis.convergence import kept_steps, observe
    from soundwhere.analysis.plots import gap_over_steps, rows_with_intervals
    from soundwhere.analysis.results import convergence_results, gap, steps_table
    from soundwhere.evaluation.subject import model_label, unique_labels
    from soundwhere.models.registry import load_model
    from soundwhere.training.run import STAGE_ONE

    steps = [] if options.run is None else kept_steps(options.run)
    files = options.model
    if not files and options.run is not None:
        end = options.run / STAGE_ONE
        files = (str(end if end.is_file() else steps[-1][1]),)
    labels = unique_labels([model_label(file) for file in files])
    models = {label: load_model(file) for label, file in zip(labels, files, strict=True)}
    subject = subject_of(options, truths_only=not models)

    def watch(asked: dict[str, SCAV], what: str, controls: bool = True) -> Observations:
        with progress(what, len(subject.scenes)) as tick:
            return observe(
                asked,
                subject.scenes,
                grid=subject.benchmark.grid,
                sigma_px=options.sigma_px,
                gain_db=options.gain_db,
                controls=controls,
                tick=tick,
            )

    observations = watch(models, "scoring")
    tables, values = convergence_results(observations)
    if options.run is not None and not steps:
        say(f"{options.run} kept no copies of its weights: train with --keep-every N to see the gap over the steps.")
    curve = []
    for step, path in steps:
        pairs = watch({"stage 1": load_model(path)}, f"step {step}", controls=False).pairs["stage 1"]
        curve.append((step, gap(pairs)))
    if curve:
        tables.append(steps_table(curve))
        values["steps"] = [
            {"step": step, **{row: {k: asdict(v) for k, v in cells.items()} for row, cells in figures.items()}}
            for step, figures in curve
        ]
    figures = {}
    if options.out is not None:
        rows = {name: gap(pairs) for name, pairs in observations.pairs.items()}
        shown = {
            name: {source: row[source]["ciou@0.3"] for source in ("dominant", "second")} for name, row in rows.items()
        }
        figures["convergence"] = rows_with_intervals(shown, "Dominant and second source", "CIoU@0.3 (%)")
        if curve:
            figures["convergence-steps"] = gap_over_steps(curve)
    settings = {**settings_of(options, subject), "model": list(files), "gain_db": options.gain_db}
    show(options.out, "convergence", settings, tables, values, figures)


def _protocols(options: Protocols) -> None:
    if (options.model is None) == (options.predictions is None):
        raise ConfigError("Either a model or predictions are compared.", "Give one of --model and --predictions.")
    require_matplotlib(options.out)

    from soundwhere.analysis.plots import fill_figure, rows_with_intervals
    from soundwhere.analysis.protocols import compare_protocols
    from soundwhere.analysis.results import protocols_results
    from soundwhere.evaluation.predictions import Predictions
    from soundwhere.evaluation.probes import FilesProbe, Method, ModelProbe
    from soundwhere.evaluation.subject import model_label
    from soundwhere.metrics.bootstrap import intervals
    from soundwhere.models.registry import load_model

    predictions = None if options.predictions is None else Predictions(options.predictions)
    model = None if options.model is None else load_model(options.model)
    subject = subject_of(options, predictions=predictions)
    grid = subject.benchmark.grid
    method: Method
    single: Method | None = None
    if model is not None and options.model is not None:
        label = model_label(options.model)
        method = ModelProbe(label, model, grid)
        single = ModelProbe(label, model, grid, single_frames=True)
    else:
        assert predictions is not None
        method = FilesProbe(predictions.folder.resolve().name, predictions, subject.names)
        say(
            "avgn calls a model on one frame at a time, which files of maps do not allow: the maps are cut into frames."
        )
    with progress("scoring", len(subject.scenes)) as tick:
        comparison = compare_protocols(
            method,
            subject.scenes,
            grid,
            single_frames=single,
            masks=subject.benchmark.truth == "masks",
            sigma_px=options.sigma_px,
            tick=tick,
        )
    tables, values = protocols_results(comparison)
    if comparison.boxed is None:
        say(f"{options.benchmark} has no masks: boxes cannot be compared with them.")
    figures = {}
    if options.out is not None:
        shown = {
            name: {answer: intervals(pairs)["mean_iou"] for answer, pairs in rows.items()}
            for name, rows in comparison.presets.items()
        }
        figures["protocols"] = rows_with_intervals(shown, "The same maps under every preset", "mean IoU (%)")
        if comparison.boxed is not None:
            from soundwhere.analysis.protocols import fill_curve

            boxed = comparison.boxed
            figures["boxes"] = fill_figure(fill_curve(boxed), list(boxed.by_mask), boxed.fill)
    settings = {**settings_of(options, subject), "answer": options.model or str(options.predictions)}
    show(options.out, "protocols", settings, tables, values, figures)


def _theory(options: Theory) -> None:
    require_matplotlib(options.out)

    from soundwhere.analysis.appendix import appendix_checks
    from soundwhere.analysis.plots import theory_figures
    from soundwhere.analysis.results import theory_results
    from soundwhere.analysis.theory import VARIANTS, climb

    setting = options.setting
    tables, values = theory_results(appendix_checks(setting))
    for variant in VARIANTS:
        path = climb(setting, variant)
        values.setdefault("trajectories", {})[variant.name] = {
            "c1": path.coefficients[:, 0].tolist(),
            "c2": path.coefficients[:, 1].tolist(),
            "mask_on_region_1": path.share.tolist(),
            "selects": path.selects,
        }
    figures = {} if options.out is None else theory_figures(setting)
    show(options.out, "theory", asdict(setting), tables, values, figures)
