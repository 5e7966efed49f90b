"""`soundwhere bench localise`: a clip, beside a plain loop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from soundwhere.errors import ConfigError
from soundwhere.methods.files import DEFAULT
from soundwhere.terminal.measurements import LONGEST_S, FiguresFile, keep_figures
from soundwhere.terminal.options import named


@dataclass(frozen=True)
class Options:
    """How fast a clip is localised: against a plain loop, by part, and with the overlay beside the clip's length."""

    clip: Annotated[Path | None, named("CLIP")] = None
    """A video; without it, one of 1280 x 720 pixels is written to a temporary folder."""
    model: str = DEFAULT
    """A model file, or a named model, with random weights if none ship."""
    seconds: float = 30.0
    """Length of the clip that is written."""
    fps: float = 5.0
    """Frames analysed per second."""
    json: FiguresFile = None


def run(options: Options) -> None:
    """Run the measurement."""
    from soundwhere.bench.localising import bench_localise

    if not 1 <= options.seconds <= LONGEST_S:
        raise ConfigError(f"--seconds is {options.seconds:g}.", f"Give between 1 and {LONGEST_S}.")
    figures = bench_localise(options.clip, options.model, options.seconds, options.fps)
    keep_figures(options.json, f"localise --model {options.model}", figures)
