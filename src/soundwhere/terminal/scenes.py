"""Options that say which scenes are scored, and what every score on them depends on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from soundwhere.terminal.messages import say
from soundwhere.terminal.options import FLAG, check_limit, check_positive, named

if TYPE_CHECKING:
    from soundwhere.evaluation.predictions import Predictions
    from soundwhere.evaluation.task import Task


@dataclass(frozen=True)
class Scored:
    """What to score on."""

    benchmark: Annotated[str, tyro.conf.arg(metavar="NAME")]
    """Its name; an unknown one lists them all."""
    data: Annotated[Path | None, named("DIR")] = None
    """Folder of the media or of the data set."""
    annotations: Annotated[Path | None, named("DIR")] = None
    """Folder of the annotation files; by default `annotations` in --data, or --data itself."""
    masks: Annotated[Path | None, named("DIR")] = None
    """Folder of masks, for benchmarks whose authors publish them apart."""
    split: Literal["val", "test"] = "test"
    """val to choose by, test to report, where a benchmark has both."""
    layout: Literal["free", "side-by-side", "stacked"] = "free"
    """Where made-up things are."""
    limit: Annotated[int | None, named("N")] = None
    """The first N scenes only."""
    allow_missing: Annotated[bool, *FLAG] = False
    """Go on without scenes whose media, masks or predictions are missing."""
    sigma_px: float = 70.0
    """Width of the constant answer's blobs."""
    out: Annotated[Path | None, named("DIR")] = None
    """Folder for JSON, Markdown and figures, which need matplotlib; without it, tables are only printed."""


def task_of(options: Scored, *, truths_only: bool = False, predictions: Predictions | None = None) -> Task:
    """The scenes to score."""
    check_limit(options.limit)
    check_positive(sigma_px=options.sigma_px)
    from soundwhere.data.benchmarks import catalogue
    from soundwhere.evaluation.task import Request, choose_scenes

    chosen = catalogue.Options(masks=options.masks, split=options.split, layout=options.layout)
    benchmark = Request(options.benchmark, options.data, options.annotations, chosen).open()
    say(benchmark.describe())
    return choose_scenes(
        benchmark,
        limit=options.limit,
        truths_only=truths_only,
        allow_missing=options.allow_missing,
        predictions=predictions,
    )


def settings_of(options: Scored, task: Task) -> dict[str, Any]:
    """What every score depends on, as JSON values."""
    return {
        **task.about,
        "scenes": len(task.names),
        "grid": list(task.benchmark.grid),
        "truth": task.benchmark.truth,
        "sigma_px": options.sigma_px,
    }
