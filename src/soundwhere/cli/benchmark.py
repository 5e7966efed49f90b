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
  soundwhere benchmark propose-score --data real-duet/ --segmenter onnx:sam2-tiny/
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


@dataclass(frozen=True)
class ProposeScore:
    """Measure a segmenter's proposals for boxes against masks that people drew."""

    data: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder of real-duet, or another with such an images.csv."""
    segmenter: str = "simple"
    """What makes masks: simple, onnx:DIR, or transformers:MODEL."""
    split: Literal["train", "val", "test"] = "val"
    """Which photos."""
    photos: int = 60
    """How many, spread evenly over the list: with one box and a human mask each."""
    out: Annotated[Path | None, named("FILE")] = None
    """CSV file for the figures of each photo."""


Options = (
    Annotated[Init, tyro.conf.subcommand("init")]
    | Annotated[Propose, tyro.conf.subcommand("propose")]
    | Annotated[ProposeScore, tyro.conf.subcommand("propose-score")]
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
        Init: _init, Propose: _propose, ProposeScore: _propose_score, Export: _export, Verify: _verify,
        Stats: _stats, LoadTest: _load_test, Build: build,
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
    from soundwhere.errors import SoundwhereError

    project = Project(options.project)
    masker = Masker(project, open_segmenter(options.segmenter))
    frames = project.store.frames()
    waiting = [frame for frame in frames if not masker.has_candidates(frame)]  # the others would spoil the time left
    failed = 0
    if len(waiting) < len(frames):
        print(f"{len(frames) - len(waiting)} of {len(frames)} frames were ready before")
    with Bar("proposing", len(waiting)) as bar:
        for done, frame in enumerate(waiting, 1):
            try:
                masker.candidates(frame)
            except SoundwhereError as error:
                failed += 1
                say(f"{frame.name}: {error.message}")
            bar.update(done, len(waiting))
    print(f"candidates of {len(frames) - failed} frames by {masker.segmenter.name} are ready")
    return 1 if failed else 0


def _propose_score(options: ProposeScore) -> int:
    from soundwhere.annotate.proposals import ANSWERS, choose_photos, score_proposals, summarise
    from soundwhere.annotate.segmenter.protocol import open_segmenter
    from soundwhere.cli.terminal import Bar, print_grid
    from soundwhere.files import write_text

    rows = choose_photos(options.data, options.split, options.photos)
    segmenter = open_segmenter(options.segmenter)
    with Bar("proposing", len(rows), "photos") as bar:
        proposed = score_proposals(segmenter, rows, bar.update)
    print(
        f"mean IoU with human masks (95 % interval): {len(rows)} photos of {options.split}, one box each, "
        f"by {segmenter.name}"
    )
    lines = [
        [line.name, str(line.boxes), *(f"{it.value:.3f} ({it.low:.3f} to {it.high:.3f})" for it in line.iou.values())]
        for line in summarise(proposed)
    ]
    print_grid(["boxes", "photos", *ANSWERS.values()], lines, ends=(0, 3))
    first, right = (sum(getattr(one, name) for one in proposed) for name in ("scored_first", "right"))
    print(f"the segmenter's own first answer has the best score in {first} of {len(rows)} boxes")
    print(f"key 1, the best score, is the best of the three in {right} of {len(rows)} boxes")
    if options.out is not None:
        facts = [
            ",".join([one.image, f"{one.size:.4f}", f"{one.fill:.4f}", *(f"{one.iou[key]:.4f}" for key in ANSWERS)])
            for one in proposed
        ]
        write_text(options.out, "\n".join([f"image,size,fill,{','.join(ANSWERS)}", *facts]) + "\n")
        print(f"wrote {options.out}")
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
    from soundwhere.annotate.stats import class_table, mask_facts, write_figures
    from soundwhere.cli.terminal import print_grid
    from soundwhere.files import write_text

    facts = mask_facts(options.set)
    rows = class_table(facts)
    columns = ("class", "frames", "share of picture", "fill of box", "inside box")
    cells = [[kind, str(frames), *(f"{share:.3f}" for share in shares)] for kind, frames, *shares in rows]
    print_grid(columns, cells, ends=(len(rows) - 2,))
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
