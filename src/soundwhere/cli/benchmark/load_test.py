"""`soundwhere benchmark load-test`: simulated annotators, and what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from soundwhere.errors import ConfigError
from soundwhere.terminal.messages import say


@dataclass(frozen=True)
class Options:
    """Let simulated annotators work on a made-up project, and count what was lost."""

    annotators: int = 8
    """How many at once."""
    decisions: int = 2000
    """How many together."""


def run(options: Options) -> int:
    """Run the command."""
    from tempfile import TemporaryDirectory

    from soundwhere.annotate.load import load_test

    if options.annotators < 1 or options.decisions < options.annotators:
        raise ConfigError("There is nothing to decide.", "Give at least one annotator and one decision for each.")
    with TemporaryDirectory() as folder:
        report = load_test(Path(folder), options.annotators, options.decisions)
    print(report)
    for error in report.errors[:5]:
        say(error)
    return 1 if report.errors or report.lost else 0
