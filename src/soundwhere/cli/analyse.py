"""`soundwhere analyse`: the paper's analyses, re-run."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from soundwhere.analysis.theory import Setting
from soundwhere.cli.options import FLAG, named, parse, say
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.figure import Figure

    from soundwhere.analysis.convergence import Observations
    from soundwhere.analysis.tables import Table
    from soundwhere.engine.predictions import Predictions
    from soundwhere.engine.subject import Subject
    from soundwhere.models.scav import SCAV

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
  soundwhere analyse theory --sigma 0.05 --threshold 0.4 --out analysis/
"""


@dataclass(frozen=True)
class _Scored:
    """What to score on."""

    benchmark: Annotated[str, tyro.conf.arg(metavar="NAME")]
    """Its name; a wrong one lists all."""
    data: Annotated[Path | None, named("DIR")] = None
    """Folder of the media or of the data set."""
    annotations: Annotated[Path | None, named("DIR")] = None
    """Folder of the annotation files; by default `annotations` in --data, or --data itself."""
    masks: Annotated[Path | None, named("DIR")] = None
    """Folder of masks, for benchmarks whose authors publish them apart."""
    split: Literal["val", "test"] = "test"
    """val to choose by, test to report, where a benchmark has both."""
    layout: Literal["free", "side-by-side", "stacked"] = "free"
    """Where made-up things are."""
    limit: Annotated[int | None, named("N")] = None
    """The first N scenes only."""
    allow_missing: Annotated[bool, *FLAG] = False
    """Go on without scenes whose media, masks or predictions are missing."""
    sigma_px: float = 70.0
    """Width of the constant answer's blobs."""
    out: Annotated[Path | None, named("DIR")] = None
    """Folder for JSON, Markdown and figures, which need matplotlib; without, tables are printed only."""


@dataclass(frozen=True)
class Convergence(_Scored):
    """Dominant against second source, for stage 1 and for maps that do not listen; and which source wins."""

    model: Annotated[tuple[str, ...], named("MODEL ...")] = ()
    """Models whose stage 1 is asked; several tell whether they choose the same source. Without a model, only answers
    that neither look nor listen are scored, for which annotations are enough."""
    run: Annotated[Path | None, named("DIR")] = None
    """Folder of a training run: also the gap over its steps, if it kept copies (`soundwhere train --keep-every N`)."""
    gain_db: float = 0.0
    """Change each sound's level at random within plus or minus this, where a benchmark makes all equally loud."""


@dataclass(frozen=True)
class Protocols(_Scored):
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
    """Folder for JSON, Markdown and figures, which need matplotlib; without, tables are printed only."""


@dataclass(frozen=True)
class _Trained(_Scored):
    """What to train from."""

    config: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("configs/real-duet.toml")
    """TOML file of the full recipe, which every row changes in one thing."""
    root: Annotated[Path | None, named("DIR")] = None
    """Folder to train on; by default that of the file, else --data."""
    cache: Annotated[Path | None, named("DIR")] = None
    """Folder for frozen visual features, instead of the file's."""
    rows: Annotated[tuple[str, ...], named("ROW ...")] = ()
    """Only these rows; a wrong one lists all."""
    steps_one: Annotated[int | None, named("N")] = None
    """Steps of stage 1, instead of the file's."""
    seed: Annotated[int | None, named("N")] = None
    """Of every training, instead of the file's."""
    device: Annotated[str | None, named("DEVICE")] = None
    """auto, cpu, cuda or cuda:N, instead of the file's."""
    visual_weights: Annotated[str | None, named("FILE")] = None
    """Weights the visual encoder starts from, instead of the file's."""
    download: Annotated[bool, *FLAG] = False
    """Fetch ImageNet weights if they are not on this machine."""


@dataclass(frozen=True)
class Ablation(_Trained):
    """The paper's ablation from one shared stage 1; rows are trained, resumed or, if finished, found in --out."""

    start: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE", help_behavior_hint="")] = None
    """The shared stage 1; by default it is trained first."""
    steps_two: Annotated[int | None, named("N")] = None
    """Steps of stage 2 in every row, instead of the file's."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("analysis/ablation")
    """Folder of the shared stage 1, the rows, and the results."""


@dataclass(frozen=True)
class StageOne(_Trained):
    """How stage 1 learns to hear: a recipe with one thing changed in every row, which is trained, resumed or found."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("analysis/stage-one")
    """Folder of the rows and the results."""


