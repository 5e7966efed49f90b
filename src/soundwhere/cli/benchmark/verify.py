"""`soundwhere benchmark verify`: an exported set, checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from soundwhere.terminal.messages import say


@dataclass(frozen=True)
class Options:
    """Check an exported set."""

    set: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SET")]
    """Folder of the set."""


def run(options: Options) -> int:
    """Run the command."""
    from soundwhere.annotate.verify import read_card, verify

    problems = verify(options.set)
    if not problems:
        card = read_card(options.set)
        print(f"{options.set}: {card['frames']} masks and {len(card['files'])} files are as they were written")
        return 0
    say("\n".join(problems[:20]) + (f"\nand {len(problems) - 20} more" if len(problems) > 20 else ""))
    return 1
