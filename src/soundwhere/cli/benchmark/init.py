"""`soundwhere benchmark init`: a project from boxes and media."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from soundwhere.errors import ConfigError, reason
from soundwhere.terminal.messages import say
from soundwhere.terminal.options import named


@dataclass(frozen=True)
class Options:
    """Make a project from boxes and media; a second run adds what has become available."""

    project: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PROJECT")]
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


def run(options: Options) -> int:
    """Run the command."""
    from soundwhere.annotate.project import initialise
    from soundwhere.data.benchmarks.media import MediaFolder
    from soundwhere.terminal.progress import Bar

    if not 0 <= options.double <= 1:
        raise ConfigError(f"--double is {options.double:g}.", "Give a share from 0 to 1.")
    if options.project.exists() and not options.project.is_dir():
        raise ConfigError(f"{options.project} is a file, not a folder.", "Give a folder for the project.")
    try:
        licence = "" if options.licence is None else options.licence.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{options.licence} cannot be read: {reason(error)}.", "Give a text file in UTF-8."
        ) from error
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
    if report.added or report.present:
        print(f"next: soundwhere benchmark propose {options.project}, then soundwhere annotate {options.project}")
    else:
        say(f"looked for ID.mp4, or frames/ID.jpg and audio/ID.wav, in {options.data}")
    return 0
