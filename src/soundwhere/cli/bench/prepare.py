"""`soundwhere bench prepare`: videos into shards, beside plain loops that decode them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from soundwhere.errors import ConfigError
from soundwhere.terminal.measurements import LONGEST_S, FiguresFile, keep_figures

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """How fast two workers prepare videos, against two plain loops that decode them, and what memory they take."""

    clips: int = 24
    """Videos to write and prepare: 640 x 360, 25 frames a second, H.264."""
    rounds: int = 3
    """How often the two ways take turns."""
    seconds: float = 10.0
    """Length of each video."""
    json: FiguresFile = None


def run(options: Options) -> None:
    """Run the measurement."""
    from soundwhere.bench.preparing import WORKERS, bench_prepare

    found = measured(bench_prepare, options)
    print(f"{WORKERS} processes, videos of {options.seconds:g} s, 640 x 360; clips/s:")
    print(f"  prepared{found.prepared:16.2f}\n  decoded, plainly{found.decoded:8.2f}")
    print(f"{found.ratio:.2f} of the plain loops; {found.clip_bytes / 1e3:.0f} kB a clip")
    for clips, megabytes in found.memory_mb.items():
        print(f"  after {clips} clips a worker has had at most {megabytes:.0f} MB")
    keep_figures(options.json, f"prepare --clips {options.clips}", found.to_dict())


def measured(bench: Callable[[Path, int, int, float], T], options: Options) -> T:
    """What a bench finds on videos that it writes to a temporary folder."""
    from tempfile import TemporaryDirectory

    if options.clips < 2 or options.rounds < 1 or not 1 <= options.seconds <= LONGEST_S:
        raise ConfigError("At least 2 clips of 1 s and one round are needed.", "Give larger numbers.")
    with TemporaryDirectory() as made:
        return bench(Path(made), options.clips, options.rounds, options.seconds)
