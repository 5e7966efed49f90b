"""`soundwhere reproduce`: every table and figure of the paper at the scale of the data at hand, on one page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

import tyro

from soundwhere.cli.analyse_compare import Compare, compare
from soundwhere.cli.analyse_scenes import Scored, task_of
from soundwhere.cli.analyse_training import Ablation, ablation
from soundwhere.cli.options import FLAG, named, parse, say
from soundwhere.cli.terminal import print_tables, print_written, show_path
from soundwhere.errors import ConfigError, DataError, SoundwhereError

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.analysis.report import Report
    from soundwhere.evaluation.page import Section
    from soundwhere.evaluation.task import Task
    from soundwhere.reproduction.claims import Claim, Statement

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

Scale = Literal["made-up", "real", "paper"]
PartName = Literal["data-sets", "theory", "compare", "convergence", "ablation", "protocols", "figures"]
PARTS: Final[tuple[PartName, ...]] = get_args(PartName)
RECIPES: Final[dict[Scale, str]] = {
    "made-up": "configs/made-up-reproduction.toml",
    "real": "configs/real-duet.toml",
    "paper": "configs/paper.toml",
}
BENCHMARKS: Final[dict[Scale, tuple[str, ...]]] = {
    "made-up": ("real-duet", "real-trio"),  # clips in the layout of real-duet
    "real": ("real-duet", "real-trio"),
    "paper": ("vggsound-duet", "vggsound-duet-mask", "vggsound-instruments-duet", "music-duet"),
}
QUICK_STEPS, QUICK_SCENES = 60, 24
MADE_UP_CLIPS, MADE_UP_SCENES, MADE_UP_QUICK = 1920, 300, 480
_KEPT: Final = 6  # copies of stage 1, to see how it converges


@dataclass(frozen=True)
class Options:
    """Everything of the paper, or some parts of it."""

    scale: Annotated[Scale | None, named("{made-up,real,paper}")] = None
    """Whose data: made-up clips (the default without --data), a set in the layout of real-duet (the default with it),
    or the paper's own benchmarks."""
    data: Annotated[Path | None, named("DIR")] = None
    """Folder of the data set, or of the benchmarks' media."""
    annotations: Annotated[Path | None, named("DIR")] = None
    """Folder of the published annotation files: for --scale paper, and for the table of benchmarks."""
    root: Annotated[Path | None, named("DIR")] = None
    """Folder to train on, where that is not --data."""
    benchmark: Annotated[tuple[str, ...], named("NAME ...")] = ()
    """Benchmarks of the main tables; the first is also that of the ablation and the figures."""
    parts: Annotated[tuple[PartName, ...], named("PART ...")] = PARTS
    """Only these parts; those that need a trained SCAV find it in --out or train it."""
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
    return _Reproduction(_settled(options)).run()


def _settled(options: Options) -> Options:
    """The options with all that follows from the scale."""
    scale: Scale = options.scale or ("made-up" if options.data is None else "real")
    if scale != "made-up" and options.data is None:
        raise ConfigError(f"--scale {scale} needs data.", "Give its folder with --data, or leave out --scale.")
    if options.limit is not None and options.limit < 2:
        raise ConfigError(f"--limit {options.limit} leaves too few scenes.", "Give at least 2.")
    wrong = [part for part in options.parts if part not in PARTS]
    if wrong or not options.parts:
        raise ConfigError(f"There is no part {', '.join(wrong) or 'to run'}.", f"Choose among {', '.join(PARTS)}.")
    if options.quick:
        options = replace(options, steps=options.steps or QUICK_STEPS, limit=options.limit or QUICK_SCENES)
    return replace(
        options,
        scale=scale,
        recipe=options.recipe or Path(RECIPES[scale]),
        benchmark=options.benchmark or BENCHMARKS[scale],
    )


