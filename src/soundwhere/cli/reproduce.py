"""`soundwhere reproduce`: every table and figure of the paper at the scale of the data at hand, on one page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import tyro

from soundwhere.cli.analyse import ablation, compare, convergence, protocols, theory
from soundwhere.errors import ConfigError, DataError
from soundwhere.files import claimed_folder
from soundwhere.reproduction.scales import PartName, ScaleName
from soundwhere.terminal.messages import print_written, say, show_path
from soundwhere.terminal.options import FLAG, check_limit, check_positive, named, parse
from soundwhere.terminal.scenes import Scored, task_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.analysis.report import Report
    from soundwhere.evaluation.task import Task
    from soundwhere.metrics.report import Table

DESCRIPTION = """\
Run every table and figure of the paper again, at the scale of the data at hand, and write one page: ours beside the
published figures, with a verdict on each claim. What was trained and scored before is found again, so that a run that
was stopped goes on. Without --data, made-up clips are written and used.

Examples:
  soundwhere reproduce --quick                          20 minutes on two cores, on made-up clips
  soundwhere reproduce --dry-run                        what would be done, and how long it would take here
  soundwhere reproduce --data real-duet/ --out reproduction/real-duet
  soundwhere reproduce --data real-duet/ --parts compare --minutes 25 --take scav=runs/real-duet
  soundwhere reproduce --scale paper --data media/ --annotations annotations/ --root vggsound-train/ --allow-missing
"""

_MADE_UP: Final = ": drawn things with synthesised sounds. real-duet and real-trio are here names of their layout"
_KEPT: Final = 6  # copies of stage 1, to see how it converges


@dataclass(frozen=True)
class Options:
    """Everything of the paper, or some parts of it."""

    scale: Annotated[ScaleName | None, named("{made-up,real,paper}")] = None
    """Whose data: made-up clips (the default without --data), a set in the layout of real-duet (the default with it),
    or the paper's own benchmarks."""
    data: Annotated[Path | None, named("DIR")] = None
    """Folder of the data set, or of the benchmarks' media."""
    annotations: Annotated[Path | None, named("DIR")] = None
    """Folder of the published annotation files: for --scale paper, and for the table of benchmarks."""
    masks: Annotated[Path | None, named("DIR")] = None
    """Folder of the masks of vggsound-duet-mask, which its authors publish apart; without, it is left out."""
    root: Annotated[Path | None, named("DIR")] = None
    """Folder to train on, where that is not --data."""
    benchmark: Annotated[tuple[str, ...], named("NAME ...")] = ()
    """Benchmarks of the main tables; the first is also that of the ablation and the figures."""
    parts: Annotated[tuple[PartName, ...], named("PART ...")] = ()
    """Only these parts: data-sets, theory, compare, convergence, ablation, protocols, figures. What needs a trained
    SCAV finds it in --out or trains it."""
    quick: Annotated[bool, *FLAG] = False
    """Few steps and few scenes: 20 minutes on two cores. The page says what that leaves out."""
    dry_run: Annotated[bool, *FLAG] = False
    """Train SCAV for half a minute, say how long each part will take, and stop."""
    steps: Annotated[int | None, named("N")] = None
    """Optimiser steps of every system; by default as many as the recipe has."""
    minutes: Annotated[float | None, named("M")] = None
    """Stop a system whose steps have taken so long; it is scored as it is."""
    limit: Annotated[int | None, named("N")] = None
    """The first N scenes of each benchmark only."""
    take: Annotated[tuple[str, ...], named("NAME=MODEL ...")] = ()
    """Score a trained model instead of training that system."""
    methods: Annotated[tuple[str, ...], named("NAME ...")] = ()
    """Only these systems in the main tables, and SCAV."""
    recipe: Annotated[Path | None, named("FILE")] = None
    """SCAV's configuration, from which the others take clips, encoders and schedule; by default that of the scale."""
    configs: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("configs/rivals")
    """Folder of the other systems' configurations, NAME-controlled.toml."""
    seed: int = 0
    """Seed of every training."""
    allow_missing: Annotated[bool, *FLAG] = False
    """Go on without scenes whose media or masks are missing."""
    cache: Annotated[Path | None, named("DIR")] = None
    """Folder for frozen visual features; by default below the user's cache folder."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    download: Annotated[bool, *FLAG] = False
    """Fetch ImageNet weights if they are not on this machine."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("reproduction")
    """Folder of everything; the page is index.html in it."""


def run(arguments: list[str]) -> int:
    """Run the command."""
    options = parse(Options, arguments, "reproduce", description=DESCRIPTION)
    from soundwhere.evaluation.page import new_figure

    new_figure(1, 1)  # find out before the work that figures cannot be drawn
    with claimed_folder(options.out):
        return _Parts(_settled(options)).run()


