"""`soundwhere analyse`: the paper's analyses, re-run, and every system of its tables compared."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from typing import Any

from soundwhere.cli.analyse import (
    ablation,
    calibration,
    collections,
    compare,
    convergence,
    motion,
    protocols,
    stage_one,
    theory,
)
from soundwhere.files import claimed_folder
from soundwhere.terminal.messages import print_written
from soundwhere.terminal.options import Nested, parse_nested

DESCRIPTION = """\
Run one of the paper's analyses again. Tables are printed; with --out they are also written as Markdown, every number as
JSON, and figures as PNG.

Examples:
  soundwhere analyse convergence --benchmark real-duet --data real-duet/ --model runs/a runs/b --out analysis/
  soundwhere analyse convergence --benchmark real-duet --data real-duet/ --run runs/a --limit 200
  soundwhere analyse convergence --benchmark vggsound-duet --annotations annotations/
  soundwhere analyse protocols --benchmark real-duet --data real-duet/ --model runs/a --out analysis/
  soundwhere analyse ablation --benchmark real-duet --data real-duet/ --config configs/real-duet.toml \\
      --steps-two 200 --split val --out analysis/ablation
  soundwhere analyse stage-one --benchmark real-trio --data real-duet/ --config configs/real-duet.toml \\
      --steps-one 100 --split val --rows recipe duets compact
  soundwhere analyse collections --data wide-duet/ --config configs/scav-wide.toml --steps-one 1200
  soundwhere analyse compare --benchmark real-duet real-trio --data real-duet/ --minutes 25 --also scav=1
  soundwhere analyse compare --benchmark real-trio --data real-duet/ --methods lvs ez-vsl --steps 100 \\
      --take scav=runs/real-duet
  soundwhere analyse calibration --benchmark real-duet --data real-duet/ --model runs/a --out analysis/
  soundwhere analyse motion --data wide-duet/
  soundwhere analyse theory --sigma 0.05 --threshold 0.4 --out analysis/
"""

ANALYSES: Nested = {
    "convergence": (convergence.Options, convergence.run),
    "protocols": (protocols.Options, protocols.run),
    "ablation": (ablation.Options, ablation.run),
    "stage-one": (stage_one.Options, stage_one.run),
    "collections": (collections.Options, collections.run),
    "compare": (compare.Options, compare.run),
    "calibration": (calibration.Options, calibration.run),
    "motion": (motion.Options, motion.run),
    "theory": (theory.Options, theory.run),
}


def run(arguments: list[str]) -> int:
    """Run the command."""
    name, options = parse_nested(ANALYSES, arguments, "analyse", DESCRIPTION)
    with nullcontext() if options.out is None else claimed_folder(options.out):
        return _analyse(name, options, shlex.join(["soundwhere", "analyse", *arguments]))


def _analyse(name: str, options: Any, command: str) -> int:
    if options.out is not None and name not in ("stage-one", "collections"):
        from soundwhere.evaluation.page import new_figure

        new_figure(1, 1)  # find out before the work that figures cannot be drawn
    report, settings = ANALYSES[name][1](options)

    from soundwhere.terminal.tables import print_tables

    print_tables(report.tables)
    for question, answer in report.words.items():
        print(f"{question} {answer}")
    if options.out is not None:
        print_written(options.out, report.write(options.out, name, {"command": command, **settings}))
    return 0
