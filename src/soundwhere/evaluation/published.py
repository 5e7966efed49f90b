"""Published results of every method in the paper's tables, and whether they may be read beside ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from soundwhere.data.annotation.findings import grouped
from soundwhere.metrics.report import Table, figure_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from soundwhere.metrics.presets import Preset


@dataclass(frozen=True)
class Published:
    """One line of a published table.

    Attributes:
        benchmark: As the catalogue names it.
        method: Whose result.
        venue: Where the method appeared.
        self_supervised: Whether it was trained without labels.
        table: The paper's label of the table.
        preset: The evaluation the figures come from: `scav`, `avgn` or `unknown`.
        source: Who measured it.
        note: What is known to be wrong or open.
        figures: In percent, as printed, by our names.
    """

    benchmark: str
    method: str
    venue: str
    self_supervised: bool
    table: str
    preset: str
    source: str
    note: str
    figures: Mapping[str, float]


@dataclass(frozen=True)
class PublishedSet:
    """One line of the paper's table of benchmarks.

    Attributes:
        name: As the paper calls it.
        benchmark: As the catalogue names it.
        year: When it appeared.
        samples: How many test samples the paper counts.
        annotation: What the truth is made of.
        classes: How many.
        note: What the count means.
    """

    name: str
    benchmark: str
    year: int
    samples: int
    annotation: str
    classes: int
    note: str


def published_sets() -> list[PublishedSet]:
    """The paper's benchmarks, in the order of its table."""
    return [PublishedSet(**row) for row in _file()["data_sets"]]


def published(benchmark: str | None = None) -> list[Published]:
    """The published results, all or those of a benchmark, in the order of the paper's tables."""
    rows = [Published(**row) for row in _file()["results"]]
    return rows if benchmark is None else [row for row in rows if row.benchmark == benchmark]


def find_published(method: str, benchmark: str) -> Published:
    """The first line of the tables about a method on a benchmark."""
    return next(row for row in published(benchmark) if row.method == method)


def compare_published(
    benchmark: str, preset: Preset, scenes: int, ours: Mapping[str, Mapping[str, float]]
) -> tuple[Table | None, list[str]]:
    """Our results and the published ones in one table, and warnings where they cannot be read as one ranking.

    Args:
        benchmark: As the catalogue names it.
        preset: How ours were scored.
        scenes: On how many scenes.
        ours: Figures in [0, 1] by the name of the answer.

    Returns:
        No table if nothing is published for the benchmark.
    """
    rows = published(benchmark)
    if not rows:
        return None, [f"The paper has no results on {benchmark}."]
    figures = ("cap", "ciou@0.1", "ciou@0.3", "auc")
    used = [name for name in figures if any(name in row.figures for row in rows)]

    def cells(values: Mapping[str, float], scale: float = 1) -> list[str]:
        return [f"{scale * values[name]:.1f}" if name in values else "-" for name in used]

    lines = [(name, "ours", *cells(values, 100), preset.name, "this run") for name, values in ours.items()]
    for row in rows:
        differs = "" if row.preset == preset.name else " (!)"
        labels = "" if row.self_supervised else ", with labels"
        source = row.source + (f"; {row.note}" if row.note else "")
        name = f"{row.method} ({row.venue}){labels}"
        lines.append((name, row.table, *cells(row.figures), f"{row.preset}{differs}", source))
    head = ("answer", "kind", *map(figure_name, used), "evaluation", "source")
    warnings = _warnings(benchmark, preset, scenes, rows)
    return Table(f"Published results on {benchmark}", head, tuple(lines), tuple(warnings), groups=True), warnings


def _warnings(benchmark: str, preset: Preset, scenes: int, rows: list[Published]) -> list[str]:
    other = [row.method for row in rows if row.preset != preset.name]
    found = []
    if other:
        found.append(
            f"Warning: {len(other)} of {len(rows)} published rows were scored in another way than {preset.name} and "
            f"are marked (!): {', '.join(dict.fromkeys(other))}. They cannot be ranked against ours."
        )
    if preset.note:
        found.append(f"{preset.name}: {preset.note}")
    theirs = _file()["scenes"].get(benchmark)
    if theirs is not None and theirs != scenes:
        what = "videos" if benchmark == "music-duet" else "scenes, whose list is not published"
        found.append(f"Warning: ours are {grouped(scenes)} scenes, SCAV's {grouped(theirs)} {what}.")
    return found


@cache
def _file() -> dict[str, Any]:
    text = files("soundwhere.evaluation").joinpath("published.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content
