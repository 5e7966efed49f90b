"""`soundwhere prepare`: a collection of videos to tar shards that any number of machines can train from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from soundwhere.errors import ConfigError
from soundwhere.preparation.recipe import Recipe
from soundwhere.terminal.messages import say
from soundwhere.terminal.options import FLAG, check_workers, named, parse

if TYPE_CHECKING:
    from soundwhere.preparation.lists import Listing
    from soundwhere.preparation.prepare import Report

DESCRIPTION = """\
Prepare videos for training: tar shards of frames, sound and facts, with an index for access in any order.

A run that was stopped, or killed, goes on when the same command is given again; clips that cannot be used are listed in
problems.csv. Several runs may share one folder, as the jobs of an array do.

Examples:
  soundwhere prepare videos/ --out shards/
  soundwhere prepare vggsound.csv --roots videos/ more/ --split train --out shards/ --workers 32
  soundwhere prepare videos/ --out shards/ --dry-run
  soundwhere prepare videos/ --out shards/ --shard-range 10:20
  soundwhere prepare videos/ --out shards/ --on ray
  soundwhere prepare verify shards/
  soundwhere train --source shards --root shards/ --out runs/first
"""


@dataclass(frozen=True)
class Options:
    """Prepare videos for training: tar shards of frames, sound and facts, with an index for access in any order."""

    sources: Annotated[tuple[Path, ...], tyro.conf.Positional, named("FOLDER|LIST ...")]
    """Folders of videos; VGGSound's csv; a csv with file,start,end; MUSIC's json."""
    out: Annotated[Path, named("DIR")]
    """Folder of the shards."""
    roots: Annotated[tuple[Path, ...], named("DIR ...")] = ()
    """Where the videos of a list are looked for; by default beside the list."""
    split: Annotated[str, named("NAME")] = ""
    """Take only this split of a list that has splits."""
    recipe: Annotated[Recipe, tyro.conf.arg(name="")] = field(default_factory=Recipe)
    shard_mb: float = 256.0
    """About how large a shard should be, in MB."""
    clips_per_shard: Annotated[int | None, named("N")] = None
    """How many clips go into a shard, instead of an estimate from a sample."""
    on: Literal["local", "ray"] = "local"
    """Processes of this machine, or a ray cluster: that of RAY_ADDRESS, else one that is started here."""
    workers: Annotated[int | None, named("N")] = None
    """Shards made at once; by default as many as there are processors."""
    shard_range: Annotated[str, named("A:B")] = ":"
    """Make only the shards from number A to before B, as a job of an array does."""
    part: Annotated[str, named("I/N")] = ""
    """Make only the I-th (from 0) of N equal parts of the shards, however many there turn out to be."""
    dry_run: Annotated[bool, *FLAG] = False
    """Say what would be done, how large and how long, from a sample."""
    strict: Annotated[bool, *FLAG] = False
    """Exit with 1 if a clip could not be used."""


@dataclass(frozen=True)
class VerifyOptions:
    """Check hashes, indexes, and that every picture and every sound decodes."""

    folder: Annotated[Path, tyro.conf.Positional, named("SHARDS")]
    """Folder of the shards."""
    on: Literal["local", "ray"] = "local"
    """Processes of this machine, or a ray cluster."""
    workers: Annotated[int | None, named("N")] = None
    """Shards read at once; by default as many as there are processors."""


def run(arguments: list[str]) -> int:
    """Run the command."""
    if arguments[:1] == ["verify"]:
        return _verify(parse(VerifyOptions, arguments[1:], "prepare verify"))
    options = parse(Options, arguments, "prepare", description=DESCRIPTION)
    if not options.sources:
        raise ConfigError("No folder and no list was given.", "For example: soundwhere prepare videos/ --out shards/")
    check_workers(options.workers)
    if options.shard_mb <= 0 or (options.clips_per_shard or 1) < 1:
        raise ConfigError("A shard must hold something.", "Give --shard-mb above 0, --clips-per-shard 1 or more.")
    from soundwhere.preparation.lists import Listing

    listing = Listing(options.sources, options.roots, options.split, options.recipe.window_s)
    if options.dry_run:
        return _dry_run(options, listing)
    from soundwhere.preparation.prepare import prepare
    from soundwhere.terminal.progress import Bar

    with Bar("preparing", 0, "clips") as bar:
        report = prepare(
            options.out,
            listing,
            options.recipe,
            shard_bytes=int(options.shard_mb * (1 << 20)),
            clips_per_shard=options.clips_per_shard,
            shard_range=_range(options.shard_range),
            part=_part(options.part),
            engine=options.on,
            workers=options.workers,
            progress=bar.update,
        )
    return _tell(report, options)


def _tell(report: Report, options: Options) -> int:
    """Say what became of the run; its exit code."""
    plan = report.plan
    print(
        f"{report.made} shards made, {report.kept} were there, {plan.shards} in all: {report.clips} clips, "
        f"{_size(report.size)}, {len(report.problems)} problems"
    )
    if report.problems:
        say(f"clips that cannot be used: {options.out / 'problems.csv'}, such as {report.problems[0].reason}")
    if report.busy:
        say(f"{report.busy} shards are being made by another run.")
    if report.failed:
        codes = ", ".join(f"{shard} ({code})" for shard, code in report.failed.items())
        say(f"failed: the process that made it ended each time, shards {codes}. Run again, with fewer --workers.")
        return 1
    if len(report.problems) == plan.clips:
        say(f"failed: none of the {plan.clips} clips can be used, so there is nothing in {options.out} to train on.")
        return 1
    if report.complete:
        say(f"the set is complete: {options.out}; to train on it: --source shards --root {options.out}")
    else:
        say(f"the set is not complete yet: {options.out}")
    return 1 if options.strict and report.problems else 0


def _dry_run(options: Options, listing: Listing) -> int:
    from soundwhere import cores
    from soundwhere.preparation.estimate import estimate

    found = estimate(
        options.out,
        listing,
        options.recipe,
        shard_bytes=int(options.shard_mb * (1 << 20)),
        clips_per_shard=options.clips_per_shard,
    )
    workers = options.workers or cores.allowed()
    print(f"{found.clips} clips in {found.shards} shards of {found.clips_per_shard}, {found.left} clips left to do")
    print(f"a sample of {found.sampled} clips: {len(found.problems)} cannot be used, {_size(found.clip_bytes)} each")
    for problem in found.problems:
        print(f"  {problem}")
    print(f"about {_size(found.size)}, and {_clock(found.seconds(workers))} with {workers} processes")
    return 0


def _verify(options: VerifyOptions) -> int:
    from soundwhere.preparation.verify import verify
    from soundwhere.terminal.progress import Bar

    check_workers(options.workers)
    with Bar("verifying", 0, "shards") as bar:
        result = verify(options.folder, engine=options.on, workers=options.workers, progress=bar.update)
    for finding in result.findings:
        print(f"{finding.file}: {finding.what}")
    print(f"{result.shards} shards, {result.clips} whole clips, {len(result.findings)} findings")
    return 2 if result.findings else 0


def _range(text: str) -> tuple[int, int | None]:
    """The bounds of A:B, either of which may be left out."""
    match = re.fullmatch(r"(\d*):(\d*)", text)
    if match is None:
        raise ConfigError(f"--shard-range is {text!r}.", "Give A:B, such as 0:10, 10: or :10.")
    return int(match[1] or 0), int(match[2]) if match[2] else None


def _part(text: str) -> tuple[int, int]:
    """The numbers of I/N."""
    match = re.fullmatch(r"(\d+)/(\d+)", text or "0/1")
    if match is None or int(match[1]) >= int(match[2]):
        raise ConfigError(f"--part is {text!r}.", "Give I/N, such as 0/8 for the first of eight parts.")
    return int(match[1]), int(match[2])


def _size(count: float) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count / 1e3:.1f} kB"


def _clock(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
