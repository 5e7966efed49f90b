"""`soundwhere evaluate`: score methods on a benchmark, beside answers without eyes or ears."""

from __future__ import annotations

import dataclasses
import os
import shlex
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from soundwhere.errors import ConfigError
from soundwhere.terminal.messages import say
from soundwhere.terminal.options import FLAG, named, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from soundwhere.evaluation.answerers import Method
    from soundwhere.evaluation.constant import Constant
    from soundwhere.evaluation.rows import Row
    from soundwhere.evaluation.scoring import Evaluation, RowScores
    from soundwhere.evaluation.task import Request, Task
    from soundwhere.metrics.presets import Preset
    from soundwhere.metrics.report import Table

DESCRIPTION = """\
Score methods on a benchmark. Answers that see and hear nothing, the model without its sound, and what stands out to
its eye alone are always scored beside it. A run that was stopped goes on where it was.

Examples:
  soundwhere evaluate --benchmark real-duet --data real-duet/ --model runs/first
  soundwhere evaluate --benchmark synthetic --layout free --model runs/first runs/second --figure made-up-1000002-3
  soundwhere evaluate --benchmark vggsound-duet --data clips/ --annotations annotations/ --model runs/first \\
      --allow-missing --compare
  soundwhere evaluate --benchmark vggsound-duet --annotations annotations/ --input-free
  soundwhere evaluate --benchmark folder --data mine/ --predictions heatmaps/
  soundwhere evaluate --benchmark real-trio --data real-duet/ --model scav-mobile ezvsl.pth --checkpoint-of ez-vsl
  torchrun --nproc-per-node 4 -m soundwhere evaluate --benchmark vgg-ss --data clips/ --model runs/first
"""

_ALWAYS = ("list.csv", "results.json", "scenes.npz", "tables.md", "tables.tex")


