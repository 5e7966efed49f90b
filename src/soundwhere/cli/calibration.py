"""`soundwhere analyse calibration`: from which confidence on a source counts as sounding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from soundwhere.cli.options import named, say
from soundwhere.cli.scored import Scored, progress, require_matplotlib, settings_of, show, subject_of
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from soundwhere.analysis.calibration import Confidences
    from soundwhere.evaluation.subject import Subject


@dataclass(frozen=True)
class Calibration(Scored):
    """From which confidence on a source counts as sounding, and how often that is wrong."""

    model: Annotated[str | None, named("MODEL")] = None
    """A model: its name, its file, or the folder of a run."""
    choose: Literal["val", "halves"] = "val"
    """Choose the threshold on val and report on test, or (for a model that trained on val) within --split: each half by
    the threshold of the other, the one that is kept on all."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""


def run_calibration(options: Calibration) -> None:
    """Run the command."""
    if options.model is None:
        raise ConfigError("No model was given.", "Give one with --model.")
    require_matplotlib(options.out)

    from soundwhere.analysis.calibration import (
        calibrate,
        calibration_table,
        confidences,
        cross_calibrate,
        error_curve,
    )
    from soundwhere.analysis.plots import error_figure
    from soundwhere.distributed import initialise
    from soundwhere.models.registry import load_model

    model = load_model(options.model).to(initialise(options.device)).eval()
    subject = subject_of(options)
    if options.choose == "val" and (options.split != "test" or "split" not in subject.benchmark.choices):
        raise ConfigError(
            f"{options.benchmark} (--split {options.split}) has no other split to choose the threshold on.",
            "Report on --split test of a benchmark that has a val split, or choose by --choose halves.",
        )

    def ask(asked: Subject, what: str) -> Confidences:
        with progress(what, len(asked.scenes)) as tick:
            return confidences(model, asked.scenes, asked.benchmark.grid, tick=tick)

    found = ask(subject, "asking")
    where = f"{len(subject.names)} scenes of {options.benchmark} {options.split}"
    if options.choose == "val":
        other = subject_of(replace(options, split="val"))
        chosen_on = f"{len(other.names)} scenes of {options.benchmark} val"
        result = calibrate(ask(other, "asking val"), found, chosen_on, where)
    else:
        result = cross_calibrate(found, where)
    thresholds, curves = error_curve(found)
    figures = {}
    if options.out is not None:
        figures["calibration"] = error_figure(thresholds, curves, result.least_confidence)
    values = {
        "calibration": result.as_facts(),
        "curves": {"threshold": thresholds.tolist(), **{name: curve.tolist() for name, curve in curves.items()}},
    }
    about = {**settings_of(options, subject), "model": options.model, "choose": options.choose}
    show(options.out, "calibration", about, [calibration_table(result)], values, figures)
    say(f"least_confidence = {result.least_confidence:.4f}")
