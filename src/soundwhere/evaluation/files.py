"""What an evaluation leaves in its folder: results.json, scores of every scene, tables."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere import __version__
from soundwhere.files import atomic_path, write_json, write_text
from soundwhere.metrics.report import to_latex, to_markdown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from soundwhere.data.benchmarks.scenes import Benchmark
    from soundwhere.evaluation.scoring import Evaluation
    from soundwhere.evaluation.summary import Summary
    from soundwhere.metrics.report import Table

SCHEMA: Final = "soundwhere-evaluation-1"


def write_evaluation(
    folder: Path,
    benchmark: Benchmark,
    evaluation: Evaluation,
    summary: Summary,
    tables: Sequence[Table],
    facts: dict[str, Any],
) -> None:
    """Write results.json, scenes.npz, tables.md and tables.tex.

    Args:
        folder: Where to.
        benchmark: What was scored on.
        evaluation: What was scored.
        summary: Its figures.
        tables: The same as tables.
        facts: Command, methods and whatever else a reader needs to repeat the run, as JSON values.
    """
    write_json(folder / "results.json", _results(benchmark, evaluation, summary, facts))
    _write_scene_scores(folder / "scenes.npz", evaluation)
    write_text(folder / "tables.md", "\n".join(to_markdown(table) for table in tables))
    write_text(folder / "tables.tex", "\n".join(to_latex(table) for table in tables))


def _results(benchmark: Benchmark, evaluation: Evaluation, summary: Summary, facts: dict[str, Any]) -> dict[str, Any]:
    rows, columns = evaluation.grid
    return {
        "schema": SCHEMA,
        **facts,
        "seeds": {"bootstrap": 0, "random_maps": 0, "random_scenes": 0},
        "versions": {
            "soundwhere": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "scipy")},
        },
        "benchmark": {
            "name": benchmark.name,
            "truth": benchmark.truth,
            "grid": [rows, columns],
            "choices": benchmark.choices,
            "scenes_scored": len(evaluation.names),
            "scenes_usable": len(benchmark.scenes),
            "scenes_total": benchmark.total,
            "scenes_missing": len(benchmark.missing),
            "findings": [asdict(findings) for findings in benchmark.findings],
        },
        "preset": asdict(evaluation.preset),
        "rows": {
            str(row): {"kind": scores.kind, "method": row.method, "pairs": len(scores.pairs)}
            for row, scores in evaluation.scores.items()
        },
        **summary.as_json(),
    }


def _write_scene_scores(path: Path, evaluation: Evaluation) -> None:
    """Write the scores of every scene as npz.

    `scenes` has the names, `level_difference_db` is NaN where unknown, and `rows` has the names of the rows. Row r's
    pairs are `r/scene`, `r/source` and so on as in `PairScores`; `r/confidence` and `r/lit` have one value per scene,
    `r/frames`, `r/solo` and `r/sure` several (see `RowScores`). `area` is given for every pair of
    `area_scene` and `area_source`.
    """
    facts = evaluation.facts
    places = [(scene, source) for scene, each in enumerate(facts) for source in range(len(each.areas))]
    arrays: dict[str, Any] = {
        "scenes": np.array(evaluation.names),
        "rows": np.array(list(map(str, evaluation.scores))),
        "level_difference_db": np.array([each.level_difference_db for each in facts], dtype=np.float64),
        "area_scene": np.array([scene for scene, _ in places], dtype=np.int64),
        "area_source": np.array([source for _, source in places], dtype=np.int64),
        "area": np.array([facts[scene].areas[source] for scene, source in places], dtype=np.float64),
    }
    for number, scores in enumerate(evaluation.scores.values()):
        columns = {name: column.numpy() for name, column in scores.pairs.columns().items()}
        columns |= {name: getattr(scores, name) for name in ("confidence", "lit", "frames", "solo", "sure")}
        arrays |= {f"{number}/{name}": column for name, column in columns.items()}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
