"""Prepare a clip in a process of its own, for nothing but to see whether it survives."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soundwhere.preparation.lists import Entry, Listing
    from soundwhere.preparation.recipe import Recipe


def try_alone(entry: Entry, listing: Listing, recipe: Recipe) -> int:
    """Try a clip; the code with which the process ended, which for a signal is minus its number."""
    command = [sys.executable, "-m", "soundwhere.preparation.trial"]
    return subprocess.run(command, input=pickle.dumps((entry, listing, recipe)), check=False).returncode


def main() -> None:
    """What that process does."""
    from soundwhere.errors import MediaError
    from soundwhere.preparation.clip import prepare_clip

    entry, listing, recipe = pickle.load(sys.stdin.buffer)  # from our own parent
    with suppress(MediaError, OSError):
        prepare_clip(entry, listing, recipe)


if __name__ == "__main__":
    main()
