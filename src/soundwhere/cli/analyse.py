"""`soundwhere analyse`: the paper's analyses, re-run, and every system of its tables compared."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from soundwhere.analysis.theory import Setting
from soundwhere.cli.analyse_compare import Compare, compare
from soundwhere.cli.analyse_motion import Motion, motion
from soundwhere.cli.analyse_scenes import Scored, settings_of, task_of
from soundwhere.cli.analyse_training import Ablation, Collections, StageOne, ablation, collections, stage_one
from soundwhere.cli.options import named, parse, say
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from soundwhere.analysis.calibration import Confidences
    from soundwhere.analysis.convergence import Observations
    from soundwhere.analysis.report import Report
    from soundwhere.evaluation.task import Task
    from soundwhere.methods.method import Network

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
  soundwhere analyse collections --data wide-duet/ --config configs/scav-wide.toml --steps-one 1200
  soundwhere analyse compare --benchmark real-duet real-trio --data real-duet/ --minutes 25 --also scav=1
  soundwhere analyse compare --benchmark real-trio --data real-duet/ --methods lvs ez-vsl --steps 100 \\
      --take scav=runs/real-duet
  soundwhere analyse calibration --benchmark real-duet --data real-duet/ --model runs/a --out analysis/
  soundwhere analyse motion --data wide-duet/
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
class Calibration(Scored):
    """From which confidence on a source counts as sounding, and how often that is wrong."""

    model: Annotated[str | None, named("MODEL")] = None
    """A model: its name, its file, or the folder of a run."""
    choose: Literal["val", "halves"] = "val"
    """Choose the threshold on val and report on test, or (for a model that trained on val) within --split: each half by
    the threshold of the other, the one that is kept on all."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""


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
    | Annotated[Collections, tyro.conf.subcommand("collections")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Calibration, tyro.conf.subcommand("calibration")]
    | Annotated[Motion, tyro.conf.subcommand("motion")]
    | Annotated[Theory, tyro.conf.subcommand("theory", default=Theory(Setting()))]
)


def run(arguments: list[str]) -> int:
    """Run the command."""
    options: Any = parse(Options, arguments, "analyse", description=DESCRIPTION)  # type: ignore[arg-type]
    if options.out is not None and not isinstance(options, StageOne | Collections):
        from soundwhere.evaluation.page import new_figure

        new_figure(1, 1)  # find out before the work that figures cannot be drawn
    analyses = {
        Convergence: ("convergence", convergence),
        Protocols: ("protocols", protocols),
        Ablation: ("ablation", ablation),
        StageOne: ("stage-one", stage_one),
        Collections: ("collections", collections),
        Compare: ("compare", compare),
        Calibration: ("calibration", _calibration),
        Motion: ("motion", motion),
        Theory: ("theory", theory),
    }
    name, analyse = analyses[type(options)]
    report, settings = analyse(options)  # type: ignore[operator] # each takes its own options

    from soundwhere.cli.terminal import print_tables, print_written

    print_tables(report.tables)
    for question, answer in report.words.items():
        print(f"{question} {answer}")
    if options.out is not None:
        print_written(options.out, report.write(options.out, name, settings))
    return 0


def convergence(options: Convergence) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    if not options.gain_db >= 0:
        raise ConfigError(f"--gain-db is {options.gain_db:g}.", "It must be at least 0.")
    from soundwhere.analysis.convergence import convergence_results, gap, kept_steps, observe
    from soundwhere.cli.terminal import Bar
    from soundwhere.evaluation.task import model_label, unique_labels
    from soundwhere.methods.files import load_model
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


def protocols(options: Protocols) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    if (options.model is None) == (options.predictions is None):
        raise ConfigError("Either a model or predictions are compared.", "Give one of --model and --predictions.")
    from soundwhere.analysis.protocols import compare_protocols, protocols_results
    from soundwhere.cli.terminal import Bar
    from soundwhere.evaluation.answerers import FilesAnswerer, Method
    from soundwhere.evaluation.network_answerer import NetworkAnswerer
    from soundwhere.evaluation.predictions import Predictions
    from soundwhere.evaluation.rows import Row
    from soundwhere.evaluation.task import model_label, told
    from soundwhere.methods.files import load_model

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


def _calibration(options: Calibration) -> tuple[Report, dict[str, Any]]:
    if options.model is None:
        raise ConfigError("No model was given.", "Give one with --model.")
    from soundwhere.analysis.calibration import calibrate, calibration_results, confidences, cross_calibrate
    from soundwhere.cli.terminal import Bar
    from soundwhere.distributed import initialise
    from soundwhere.methods.files import load_model

    network = load_model(options.model).to(initialise(options.device)).eval()
    task = task_of(options)
    if options.choose == "val" and (options.split != "test" or "split" not in task.benchmark.choices):
        raise ConfigError(
            f"{options.benchmark} (--split {options.split}) has no other split to choose the threshold on.",
            "Report on --split test of a benchmark that has a val split, or choose by --choose halves.",
        )

    def ask(asked: Task, what: str) -> Confidences:
        with Bar(what, len(asked.names), "scenes") as bar:
            return confidences(network, asked.scenes, asked.names, asked.benchmark.grid, tick=bar.update)

    if network.config.counts:
        return _count_calibration(options, network, task)
    found = ask(task, "asking")
    where = f"{len(task.names)} scenes of {options.benchmark} {options.split}"
    if options.choose == "val":
        other = task_of(replace(options, split="val"))
        chosen_on = f"{len(other.names)} scenes of {options.benchmark} val"
        result = calibrate(ask(other, "asking val"), found, chosen_on, where)
    else:
        result = cross_calibrate(found, where)
    say(f"least_confidence = {result.least_confidence:.4f}")
    settings = {**settings_of(options, task), "model": options.model, "choose": options.choose}
    return calibration_results(result, found), settings


def _count_calibration(options: Calibration, network: Network, task: Task) -> tuple[Report, dict[str, Any]]:
    """The same for a model that counts: the threshold that counts best."""
    from soundwhere.analysis.calibration import Counts, counting_results, counts
    from soundwhere.cli.terminal import Bar

    def ask(asked: Task, what: str) -> Counts:
        with Bar(what, len(asked.names), "scenes") as bar:
            return counts(network, asked.scenes, asked.names, asked.benchmark.grid, tick=bar.update)

    if options.choose == "halves":
        raise ConfigError(f"{options.model} counts: its threshold is chosen on val.", "Leave out --choose halves.")
    other = task_of(replace(options, split="val"))
    words = [
        f"{len(each.names)} scenes of {options.benchmark} {split}" for each, split in ((other, "val"), (task, "test"))
    ]
    threshold, report = counting_results(ask(other, "asking val"), ask(task, "asking"), *words)
    say(f"least_confidence = {threshold:.4f}")
    return report, {**settings_of(options, task), "model": options.model, "choose": options.choose}


def theory(options: Theory) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    from soundwhere.analysis.appendix import theory_results

    return theory_results(options.setting), asdict(options.setting)
