"""`soundwhere benchmark stats`: how large masks are, and how they fill their boxes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from soundwhere.terminal.options import named


@dataclass(frozen=True)
class Options:
    """Print how large masks are and how they fill their boxes, by class."""

    set: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SET")]
    """Folder of the set."""
    out: Annotated[Path | None, named("DIR")] = None
    """Folder for stats.csv and histograms.png, which needs matplotlib."""


def run(options: Options) -> int:
    """Run the command."""
    from soundwhere.annotate.stats import class_table, mask_facts, write_figures
    from soundwhere.files import write_text
    from soundwhere.terminal.tables import print_grid

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
