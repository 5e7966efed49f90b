"""`soundwhere benchmark`: from boxes to a mask benchmark that can be published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from soundwhere.cli.benchmark_build import Build, build
from soundwhere.cli.options import FLAG, named, parse, say
from soundwhere.errors import ConfigError

DESCRIPTION = """\
Build a mask benchmark from boxes: init, propose, annotate (`soundwhere annotate`), export, verify, stats.
Or build real-duet and wide-duet from the downloads of their sources: build.

Examples:
  soundwhere benchmark init masks/ --manifest vggss.json --data clips/ --double 0.1 --licence LICENCE.txt
  soundwhere benchmark propose masks/ --segmenter onnx:sam2-tiny/
  soundwhere annotate masks/ --segmenter onnx:sam2-tiny/
  soundwhere benchmark export masks/ --out masks-1.0/ --pairs vggsound_duet_test.csv
  soundwhere benchmark verify masks-1.0/
  soundwhere benchmark stats masks-1.0/ --out figures/
  soundwhere benchmark load-test --annotators 10
  soundwhere benchmark build real-duet --voc VOCdevkit/VOC2012 --esc50 ESC-50-master --out real-duet/
  soundwhere evaluate --benchmark vggsound-duet-mask --data clips/ --annotations masks-1.0/ \\
      --masks masks-1.0/masks/pkl --pairing masks-1.0/duets.csv --model runs/first
"""

Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PROJECT")]
Set = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SET")]


@dataclass(frozen=True)
class Init:
    """Make a project from boxes and media; a second run adds what has become available."""

    project: Folder
    """Folder of the project."""
    manifest: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """vggss.json, or a CSV file with id, kind and boxes or boxes_norm."""
    data: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder of videos (ID.mp4), or of frames/ID.jpg and audio/ID.wav."""
    guidelines: Literal["paper", "open"] = "paper"
    """Rules shown to annotators."""
    double: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.1
    """Share of frames that two people annotate, 0 to 1."""
    licence: Annotated[Path | None, named("FILE")] = None
    """Text of the licence of the masks."""


@dataclass(frozen=True)
class Propose:
    """Run the box prompts of all frames ahead."""

    project: Folder
    """Folder of the project."""
    segmenter: str = "simple"
    """What makes masks: simple, onnx:DIR, or transformers:MODEL."""


@dataclass(frozen=True)
class Export:
    """Write what is done as a set: PNG, npz, pickles, COCO, a card and a list of duets."""

    project: Folder
    """Folder of the project."""
    out: Annotated[Path, tyro.conf.arg(metavar="SET")]
    """Folder of the set, which must not exist yet."""
    accepted_only: Annotated[bool, *FLAG] = False
    """Leave out what no second person accepted."""
    media: Annotated[bool, *FLAG] = False
    """Copy frames and sounds too, so that the set can be scored on by itself."""
    pairs: Annotated[Path | None, named("FILE")] = None
    """A published list of pairs to keep those of which both have masks; by default pairs are drawn."""
    seed: int = 0
    """Seed of the pairs that are drawn."""


@dataclass(frozen=True)
class Verify:
    """Check an exported set."""

    set: Set
    """Folder of the set."""


@dataclass(frozen=True)
class Stats:
    """Print how large masks are and how they fill their boxes, by class."""

    set: Set
    """Folder of the set."""
    out: Annotated[Path | None, named("DIR")] = None
    """Folder for stats.csv and histograms.png, which needs matplotlib."""


@dataclass(frozen=True)
class LoadTest:
    """Let simulated annotators work on a made-up project, and count what was lost."""

    annotators: int = 8
    """How many at once."""
    decisions: int = 2000
    """How many together."""