def _settled(options: Options) -> Options:
    """The options with all that follows from the scale."""
    from soundwhere.reproduction.scales import PARTS, QUICK_SCENES, QUICK_STEPS, SCALES

    name: ScaleName = options.scale or ("made-up" if options.data is None else "real")
    if name != "made-up" and options.data is None:
        raise ConfigError(f"--scale {name} needs data.", "Give its folder with --data, or leave out --scale.")
    if options.data is not None and not options.data.is_dir():
        raise DataError(f"{options.data} is not a folder.", "Give the folder of the data set with --data.")
    check_limit(options.limit)
    check_positive(steps=options.steps, minutes=options.minutes)
    if options.quick:
        options = replace(options, steps=options.steps or QUICK_STEPS, limit=options.limit or QUICK_SCENES)
    return replace(
        options,
        scale=name,
        parts=options.parts or PARTS,
        recipe=options.recipe or SCALES[name].recipe,
        benchmark=options.benchmark or SCALES[name].benchmarks,
    )


class _Parts:
    """What each part asks the analyses for, and how it comes on the page."""

    def __init__(self, options: Options) -> None:
        from soundwhere.analysis.contenders import take
        from soundwhere.data.benchmarks.catalogue import find_entry
        from soundwhere.reproduction.budget import budget_of
        from soundwhere.reproduction.page import Page
        from soundwhere.reproduction.reference import Reference

        assert options.recipe is not None
        self.options, self.recipe = options, options.recipe
        self.budget = budget_of(self.recipe, options.steps)
        self.data = options.data or options.out / "made-up"
        # refuses what is unknown before anything is written; SCAV is the last
        for name in options.benchmark:
            find_entry(name)
        self.contenders, self.impossible = compare.contenders_of(self._comparison(), self.budget.steps)
        for each in self.contenders:
            if isinstance(each.source, str):
                take(each.name, each.source)
        self.scav = Reference(self.contenders[-1], options.out / "compare/rows", options.minutes, options.download)
        if options.data is None:
            self._make_up()
        self.tasks, missing = self._open()
        self.options = replace(options, benchmark=tuple(task.benchmark.name for task in self.tasks))
        self.page = Page(options.out, self._facts(), missing)

    def run(self) -> int:
        """Say how long everything takes, and run every part that is asked for."""
        parts: dict[PartName, Callable[[], None]] = {
            "data-sets": self._data_sets,
            "theory": self._theory,
            "compare": self._compare,
            "convergence": self._convergence,
            "ablation": self._ablation,
            "protocols": self._protocols,
            "figures": self._figures,
        }
        self._say_how_long()
        if self.options.dry_run:
            return 0
        self.page.run({name: part for name, part in parts.items() if name in self.options.parts}, say)
        print(f"\nwrote {show_path(self.options.out / 'index.html')}")
        for of_what, verdicts in self.page.verdicts().items():
            print(f"{of_what} {verdicts}")
        return 1 if self.page.problems else 0

    def _make_up(self) -> None:
        from soundwhere.data.synthetic.data_set import Sizes, write_data_set
        from soundwhere.reproduction.scales import MADE_UP_CLIPS, MADE_UP_SCENES, QUICK_CLIPS
        from soundwhere.terminal.progress import Bar

        clips = QUICK_CLIPS if self.options.quick else MADE_UP_CLIPS
        with Bar("made-up clips", clips, "clips") as bar:
            write_data_set(self.data, Sizes.of(clips, self.options.limit or MADE_UP_SCENES), tick=bar.update)

    def _facts(self) -> dict[str, str]:
        from soundwhere.reproduction.budget import left_out

        options, budget = self.options, self.budget
        return {
            "data": f"{self.data} ({options.scale}){_MADE_UP if options.scale == 'made-up' else ''}",
            "benchmarks": ", ".join(options.benchmark),
            "scenes": "all" if options.limit is None else f"the first {options.limit} of each",
            "steps": f"{budget.steps} of each system"
            + (f", at most {options.minutes:g} min" if options.minutes else ""),
            "recipe": str(self.recipe),
            "seed": f"{options.seed}, one training of each",
            "left out": left_out(
                budget, scenes=options.limit, parts=options.parts, systems=self.impossible, asked=options.methods
            ),
        }

    def _say_how_long(self) -> None:
        """Begin with SCAV's training, which tells how fast this machine is, and say what all the rest will take."""
        from soundwhere.reproduction.budget import durations, measure

        if self.scav.taken:
            say("How long it takes is not known beforehand: SCAV is not trained here.")
            return
        pace = measure(self.scav, self.tasks[0])
        expected = durations(pace, self.budget.method, self.contenders, self.tasks, self.options.minutes)
        wanted = {part: expected.get(part, 0.0) for part in self.options.parts}
        for part, seconds in [*wanted.items(), ("in all", sum(wanted.values()))]:
            say(f"{part:<12} about {max(1, round(seconds / 60))} min")

    def _comparison(self) -> compare.Options:
        options = self.options
        return compare.Options(
            options.benchmark,
            data=self.data,
            annotations=options.annotations,
            masks=options.masks,
            boxes=True,
            limit=options.limit,
            allow_missing=options.allow_missing,
            methods=tuple(dict.fromkeys((*options.methods, "scav"))) if options.methods else (),
            steps=self.budget.steps,
            seed=(options.seed,),
            minutes=options.minutes,
            take=options.take,
            configs=options.configs,
            recipe=self.recipe,
            keep_every=max(1, self.budget.method.steps_one // _KEPT),
            root=options.root,
            cache=options.cache,
            device=options.device,
            download=options.download,
            out=options.out / "compare",
        )

    def _scored(self, name: str = "") -> dict[str, Any]:
        """What the analyses of one benchmark are given."""
        from soundwhere.data.benchmarks.catalogue import BENCHMARKS

        options = self.options
        name = name or options.benchmark[0]
        masks = options.masks if name in BENCHMARKS and "masks" in BENCHMARKS[name].options else None
        given = {"data": self.data, "annotations": options.annotations, "allow_missing": options.allow_missing}
        return {"benchmark": name, "limit": options.limit, "masks": masks, **given}

    def _open(self) -> tuple[list[Task], dict[str, str]]:
        """The scenes of every benchmark; of the paper's, those that are not at hand are left out, with the reason."""
        from soundwhere.data.benchmarks.catalogue import BENCHMARKS

        tasks, missing = [], {}
        for name in self.options.benchmark:
            try:
                tasks.append(task_of(Scored(**self._scored(name))))
            except (ConfigError, DataError) as error:
                if self.options.scale != "paper" or name not in BENCHMARKS:
                    raise
                say(f"{name} is left out: {error.message}")
                missing[name] = error.message
        if not tasks:
            raise DataError(
                "None of the benchmarks is at hand.", "Give their media with --data; see docs/benchmarks.md."
            )
        return tasks, missing

    def _add(self, name: str, title: str, found: tuple[Report, dict[str, Any]], *first: Table) -> dict[str, Any]:
        """Put an analysis on the page, and return its values."""
        report, settings = found
        print_written(self.options.out / name, self.page.add(name, title, report, settings, list(first)))
        return report.values

    def _data_sets(self) -> None:
        from soundwhere.evaluation.page import Section
        from soundwhere.reproduction.data_sets import data_sets_table

        table = data_sets_table(self.options.annotations, [task.benchmark for task in self.tasks])
        self.page.sections.append(Section("Benchmarks", {}, [table]))

    def _theory(self) -> None:
        from soundwhere.reproduction.claims import theory_statements

        self.page.statements = theory_statements(self._add("theory", "Theory appendix", theory.run(theory.Options())))

    def _compare(self) -> None:
        from soundwhere.reproduction.claims import comparison_claims
        from soundwhere.reproduction.main_tables import main_tables

        found = compare.run(self._comparison())
        title = "Box and mask tables, every system"
        self.page.claims += comparison_claims(self._add("compare", title, found, *main_tables(found[0].values)))

    def _convergence(self) -> None:
        from soundwhere.reproduction.claims import convergence_claims

        model, folder = self.scav.train(), self.scav.folder
        who: dict[str, Any] = {"run": folder} if folder.is_dir() else {"model": (model,)}
        asked = convergence.Options(**self._scored(), **who)
        values = self._add("convergence", "Selective convergence", convergence.run(asked))
        self.page.claims += convergence_claims(values, self.options.benchmark[0])

    def _ablation(self) -> None:
        from soundwhere.reproduction.claims import ablation_claims

        self.scav.train()
        options, method = self.options, self.budget.method
        asked = ablation.Options(
            **self._scored(),
            config=self.recipe,
            root=options.root,
            cache=options.cache,
            steps_one=method.steps_one,
            steps_two=method.steps_two,
            seed=options.seed,
            device=options.device,
            download=options.download,
            minutes=options.minutes,
            start=self.scav.stage_one,
            out=options.out / "ablation",
        )
        values = self._add("ablation", "Ablation, Algorithm 1, box against mask", ablation.run(asked))
        self.page.claims += ablation_claims(values, options.benchmark[0])

    def _protocols(self) -> None:
        from soundwhere.reproduction.claims import protocol_claims

        found = protocols.run(protocols.Options(**self._scored(), model=self.scav.train()))
        values = self._add("protocols", "Frame-wise against source-wise, boxes against masks", found)
        self.page.claims += protocol_claims(values, self.options.benchmark[0])

    def _figures(self) -> None:
        from soundwhere.evaluation.page import Section
        from soundwhere.methods.files import load_model
        from soundwhere.methods.scav.model import SCAV
        from soundwhere.reproduction.figures import draw_figures
        from soundwhere.terminal.progress import Bar

        network = load_model(self.scav.train())
        assert isinstance(network, SCAV)
        task = self.tasks[0]
        with Bar("scoring", len(task.names), "scenes") as bar:
            table, pictures = draw_figures(network, task, self.scav, tick=bar.update)
        self.page.sections.append(Section("Figures", {}, [table], pictures))