class _Reproduction:
    """The parts, one after the other; the page grows with them."""

    def __init__(self, options: Options) -> None:
        from soundwhere.analysis.contenders import total_steps
        from soundwhere.methods.catalogue import read_config
        from soundwhere.methods.scav.config import SCAVConfig

        self.recipe = options.recipe or Path(RECIPES["made-up"])
        recipe = read_config(self.recipe)
        if not isinstance(recipe.method, SCAVConfig):
            raise ConfigError(
                f"{self.recipe} is a recipe of the method {recipe.method.family}, not of scav.",
                "Give one of SCAV, such as configs/real-duet.toml.",
            )
        self.full_steps = total_steps(recipe)
        self.steps = options.steps or self.full_steps
        self.method = recipe.method.lasting(self.steps)
        self.problems: dict[str, str] = {}
        self.options = options
        self.data = self._made_up() if options.data is None else options.data
        self.tasks = self._open()
        self.claims: list[Claim] = []
        self.statements: list[Statement] = []
        self.sections: list[Section] = []

    def run(self) -> int:
        """Run every part that is asked for; a part that fails is reported, and the others go on."""
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
        for name in (name for name in PARTS if name in self.options.parts):
            say(f"\n== {name}")
            try:
                parts[name]()
            except SoundwhereError as error:
                self.problems[name] = error.message
                say(f"{name} could not be done: {error.message} {error.remedy}")
            self._write()
        print(f"\nwrote {show_path(self.options.out / 'index.html')}: {self._verdicts()}")
        return 1 if self.problems else 0

    @property
    def scav(self) -> Path:
        """Where SCAV is: the folder of its training here, or the model that is taken."""
        taken = dict(each.split("=", 1) for each in self.options.take if "=" in each).get("scav")
        return Path(taken) if taken else self.options.out / "compare" / "rows" / f"scav-seed-{self.options.seed}"

    def _made_up(self) -> Path:
        from soundwhere.cli.terminal import Bar
        from soundwhere.data.synthetic.data_set import Sizes, write_data_set

        clips = MADE_UP_QUICK if self.options.quick else MADE_UP_CLIPS
        with Bar("made-up clips", clips, "clips") as bar:
            folder = self.options.out / "made-up"
            return write_data_set(folder, Sizes.of(clips, self.options.limit or MADE_UP_SCENES), tick=bar.update)

    def _say_how_long(self) -> None:
        """Begin with SCAV's training, which tells how fast this machine is, and say what all the rest will take."""
        from soundwhere.cli.analyse_compare import contenders_of
        from soundwhere.reproduction.durations import durations, measure

        options = self.options
        contenders, _ = contenders_of(self._comparison(), self.steps)
        configs = [each.source for each in contenders if each.name == "scav" and not isinstance(each.source, str)]
        if not configs:
            say("How long it takes is not known beforehand: SCAV is not trained here.")
            return
        pace = measure(configs[0], self.scav, self.tasks[0], download=options.download)
        trained = sum(not isinstance(each.source, str) for each in contenders)
        scenes = sum(len(task.names) * (2 if task.benchmark.truth == "masks" else 1) for task in self.tasks)
        expected = durations(pace, self.method, trained, len(contenders), scenes, options.minutes)
        for part in options.parts:
            say(f"{part:<12} about {max(1, round(expected.get(part, 0) / 60))} min")

    def _comparison(self) -> Compare:
        options = self.options
        return Compare(
            options.benchmark,
            data=self.data,
            annotations=options.annotations,
            boxes=True,
            limit=options.limit,
            allow_missing=options.allow_missing,
            methods=tuple(dict.fromkeys((*options.methods, "scav"))) if options.methods else (),
            steps=self.steps,
            seed=(options.seed,),
            minutes=options.minutes,
            take=options.take,
            configs=options.configs,
            recipe=self.recipe,
            keep_every=max(1, self.method.steps_one // _KEPT),
            root=options.root,
            cache=options.cache,
            device=options.device,
            download=options.download,
            out=options.out / "compare",
        )

    def _scored(self, name: str = "") -> dict[str, Any]:
        """What the analyses of one benchmark are given."""
        options = self.options
        given = {"data": self.data, "annotations": options.annotations, "allow_missing": options.allow_missing}
        return {"benchmark": name or options.benchmark[0], "limit": options.limit, **given}

    def _open(self) -> list[Task]:
        """The scenes of every benchmark; of the paper's, those that are not at hand are left out and reported."""
        tasks = []
        for name in self.options.benchmark:
            try:
                tasks.append(task_of(Scored(**self._scored(name))))
            except DataError as error:
                if self.options.scale != "paper":
                    raise
                say(f"{name} is left out: {error.message}")
                self.problems[name] = error.message
        if not tasks:
            raise DataError(
                "None of the benchmarks is at hand.", "Give their media with --data; see docs/benchmarks.md."
            )
        self.options = replace(self.options, benchmark=tuple(task.benchmark.name for task in tasks))
        return tasks

    def _data_sets(self) -> None:
        from soundwhere.evaluation.page import Section
        from soundwhere.reproduction.data_sets import data_sets_table

        ours = [task.benchmark for task in self.tasks]
        self.sections.append(Section("Benchmarks", {}, [data_sets_table(self.options.annotations, ours)]))

    def _theory(self) -> None:
        from soundwhere.analysis.theory import Setting
        from soundwhere.cli.analyse import Theory, theory
        from soundwhere.reproduction.claims import statements_table, theory_statements

        report = self._keep("theory", "Theory appendix", *theory(Theory(Setting())))
        self.statements = theory_statements(report.values)
        print_tables([statements_table(self.statements)])

    def _compare(self) -> None:
        from soundwhere.reproduction.claims import comparison_claims

        report = self._keep("compare", "Box and mask tables, every system", *compare(self._comparison()))
        self.claims += comparison_claims(report.values)

    def _convergence(self) -> None:
        from soundwhere.cli.analyse import Convergence, convergence
        from soundwhere.reproduction.claims import convergence_claims

        run = self.scav if self.scav.is_dir() else None
        models = () if run else (str(self._scav_model()),)
        asked = Convergence(**self._scored(), model=models, run=run)
        report = self._keep("convergence", "Selective convergence", *convergence(asked))
        self.claims += convergence_claims(report.values, self.options.benchmark[0])

    def _ablation(self) -> None:
        from soundwhere.reproduction.claims import ablation_claims
        from soundwhere.training.run import stage_file

        options = self.options
        shared = self.scav / stage_file("one")
        asked = Ablation(
            **self._scored(),
            config=self.recipe,
            root=options.root,
            cache=options.cache,
            steps_one=self.method.steps_one,
            steps_two=self.method.steps_two,
            seed=options.seed,
            device=options.device,
            download=options.download,
            minutes=options.minutes,
            start=shared if shared.is_file() else None,
            out=options.out / "ablation",
        )
        report = self._keep("ablation", "Ablation, Algorithm 1, box against mask", *ablation(asked))
        self.claims += ablation_claims(report.values, options.benchmark[0])

    def _protocols(self) -> None:
        from soundwhere.cli.analyse import Protocols, protocols
        from soundwhere.reproduction.claims import protocol_claims

        asked = Protocols(**self._scored(), model=str(self._scav_model()))
        report = self._keep("protocols", "Frame-wise against source-wise, boxes against masks", *protocols(asked))
        self.claims += protocol_claims(report.values, self.options.benchmark[0])

    def _figures(self) -> None:
        from soundwhere.cli.terminal import Bar
        from soundwhere.evaluation.page import Section
        from soundwhere.methods.files import load_model
        from soundwhere.methods.scav.model import SCAV
        from soundwhere.reproduction.figures import draw_figures

        network = load_model(str(self._scav_model()))
        assert isinstance(network, SCAV)
        task = self.tasks[0]
        with Bar("scoring", len(task.names), "scenes") as bar:
            table, pictures = draw_figures(network, task, self.scav, tick=bar.update)
        print_tables([table])
        self.sections.append(Section("Figures", {}, [table], pictures))

    def _scav_model(self) -> Path:
        """The trained SCAV; what was not trained yet is trained now."""
        from soundwhere.methods.files import model_file

        if not self.scav.exists() and not self.options.take:
            say("SCAV is trained first.")
            compare(replace(self._comparison(), methods=("scav",), limit=self.options.limit or 2))
        return model_file(self.scav)

    def _keep(self, name: str, title: str, report: Report, settings: dict[str, Any]) -> Report:
        """Write a part's own files, and put it on the page."""
        from soundwhere.evaluation.page import Section

        folder = self.options.out / name
        print_written(folder, report.write(folder, name, settings))
        pictures: dict[str, Any] = {
            each.replace("-", " ").capitalize(): draw() for each, draw in report.figures.items()
        }
        pictures |= report.page() if report.page is not None else {}
        self.sections.append(Section(title, report.words, report.tables, pictures))
        return report

    def _write(self) -> None:
        from soundwhere.evaluation.page import Section, write_sections
        from soundwhere.files import write_json
        from soundwhere.reproduction.claims import as_values, claims_table, statements_table

        options = self.options
        facts = {
            "data": f"{self.data} ({options.scale})",
            "benchmarks": ", ".join(options.benchmark),
            "scenes": "all" if options.limit is None else f"the first {options.limit} of each",
            "steps": f"{self.steps} of each system" + (f", at most {options.minutes:g} min" if options.minutes else ""),
            "recipe": str(self.recipe),
            "seed": f"{options.seed}, one training of each",
            "not done": "; ".join(f"{part}: {why}" for part, why in self.problems.items()) or "-",
        }
        if options.quick:
            facts["left out"] = (
                f"--quick trains for {self.steps} of {self.full_steps} steps and scores few scenes, so many claims "
                "stay undecided; one seed; published figures stand beside ours, not at their scale"
            )
        tables = [claims_table(self.claims)] if self.claims else []
        tables += [statements_table(self.statements)] if self.statements else []
        first = Section("Verdicts", {"In all:": self._verdicts()}, tables)
        write_json(options.out / "claims.json", {"settings": facts, **as_values(self.claims, self.statements)})
        write_sections(options.out / "index.html", "The paper, reproduced", facts, [first, *self.sections])

    def _verdicts(self) -> str:
        from soundwhere.reproduction.claims import tally

        return tally([*self.claims, *self.statements])
