"""`soundwhere bench evaluate`: scenes a second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from soundwhere.terminal.measurements import check_scenes
from soundwhere.terminal.options import named


@dataclass(frozen=True)
class Options:
    """How many scenes a second `soundwhere evaluate` scores, with all of its rows."""

    model: str = "scav-tiny"
    """The model that is scored."""
    benchmark: str = "synthetic"
    """What it is scored on."""
    data: Annotated[Path | None, named("DIR")] = None
    """Folder of the data set, where there is one."""
    scenes: int = 128
    """How many scenes are timed."""
    against: Annotated[Path | None, named("SRC")] = None
    """The src folder of another version of the package, which is measured as well."""


def run(options: Options) -> None:
    """Run the measurement."""
    from soundwhere.bench.command import bench_evaluate, versions

    check_scenes(options.scenes)
    where = [] if options.data is None else ["--data", str(options.data)]
    arguments = ["--benchmark", options.benchmark, "--model", options.model, *where]
    print(f"{options.model} on {options.benchmark}, {options.scenes} scenes:")
    for version, environment in versions(options.against).items():
        took = bench_evaluate(arguments, options.scenes, environment)
        per_wall_s, per_cpu_s = took.scenes / took.wall_s, took.scenes / took.cpu_s
        print(f"{version}: {per_wall_s:.2f} scenes a second, {per_cpu_s:.2f} for each second of processor,", end=" ")
        print(f"and {took.start_s:.1f} seconds of processor to start", flush=True)
