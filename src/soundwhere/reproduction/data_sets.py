"""The paper's table of benchmarks, and what is in their annotation files and in the data at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soundwhere.data.annotation.findings import grouped
from soundwhere.data.benchmarks.catalogue import open_benchmark
from soundwhere.errors import SoundwhereError
from soundwhere.evaluation.published import published_sets
from soundwhere.metrics.report import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from soundwhere.data.benchmarks.scenes import Benchmark


def data_sets_table(annotations: Path | None, ours: Sequence[Benchmark]) -> Table:
    """The paper's counts beside those of the annotation files, then the benchmarks that were scored here.

    Args:
        annotations: Folder of the published annotation files, if they are at hand.
        ours: What was scored.
    """
    lines = []
    for each in published_sets():
        theirs = (grouped(each.samples), each.annotation, str(each.classes))
        lines.append((each.name, str(each.year), *theirs, *_found(each.benchmark, annotations), each.note))
    for benchmark in ours:
        lines.append((benchmark.name, "-", "-", "-", "-", *_facts(benchmark), "scored here"))
    head = ("data set", "year", "samples", "truth", "classes", "samples, ours", "truth, ours", "classes, ours", "note")
    note = "Ours: every sample in the annotation files that has a truth, whether its media can be fetched or not."
    return Table("Benchmarks", head, tuple(lines), (note,))


def _found(name: str, annotations: Path | None) -> tuple[str, str, str]:
    if annotations is None:
        return "not given", "-", "-"
    try:
        return _facts(open_benchmark(name, None, annotations))
    except SoundwhereError as error:
        return f"not read: {error.message}", "-", "-"


def _facts(benchmark: Benchmark) -> tuple[str, str, str]:
    truths = benchmark.truths
    if not len(truths):
        return "needs media", benchmark.truth, "-"
    kinds = {kind for place in range(len(truths)) for kind in truths[place].kinds}
    return grouped(len(truths)), benchmark.truth, str(len(kinds)) if kinds else "-"
