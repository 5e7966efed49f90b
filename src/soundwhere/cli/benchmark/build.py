"""`soundwhere benchmark build`: real-duet and wide-duet again, from the official downloads of their sources."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from soundwhere.terminal.messages import say
from soundwhere.terminal.options import FLAG, named

if TYPE_CHECKING:
    from soundwhere.data.rebuilding.report import Report

Download = Annotated[Path | None, named("DIR")]
_SHOWN = 20


@dataclass(frozen=True)
class Options:
    """Make real-duet or wide-duet from the downloads of their sources; a second run goes on where it stopped."""

    set: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="real-duet|wide-duet|LISTS")]
    """The set, or a folder of lists as `scripts/make_lists.py` writes them."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder of the set."""
    voc: Download = None
    """PASCAL VOC2012: VOCdevkit/VOC2012, with its SegmentationClass."""
    caltech101: Download = None
    """Caltech-101: 101_ObjectCategories."""
    animals10: Download = None
    """Animals-10."""
    instruments30: Download = None
    """30 Musical Instruments."""
    popular_animals: Download = None
    """popular-animals-dataset."""
    hibafourati: Download = None
    """HibaFourati/Projet-annuel."""
    esc50: Download = None
    """ESC-50: ESC-50-master."""
    urbansound8k: Download = None
    """UrbanSound8K."""
    yashnita: Download = None
    """YashNita/Animal-Sound-Dataset."""
    philharmonia: Download = None
    """Philharmonia samples, for phrases of notes."""
    tonejs: Download = None
    """tonejs-instruments, for phrases of notes."""
    soundfont: Annotated[Path | None, named("FILE")] = None
    """FluidR3_GM.sf2, for synthesised phrases; needs the program fluidsynth."""
    videos: Download = None
    """Videos named by their YouTube ids, or as their pages have them."""
    strict: Annotated[bool, *FLAG] = False
    """Exit with 1 unless the whole set was made; phrases may differ."""


def run(options: Options) -> int:
    """Build a set, and say what became of it."""
    from soundwhere.data.rebuilding.build import build
    from soundwhere.data.rebuilding.lists import read_lists
    from soundwhere.data.rebuilding.sources import SOURCES
    from soundwhere.terminal.progress import Bar

    folders = {key: getattr(options, key.replace("-", "_")) for key in SOURCES}
    given = {key: folder for key, folder in folders.items() if folder is not None}
    with Bar("building", 0, "files") as bar:
        report = build(read_lists(options.set), given, options.out, bar.update)
    _tell(report)
    return 1 if options.strict and (report.problems or not report.whole) else 0


def _tell(report: Report) -> None:
    rows = report.remaining
    print(f"{report.lists.name}: {report.state}")
    for table, word in (("images", "photos"), ("audios", "sounds"), ("videos", "videos")):
        if report.lists[table]:
            new = report.made[table] + (report.made["phrases"] if table == "audios" else 0)
            there = f"{len(rows[table])} of {len(report.lists[table])} {word}"
            print(f"  {there}: {new} made, {report.kept[table]} were there")
    scenes = {name: (len(rows[name]), len(report.lists[name])) for name in rows if name.startswith(("duets", "trios"))}
    print("  scenes: " + ", ".join(f"{name} {left} of {whole}" for name, (left, whole) in scenes.items()))
    classes = report.subset.classes if report.subset else ()
    print(f"  {len(classes)} classes: {', '.join(classes)}")
    if report.subset and report.subset.lost:
        print("  left out: " + ", ".join(f"{kind} (no {lacks})" for kind, lacks in report.subset.lost.items()))
    if report.phrase_classes:
        print(f"  phrases are not those of the original: {', '.join(report.phrase_classes)}")
    for problem in report.problems[:_SHOWN]:
        say(f"  {problem.file}: {problem.reason}")
    if report.problems:
        say(f"{len(report.problems)} problems, all in {report.out / 'problems.csv'}")
    for source, count in report.wanting:
        say(f"not given: {source.option}, for {count} more files: {source.where}")
    print(f"wrote {report.out}")
