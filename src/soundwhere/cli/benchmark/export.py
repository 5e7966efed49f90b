"""`soundwhere benchmark export`: what is done, as a set that can be published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from soundwhere.terminal.options import FLAG, named


@dataclass(frozen=True)
class Options:
    """Write what is done as a set: PNG, npz, pickles, COCO, a card and a list of duets."""

    project: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PROJECT")]
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


def run(options: Options) -> int:
    """Run the command."""
    from soundwhere.annotate.export import export
    from soundwhere.annotate.project import Project
    from soundwhere.terminal.progress import Bar

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
    print(f"wrote {options.out}; next: soundwhere benchmark verify {options.out}")
    return 0
