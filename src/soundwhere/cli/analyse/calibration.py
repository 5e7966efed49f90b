"""`soundwhere analyse calibration`: from which confidence on a source counts as sounding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from soundwhere.errors import ConfigError
from soundwhere.terminal.messages import say
from soundwhere.terminal.options import named
from soundwhere.terminal.scenes import Scored, settings_of, task_of

if TYPE_CHECKING:
    from soundwhere.analysis.calibration import Confidences, Sure
    from soundwhere.analysis.report import Report
    from soundwhere.evaluation.task import Task
    from soundwhere.methods.method import Network


@dataclass(frozen=True)
class Options(Scored):
    """From which confidence on a source counts as sounding, and how often that is wrong."""

    model: Annotated[str | None, named("MODEL")] = None
    """A model: its name, its file, or the folder of a run."""
    choose: Literal["val", "halves"] = "val"
    """Choose the threshold on val and report on test (of a model that counts also on --split val itself), or (for a
    model that trained on val) within --split: each half by the threshold of the other, the one that is kept on all."""
    also: Annotated[tuple[str, ...], named("NAME ...")] = ()
    """Further benchmarks of the same --data by whose val scenes the threshold of a model that counts is chosen, too."""
    most_second: float = 1.0
    """Choose among thresholds at which one sound alone gets a second source in at most this share of scenes."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""


def run(options: Options) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    if options.model is None:
        raise ConfigError("No model was given.", "Give one with --model.")
    if not 0 <= options.most_second <= 1:
        raise ConfigError(f"--most-second is {options.most_second:g}.", "Give a share between 0 and 1, such as 0.15.")
    from soundwhere.analysis.calibration import calibrate, calibration_results, confidences, cross_calibrate
    from soundwhere.distributed import initialise
    from soundwhere.methods.files import load_model
    from soundwhere.terminal.progress import Bar

    network = load_model(options.model).to(initialise(options.device)).eval()
    task = task_of(options)
    reported = ("test", "val") if network.config.counts else ("test",)
    if options.choose == "val" and (options.split not in reported or "split" not in task.benchmark.choices):
        raise ConfigError(
            f"{options.benchmark} (--split {options.split}) has no other split to choose the threshold on.",
            "Report on --split test of a benchmark that has a val split, or choose by --choose halves.",
        )

    def ask(asked: Task, what: str) -> Confidences:
        with Bar(what, len(asked.names), "scenes") as bar:
            return confidences(network, asked.scenes, asked.names, asked.benchmark.grid, tick=bar.update)

    if network.config.counts:
        return _count_calibration(options, network, task)
    if options.also:
        raise ConfigError(f"{options.model} does not count.", "Leave out --also, which is for models that do.")
    if options.most_second != 1:
        raise ConfigError(f"{options.model} does not count.", "Leave out --most-second, which is for models that do.")
    found = ask(task, "asking")
    where = f"{len(task.names)} scenes of {options.benchmark} {options.split}"
    if options.choose == "val":
        other = task_of(replace(options, split="val"))
        chosen_on = f"{len(other.names)} scenes of {options.benchmark} val"
        result = calibrate(ask(other, "asking val"), found, chosen_on, where)
    else:
        result = cross_calibrate(found, where)
    say(f"least_confidence = {result.least_confidence:.4f}")
    settings = {**settings_of(options, task), "model": options.model, "choose": options.choose}
    return calibration_results(result, found), settings


def _count_calibration(options: Options, network: Network, task: Task) -> tuple[Report, dict[str, Any]]:
    """The same for a model that counts: the threshold that counts best."""
    from soundwhere.analysis.calibration import counting_results, counts, joined
    from soundwhere.terminal.progress import Bar

    def ask(asked: Task, what: str) -> Sure:
        with Bar(what, len(asked.names), "scenes") as bar:
            return counts(network, asked.scenes, asked.names, asked.benchmark.grid, tick=bar.update)

    if options.choose == "halves":
        raise ConfigError(f"{options.model} counts: its threshold is chosen on val.", "Leave out --choose halves.")
    other = task if options.split == "val" else task_of(replace(options, split="val"))
    others = [name for name in options.also if name != options.benchmark]
    further = {name: task_of(replace(options, benchmark=name, split="val")) for name in others}
    own = ask(other, "asking val")
    chosen = [own, *(ask(each, f"asking {name}") for name, each in further.items())]
    chosen_on = ", ".join(
        f"{len(each.names)} scenes of {name} val" for name, each in {options.benchmark: other, **further}.items()
    )
    reported_on = f"{len(task.names)} scenes of {options.benchmark} {options.split}"
    threshold, report = counting_results(
        joined(chosen), own if other is task else ask(task, "asking"), chosen_on, reported_on, options.most_second
    )
    say(f"least_confidence = {threshold:.4f}, dark = {report.values['dark']['below']:.4f}")
    used = {"model": options.model, "choose": options.choose, "also": others, "most_second": options.most_second}
    return report, {**settings_of(options, task), **used}
