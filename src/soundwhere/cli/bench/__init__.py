"""`soundwhere bench`: measurements, each as a ratio or a difference within one run."""

from __future__ import annotations

from soundwhere.cli.bench import command, evaluate, feed, localise, metrics, prepare, scale, seam, sources, train
from soundwhere.terminal.options import Nested, parse_nested

DESCRIPTION = """\
Measure something on this machine.

Examples:
  soundwhere bench metrics
  soundwhere bench command
  soundwhere bench evaluate --model scav-tiny
  soundwhere bench evaluate --against ../before/src
  soundwhere bench localise --model scav-r18
  soundwhere bench train --root real-duet/
  soundwhere bench train --method ez-vsl lvs
  soundwhere bench sources --model scav-tiny
  soundwhere bench prepare --json docs/figures/prepare.json
  soundwhere bench feed --json docs/figures/feed.json
  soundwhere bench scale
  soundwhere bench seam --root real-duet/ --visual-weights mobilenet_v2-b0353104.pth
"""

MEASUREMENTS: Nested = {
    "metrics": (metrics.Options, metrics.run),
    "localise": (localise.Options, localise.run),
    "command": (command.Options, command.run),
    "evaluate": (evaluate.Options, evaluate.run),
    "seam": (seam.Options, seam.run),
    "sources": (sources.Options, sources.run),
    "train": (train.Options, train.run),
    "prepare": (prepare.Options, prepare.run),
    "feed": (feed.Options, feed.run),
    "scale": (scale.Options, scale.run),
}


def run(arguments: list[str]) -> int:
    """Run the command."""
    name, options = parse_nested(MEASUREMENTS, arguments, "bench", DESCRIPTION)
    MEASUREMENTS[name][1](options)
    return 0