Options = (
    Annotated[Init, tyro.conf.subcommand("init")]
    | Annotated[Propose, tyro.conf.subcommand("propose")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
    | Annotated[Stats, tyro.conf.subcommand("stats")]
    | Annotated[LoadTest, tyro.conf.subcommand("load-test")]
    | Annotated[Build, tyro.conf.subcommand("build")]
)


def run(arguments: list[str]) -> int:
    """Run the command."""
    options: Any = parse(Options, arguments, "benchmark", description=DESCRIPTION)  # type: ignore[arg-type]
    commands: dict[type, Any] = {
        Init: _init, Propose: _propose, Export: _export, Verify: _verify, Stats: _stats, LoadTest: _load_test,
        Build: build,
    }  # fmt: skip
    return int(commands[type(options)](options))


def _init(options: Init) -> int:
    from soundwhere.annotate.project import initialise
    from soundwhere.cli.terminal import Bar
    from soundwhere.data.benchmarks.media import MediaFolder

    if not 0 <= options.double <= 1:
        raise ConfigError(f"--double is {options.double:g}.", "Give a share from 0 to 1.")
    try:
        licence = "" if options.licence is None else options.licence.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{options.licence} cannot be read: {error}.", "Give a text file in UTF-8.") from error
    with Bar("reading", 0) as bar:
        report = initialise(
            options.project,
            options.manifest,
            MediaFolder(options.data),
            options.guidelines,
            options.double,
            licence,
            bar.update,
        )
    print(f"{report.added} frames added, {report.present} already there, {len(report.unavailable)} are unavailable")
    if report.clipped or report.dropped:
        print(f"{report.clipped} boxes reached beyond the picture and were clipped, {report.dropped} were empty")
    for item in report.unavailable[:5]:
        say(f"  {item.scene}: {item.reason}")
    if report.unavailable:
        say(f"all are listed in {options.project / 'unavailable.csv'}; run this again when they are there")
    return 0


def _propose(options: Propose) -> int:
    from soundwhere.annotate.masking import Masker
    from soundwhere.annotate.project import Project
    from soundwhere.annotate.segmenter.protocol import open_segmenter
    from soundwhere.cli.terminal import Bar

    project = Project(options.project)
    masker = Masker(project, open_segmenter(options.segmenter))
    frames = project.store.frames()
    with Bar("proposing", len(frames)) as bar:
        for done, frame in enumerate(frames, 1):
            masker.candidates(frame)
            bar.update(done, len(frames))
    print(f"candidates of {len(frames)} frames by {masker.segmenter.name} are ready")
    return 0


def _export(options: Export) -> int:
    from soundwhere.annotate.export import export
    from soundwhere.annotate.project import Project
    from soundwhere.cli.terminal import Bar

    with Bar("exporting", 0) as bar:
        card = export(
            Project(options.project),
            options.out,
            accepted_only=options.accepted_only,
            media=options.media,
            pairs=options.pairs,
            seed=options.seed,
            tick=bar.update,
        )
    agreed = card["agreement"]
    print(f"{card['frames']} masks, {card['objects']} objects, {len(card['classes'])} classes, {card['duets']} duets")
    if agreed["frames"]:
        print(f"agreement on {agreed['frames']} doubly annotated frames: mask IoU {agreed['mean']:.3f}")
    print(f"wrote {options.out}")
    return 0


def _verify(options: Verify) -> int:
    from soundwhere.annotate.verify import read_card, verify

    problems = verify(options.set)
    if not problems:
        card = read_card(options.set)
        print(f"{options.set}: {card['frames']} masks and {len(card['files'])} files are as they were written")
        return 0
    say("\n".join(problems[:20]) + (f"\nand {len(problems) - 20} more" if len(problems) > 20 else ""))
    return 1


def _stats(options: Stats) -> int:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from soundwhere.annotate.stats import class_table, mask_facts, write_figures
    from soundwhere.files import write_text

    facts = mask_facts(options.set)
    rows = class_table(facts)
    columns = ("class", "frames", "share of picture", "fill of box", "inside box")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column == "class" else "right")
    for kind, frames, *shares in rows:
        table.add_row(kind, str(frames), *(f"{share:.3f}" for share in shares), end_section=kind == rows[-2][0])
    Console(highlight=False).print(table)
    if options.out is not None:
        lines = [",".join(columns), *(f'"{kind}",{frames},{a:.5f},{b:.5f},{c:.5f}' for kind, frames, a, b, c in rows)]
        write_text(options.out / "stats.csv", "\n".join(lines) + "\n")
        write_figures(facts, options.out / "histograms.png")
        print(f"wrote {options.out}/stats.csv, histograms.png")
    return 0


def _load_test(options: LoadTest) -> int:
    import tempfile

    from soundwhere.annotate.load import load_test

    if options.annotators < 1 or options.decisions < options.annotators:
        raise ConfigError("There is nothing to decide.", "Give at least one annotator and one decision for each.")
    with tempfile.TemporaryDirectory() as folder:
        report = load_test(Path(folder), options.annotators, options.decisions)
    print(report)
    for error in report.errors[:5]:
        say(error)
    return 1 if report.errors or report.lost else 0
