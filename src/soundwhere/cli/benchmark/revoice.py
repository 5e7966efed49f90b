"""`soundwhere benchmark revoice`: a set whose instruments are played on other soundfonts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from soundwhere.terminal.options import named


@dataclass(frozen=True)
class Options:
    """Copy wide-duet so that other soundfonts play its instruments: half of their training clips, and all scenes.

    Train on one copy and score on another whose soundfont was never heard. Needs the program fluidsynth.
    """

    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Folder of wide-duet, or of a set in its layout."""
    soundfont: Annotated[tuple[Path, ...], named("FILE ...")]
    """General MIDI soundfonts (.sf2 or .sf3), which take turns."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder of the copy."""


def run(options: Options) -> int:
    """Make the copy, and say what is in it."""
    from soundwhere.data.rebuilding.revoicing import revoice
    from soundwhere.terminal.progress import Bar

    with Bar("playing", 0, "phrases") as bar:
        made = revoice(options.data, options.soundfont, options.out, bar.update)
    print(f"{len(made.classes)} classes are played, in {made.phrases} phrases: {', '.join(made.classes)}")
    most = max(map(len, made.classes.values()))
    for kind, fonts in made.classes.items():
        if len(fonts) < most:
            print(f"  {kind} by {', '.join(fonts)} only")
    print(f"  {made.clips[0]} of {made.clips[1]} training clips sound otherwise than before")
    print("  scenes: " + ", ".join(f"{name} {left} of {whole}" for name, (left, whole) in made.scenes.items()))
    print(f"wrote {options.out}")
    return 0
