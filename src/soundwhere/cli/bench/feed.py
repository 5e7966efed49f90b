"""`soundwhere bench feed`: clips out of shards, beside the same clips as videos."""

from __future__ import annotations

from dataclasses import dataclass

from soundwhere.cli.bench import prepare
from soundwhere.terminal.measurements import keep_figures


@dataclass(frozen=True)
class Options(prepare.Options):
    """How fast clips come out of shards: against the same clips as videos, and against reading the bytes alone."""


def run(options: Options) -> None:
    """Run the measurement."""
    from soundwhere.bench.feeding import bench_feed

    found = prepare.measured(bench_feed, options)
    print(f"one process, {found.clips} clips of {options.seconds:g} s; clips/s:")
    print(f"  out of shards{found.shards:14.1f}\n  as videos{found.videos:18.1f}")
    print(f"{found.ratio:.1f} times faster; {found.share_of_read:.2%} of a plain read ({found.read_mb:.0f} MB/s)")
    keep_figures(options.json, f"feed --clips {options.clips}", found.to_dict())
