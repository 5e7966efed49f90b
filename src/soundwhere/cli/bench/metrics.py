"""`soundwhere bench metrics`: scoring maps, beside a per-sample loop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """How much faster scoring is than a per-sample numpy and scikit-learn loop (needs scikit-learn)."""

    pairs: int = 4000
    """Maps to score, each of 224 x 448 pixels."""


def run(options: Options) -> None:
    """Run the measurement."""
    from soundwhere.bench.scoring import bench_metrics

    result = bench_metrics(options.pairs)
    print(f"{result.pairs} pairs: ours {result.ours_s:.1f} s, per-sample loop {result.loop_s:.1f} s")
    print(f"{result.ratio:.1f} times faster; largest difference of a figure {result.largest_difference:.1e}")