@dataclass(frozen=True)
class Options:
    """What to score, on what, and how."""

    benchmark: Annotated[str, tyro.conf.arg(metavar="NAME")]
    """Its name; an unknown one lists them all."""
    model: Annotated[tuple[str, ...], named("MODEL ...")] = ()
    """Models: names, files written by `soundwhere train`, or folders of runs."""
    checkpoint_of: Annotated[str | None, named("METHOD")] = None
    """Read files of --model that this package did not write as the authors of this method released them."""
    classes: Annotated[tuple[str, ...], named("NAME ...")] = ()
    """Classes of a released checkpoint that reads labels, in the order of their numbers."""
    download: Annotated[bool, *FLAG] = False
    """Fetch ImageNet weights that a released checkpoint lacks, if they are not on this machine."""
    predictions: Annotated[Path | None, named("DIR")] = None
    """Score heatmaps in this folder: SCENE.npz with `maps` (K, H, W), or SCENE_0.png, SCENE_1.png and so on."""
    input_free: Annotated[bool, *FLAG] = False
    """Score only answers without input; annotations are enough, media may be missing."""
    data: Annotated[Path | None, named("DIR")] = None
    """Folder of the media or of the data set."""
    annotations: Annotated[Path | None, named("DIR")] = None
    """Folder of the annotation files; by default `annotations` in --data, or --data itself."""
    split: Literal["val", "test"] = "test"
    """val to choose by, test to report, where a benchmark has both."""
    limit: Annotated[int | None, named("N")] = None
    """Score the first N scenes only."""
    solo: Annotated[bool, *FLAG] = False
    """Let one source of each scene sound alone, the others being only seen."""
    allow_missing: Annotated[bool, *FLAG] = False
    """Go on without scenes whose media, masks or predictions are missing."""
    preset: str = "scav"
    """Whose evaluation: scav, scav-source-wise, lvs, ez-vsl, slavc, slavc-relative, avgn, noprior, dsol,
    dsol-synthetic, coarse-to-fine, t-vsl or jsa."""
    rule: Annotated[str | None, named("RULE")] = None
    """Binarise by another rule than the preset's: minmax-0.5, median, max-fraction-0.2, fixed-0.6, top-area-0.25."""
    protocol: Annotated[Literal["frame-wise", "source-wise"] | None, named("{frame-wise,source-wise}")] = None
    """Compare over the whole picture, or in the frame of each source only, whatever the preset does."""
    out: Annotated[Path | None, named("DIR")] = None
    """Folder of the results; by default evaluation/NAME."""
    compare: Annotated[bool, *FLAG] = False
    """Print published results beside ours."""
    figure: Annotated[tuple[str, ...], named("SCENE ...")] = ()
    """Draw these scenes as figure.png: truth, every other method, each map of the last one."""
    page: Annotated[bool, *FLAG] = True
    """Leave out report.html, which is drawn where matplotlib is installed."""
    batch: int = 16
    """Scenes at a time."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    masks: Annotated[Path | None, named("DIR")] = None
    """Folder of masks, for benchmarks whose authors publish them apart."""
    pairing: str = "published"
    """How clips are paired: published, accessible, random, or the file of a saved list."""
    seed: int = 0
    """Seed of the random pairing."""
    subset: Literal["all", "heard", "unheard"] = "all"
    """Classes of VGG-SS."""
    level: Literal["as-recorded", "equal-rms"] = "as-recorded"
    """How loud each sound is before sounds are summed."""
    count: int = 500
    """How many made-up scenes."""
    layout: Literal["free", "side-by-side", "stacked"] = "free"
    """Where made-up things are."""
    order: Literal["side-by-side", "mirrored", "stacked"] = "side-by-side"
    """How the photos of real-duet and real-trio are put together."""
    left_out: Literal["first", "second"] = "second"
    """Of which collection, the first or the second of each class, the trios of collection-trio sound."""
    sounding: int = 2
    """How many made-up things sound."""
    silent: int = 1
    """How many made-up things are only seen."""


def run(arguments: list[str]) -> int:
    """Evaluate, write everything to the folder, and print the tables; of several processes, the first one does."""
    options = parse(Options, arguments, "evaluate", description=DESCRIPTION)
    preset = _check(options)

    from soundwhere import distributed

    try:
        device = distributed.initialise(options.device)
        with ExitStack() as stack:
            if not distributed.is_main():
                nowhere = stack.enter_context(Path(os.devnull).open("w"))
                stack.enter_context(redirect_stdout(nowhere))
                stack.enter_context(redirect_stderr(nowhere))
            _evaluate(options, preset, shlex.join(["soundwhere", "evaluate", *arguments]), device)
    finally:
        distributed.shutdown()
    return 0


def _evaluate(options: Options, preset: Preset, command: str, device: torch.device) -> None:
    from soundwhere.distributed import is_main
    from soundwhere.evaluation.answerers import InputFreeAnswerer
    from soundwhere.evaluation.files import write_evaluation
    from soundwhere.evaluation.predictions import Predictions
    from soundwhere.evaluation.qualitative import find_scenes, write_figure
    from soundwhere.evaluation.scorebook import outdated
    from soundwhere.evaluation.scoring import evaluate
    from soundwhere.evaluation.summary import summarise_evaluation
    from soundwhere.evaluation.tables import evaluation_tables
    from soundwhere.evaluation.task import choose_scenes, constant_for, load_methods
    from soundwhere.terminal.messages import print_written
    from soundwhere.terminal.progress import Bar
    from soundwhere.terminal.released import Released
    from soundwhere.terminal.tables import print_tables

    page = options.page and _can_draw_page()
    out = _out(options)
    released = Released(options.checkpoint_of, options.classes, options.download)
    released.check(options.model)
    predictions = None if options.predictions is None else Predictions(options.predictions)
    request = _request(options)
    benchmark = request.open()
    print(benchmark.describe(), flush=True)
    if benchmark.missing and is_main():
        benchmark.write_missing(out / "missing.csv")
        say(f"the missing scenes are listed in {out / 'missing.csv'}")
    task = choose_scenes(
        benchmark,
        limit=options.limit,
        solo=options.solo,
        truths_only=options.input_free,
        allow_missing=options.allow_missing,
        predictions=predictions,
        stamp=request.stamp(out),
    )
    drawn = find_scenes(task.names, options.figure)
    methods, maps = load_methods(options.model, predictions, task, preset, device, released.load)
    old = outdated(out / "scores")
    if old:
        files = f"{len(old)} files" if len(old) > 1 else "1 file"
        say(
            f"{out / 'scores'} holds {files} that another version wrote ({old[0].name}): they are not read, all scenes "
            "are scored again. Delete them if you no longer need them."
        )
    with Bar("choosing", 0, "scenes") as bar:
        constant = constant_for(task, request, maps, preset, out / "scores", tick=bar.update, say=say)
    print(f"scoring {len(task.names)} scenes", flush=True)
    with Bar("scoring", len(task.names), "scenes") as bar:
        evaluation = evaluate(
            task.scenes,
            task.names,
            [*methods, InputFreeAnswerer(constant.rows, maps)],
            preset,
            benchmark.grid,
            out / "scores",
            about=task.about,
            batch=options.batch,
            tick=bar.update,
        )
    real_pairs = _real_pairs(options, request, methods, preset) if benchmark.name == "silent-negatives" else None
    if not is_main():
        return
    summary = summarise_evaluation(evaluation, constant, real_pairs=real_pairs, thresholds=_thresholds(methods))
    tables = evaluation_tables(evaluation, summary, f"{options.benchmark}{', solos' if options.solo else ''}")
    if options.compare:
        tables += _published(options, evaluation, constant)
    facts = {
        "command": command,
        "about": task.about,
        "methods": [method.identity for method in methods],
        "constant": constant.identity,
    }
    write_evaluation(out, benchmark, evaluation, summary, tables, facts)
    listed = dataclasses.replace(benchmark, scenes=benchmark.truths) if options.input_free else benchmark
    listed.write_list(out / "list.csv")
    if drawn:
        write_figure(out / "figure.png", [task.scenes[place] for place in drawn], methods)
    if page:
        _page(out / "report.html", command, tables, evaluation, task, methods, constant)
    print_tables(tables)
    made = {"missing.csv": bool(benchmark.missing), "figure.png": bool(drawn), "report.html": page}
    names = [*_ALWAYS, *(name for name, written in made.items() if written)]
    print_written(out, [out / name for name in sorted(names)])


def _check(options: Options) -> Preset:
    """What can be refused before anything is read, and the preset with its changes."""
    from soundwhere.data.benchmarks.catalogue import find_entry
    from soundwhere.metrics.binarise import parse_rule
    from soundwhere.metrics.presets import find_preset

    find_entry(options.benchmark)
    if not (options.model or options.predictions or options.input_free):
        raise ConfigError(
            "Nothing to score was given.",
            "Give --model, --predictions, or --input-free for the answers that need neither picture nor sound.",
        )
    if options.input_free and (options.model or options.predictions or options.figure):
        raise ConfigError(
            "--input-free scores only answers without input.",
            "Leave it out: they are scored beside every model anyway.",
        )
    if options.batch < 1 or (options.limit is not None and options.limit < 2):
        raise ConfigError(
            f"--batch {options.batch} and --limit {options.limit} are not valid together.",
            "Give --batch of at least 1 and --limit of at least 2: a scene is also shown with another one's sound.",
        )
    preset = find_preset(options.preset)
    if options.rule is not None:
        rule = str(parse_rule(options.rule))
        preset = dataclasses.replace(preset, name=f"{preset.name} with {rule}", rule=rule)
    if options.protocol is not None:
        domain: Literal["picture", "cropped"] = "picture" if options.protocol == "frame-wise" else "cropped"
        if domain != preset.domain:
            name = f"{preset.name}, {options.protocol}"
            preset = dataclasses.replace(preset, name=name, domain=domain, call="picture")
    return preset


def _can_draw_page() -> bool:
    """Whether the page can be drawn; if not, say what it needs before the work begins."""
    from soundwhere.evaluation.page import what_is_missing

    missing = what_is_missing()
    if missing is not None:
        say(f"report.html is left out: {missing.message} {missing.remedy}")
    return missing is None


def _request(options: Options) -> Request:
    """The benchmark and what was chosen among its options."""
    from soundwhere.data.benchmarks import catalogue
    from soundwhere.evaluation.task import Request

    names = [field.name for field in dataclasses.fields(catalogue.Options)]
    chosen = catalogue.Options(**{name: getattr(options, name) for name in names})
    return Request(options.benchmark, options.data, options.annotations, chosen)


def _real_pairs(
    options: Options, request: Request, methods: Sequence[Method], preset: Preset
) -> dict[Row, RowScores] | None:
    """What the models say of VGG-SS, whose pictures come with their own sounds: the positives of silent negatives."""
    from soundwhere.evaluation.network_answerer import NetworkAnswerer
    from soundwhere.evaluation.scoring import evaluate
    from soundwhere.evaluation.task import choose_scenes
    from soundwhere.terminal.progress import Bar

    asked = [method.alone() for method in methods if isinstance(method, NetworkAnswerer)]
    if not asked or options.predictions is not None:
        return None
    benchmark = dataclasses.replace(request, name="vgg-ss").open()
    print(f"real pairs: {benchmark.describe()}", flush=True)
    folder, stamp = _out(options) / "scores", request.stamp(_out(options))
    task = choose_scenes(benchmark, limit=options.limit, allow_missing=options.allow_missing, stamp=stamp)
    with Bar("scoring", len(task.names), "scenes") as bar:
        keep: dict[str, Any] = {"about": task.about, "batch": options.batch, "tick": bar.update}
        return evaluate(task.scenes, task.names, asked, preset, benchmark.grid, folder, **keep).scores


def _thresholds(methods: Sequence[Method]) -> dict[Row, float]:
    """From which confidence on a source of each model counts as sounding."""
    from soundwhere.evaluation.network_answerer import NetworkAnswerer
    from soundwhere.evaluation.rows import Row

    networks = [method for method in methods if isinstance(method, NetworkAnswerer)]
    return {Row(each.label): each.network.config.sounding_threshold for each in networks}


def _out(options: Options) -> Path:
    return options.out or Path("evaluation") / options.benchmark


def _published(options: Options, evaluation: Evaluation, constant: Constant) -> list[Table]:
    from soundwhere.evaluation.published import compare_published
    from soundwhere.metrics.presets import summarise_as

    preset = evaluation.preset
    ours = {
        str(row): summarise_as(scores.pairs, preset)
        for row, scores in evaluation.scores.items()
        if len(scores.pairs) and (scores.kind == "method" or row == constant.best)
    }
    table, warnings = compare_published(options.benchmark, preset, len(evaluation.names), ours)
    for warning in warnings:
        say(warning)
    return [] if table is None else [table]


def _page(
    path: Path,
    command: str,
    tables: Sequence[Table],
    evaluation: Evaluation,
    task: Task,
    methods: Sequence[Method],
    constant: Constant,
) -> None:
    from soundwhere import __version__
    from soundwhere.evaluation.page import Section, curves, sheets, write_page
    from soundwhere.evaluation.rows import Row

    own = [Row(method.label) for method in reversed(methods)]
    compared = [*own, *(row.under("shuffled") for row in own), constant.best]
    facts = {
        "command": command,
        "benchmark": task.benchmark.describe().splitlines()[0],
        "scenes scored": str(len(evaluation.names)),
        "version": f"soundwhere {__version__}",
    }
    pictures: dict[str, Any] = {**curves(evaluation, [row for row in compared if row in evaluation.scores])}
    if methods:
        pictures |= sheets(evaluation, task.scenes, methods)
    write_page(path, f"Evaluation on {task.benchmark.name}", facts, [Section(tables=tables, pictures=pictures)])