Options = (
    Annotated[Convergence, tyro.conf.subcommand("convergence")]
    | Annotated[Protocols, tyro.conf.subcommand("protocols")]
    | Annotated[Ablation, tyro.conf.subcommand("ablation")]
    | Annotated[StageOne, tyro.conf.subcommand("stage-one")]
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
        _require_matplotlib(options.out)

        from soundwhere.cli.ablation import run_ablation

        run_ablation(options)
    elif isinstance(options, StageOne):
        from soundwhere.cli.stage_one import run_stage_one

        run_stage_one(options)
    else:
        assert isinstance(options, Theory)
        _theory(options)
    return 0


def _convergence(options: Convergence) -> None:
    if not options.gain_db >= 0:
        raise ConfigError(f"--gain-db is {options.gain_db:g}.", "It must be at least 0.")
    _require_matplotlib(options.out)

    from soundwhere.analysis.convergence import kept_steps, observe
    from soundwhere.analysis.plots import gap_over_steps, rows_with_intervals
    from soundwhere.analysis.results import convergence_results, gap, steps_table
    from soundwhere.engine.train import STAGE_ONE
    from soundwhere.models.registry import load_model

    steps = [] if options.run is None else kept_steps(options.run)
    files = options.model
    if not files and options.run is not None:
        end = options.run / STAGE_ONE
        files = (str(end if end.is_file() else steps[-1][1]),)
    models = {label: load_model(file) for label, file in zip(_labels(files), files, strict=True)}
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
    _require_matplotlib(options.out)

    from soundwhere.analysis.plots import fill_figure, rows_with_intervals
    from soundwhere.analysis.protocols import compare_protocols
    from soundwhere.analysis.results import protocols_results
    from soundwhere.engine.predictions import Predictions
    from soundwhere.engine.probes import FilesProbe, Method, ModelProbe
    from soundwhere.metrics.bootstrap import intervals
    from soundwhere.models.registry import load_model

    predictions = None if options.predictions is None else Predictions(options.predictions)
    model = None if options.model is None else load_model(options.model)
    subject = subject_of(options, predictions=predictions)
    grid = subject.benchmark.grid
    method: Method
    single: Method | None = None
    if model is not None and options.model is not None:
        (label,) = _labels((options.model,))
        method = ModelProbe(label, model, grid)
        single = ModelProbe(label, model, grid, single_frames=True)
    else:
        assert predictions is not None
        method = FilesProbe(predictions.folder.resolve().name, predictions, subject.names)
        say(
            "avgn calls a model on single frames, which files of maps cannot be: it scores these maps, cut into frames."
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
    _require_matplotlib(options.out)

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


def subject_of(options: _Scored, *, truths_only: bool = False, predictions: Predictions | None = None) -> Subject:
    """The scenes to score."""
    if options.limit is not None and options.limit < 2:
        raise ConfigError(f"--limit {options.limit} leaves too few scenes.", "Give at least 2.")
    if not options.sigma_px > 0:
        raise ConfigError(f"--sigma-px is {options.sigma_px:g}.", "It must be greater than 0.")
    from soundwhere.data.benchmarks import catalogue
    from soundwhere.engine.subject import Places, choose_scenes

    chosen = catalogue.Options(masks=options.masks, split=options.split, layout=options.layout)
    benchmark = Places(options.benchmark, options.data, options.annotations, chosen).open()
    say(benchmark.describe())
    return choose_scenes(
        benchmark,
        limit=options.limit,
        truths_only=truths_only,
        allow_missing=options.allow_missing,
        predictions=predictions,
    )


def settings_of(options: _Scored, subject: Subject) -> dict[str, Any]:
    """What every score depends on, as JSON values."""
    return {
        **subject.about,
        "scenes": len(subject.names),
        "grid": list(subject.benchmark.grid),
        "truth": subject.benchmark.truth,
        "sigma_px": options.sigma_px,
    }


@contextmanager
def progress(what: str, scenes: int) -> Iterator[Callable[[int], None]]:
    """A bar that is told how many more scenes are done."""
    from soundwhere.cli.show import Bar

    done = 0
    with Bar(what, scenes, "scenes") as bar:

        def tick(count: int) -> None:
            nonlocal done
            done += count
            bar.update(done, scenes)

        yield tick


def _labels(files: tuple[str, ...]) -> list[str]:
    """A name for each model: that of its run, or of its file."""
    names = []
    for file in files:
        path = Path(file)
        of_run = path.stem in ("best", "latest", "stage-one")
        names.append(path.resolve().parent.name if of_run else path.stem if path.exists() else file)
    return [f"{name} ({place})" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]


def _require_matplotlib(out: Path | None) -> None:
    """Find out before the work that the figures cannot be drawn."""
    if out is not None:
        from soundwhere.analysis.tables import new_figure

        new_figure(1, 1)


def show(
    out: Path | None,
    name: str,
    settings: dict[str, Any],
    tables: list[Table],
    values: dict[str, Any],
    figures: dict[str, Figure],
) -> None:
    """Print the tables and, with a folder, write everything."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(highlight=False)
    for table in tables:
        shown = RichTable(title=Text(table.title), title_justify="left")
        for column in table.head:
            shown.add_column(Text(column), overflow="fold")
        for row in table.rows:
            shown.add_row(*map(Text, row))
        console.print(shown)
        for note in table.notes:
            console.print(Text(note, style="dim"))
        console.print()
    if out is not None:
        from soundwhere.analysis.tables import write_analysis
        from soundwhere.cli.show import print_written

        print_written(out, write_analysis(out, name, settings, tables, values, figures))
