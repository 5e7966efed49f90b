"""What is said in words. Imports nothing that takes time."""

from __future__ import annotations

import difflib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path


def say(message: str) -> None:
    """Tell the user something that is not the result."""
    print(message, file=sys.stderr)


def show_path(path: Path | str) -> str:
    """A path, or words with a path in them, without line breaks and other characters that upset a terminal."""
    return "".join(character if character.isprintable() else "?" for character in str(path))


def nearest_command(word: str, commands: Collection[str], before: str = "soundwhere") -> str:
    """What to do about a mistyped command.

    >>> nearest_command("inti", ["init", "verify"], "soundwhere benchmark")
    'Did you mean `soundwhere benchmark init`?'
    """
    near = difflib.get_close_matches(word, commands, n=1)
    return f"Did you mean `{before} {near[0]}`?" if near else f"The commands are: {', '.join(commands)}."


def print_links(links: Sequence[str], note: str, host: str) -> None:
    """Print where a page is: for this machine with a note, then for others.

    Args:
        links: This machine's first.
        note: What else there is to say about the page.
        host: What it is served on.
    """
    lines = [f"{links[0]}  {note}", *(f"{link}  from other machines" for link in links[1:])]
    if host in ("0.0.0.0", "::") and len(links) == 1:
        lines.append("This machine seems to have no address that others could open.")
    print("\n".join(lines), flush=True)


def announce(note: str, host: str, browser: bool) -> Callable[[Sequence[str]], None]:
    """What a server calls when its page is there: its links are printed as `print_links` does, the first is opened."""
    from soundwhere.web.addresses import open_later

    def ready(links: Sequence[str]) -> None:
        print_links(links, note, host)
        if browser:
            open_later(links[0])

    return ready


def print_written(folder: Path, files: list[Path]) -> None:
    """Say which files were written to a folder."""
    print(f"wrote {show_path(folder)}{os.sep}{', '.join(_names(folder, files))}", flush=True)


def _names(folder: Path, files: list[Path]) -> list[str]:
    """The written files as a user thinks of them: the video first, a folder as one."""
    names = dict.fromkeys(
        f"{inside.parts[0]}{os.sep * (len(inside.parts) > 1)}" for inside in (f.relative_to(folder) for f in files)
    )
    ordered = sorted(names, key=lambda name: name != "overlay.mp4")
    return [f"{name} (with sound)" if name == "overlay.mp4" else name for name in ordered]
