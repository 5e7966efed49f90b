"""`soundwhere bench command`: a clip, from a cold start to its last file."""

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
    """What people wait for: `soundwhere clip.mp4` from a cold start to its last file, by runtime and part."""

    clip: Annotated[Path | None, named("CLIP")] = None
    """A video; without it, one of 1280 x 720 pixels is written to a temporary folder."""
    model: str = DEFAULT
    """A built-in model."""
    seconds: float = 10.0
    """Length of the clip that is written."""
    turns: int = 2
    """Runs of each; the one with the least CPU seconds counts."""
    json: FiguresFile = None
    against: Annotated[Path | None, named("SRC")] = None
    """The src folder of another version of the package, which is measured as well."""


def run(options: Options) -> None:
    """Run the measurement."""
    from soundwhere.bench.command import bench_command, versions

    if not 1 <= options.seconds <= LONGEST_S or options.turns < 1:
        raise ConfigError(f"--seconds is {options.seconds:g} and --turns {options.turns}.", "Give 1 or more.")
    runtimes = {each: ["--model", options.model, "--runtime", each] for each in ("onnx", "torch")}
    for version, environment in versions(options.against).items():  # this one, whose figures are kept, comes last
        print(version)
        rows = bench_command(options.clip, runtimes, options.seconds, options.turns, environment)
    clip = "" if options.clip is None else f" --clip {options.clip.name}"
    keep_figures(options.json, f"command --model {options.model}{clip}", {"rows": rows})
