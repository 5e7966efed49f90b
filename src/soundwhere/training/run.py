"""A training run: the stages in their order, in a folder that can be left and taken up again at any moment.

The folder holds `latest.safetensors` (to resume from), `best.safetensors` (lowest smoothed loss of the last stage),
what stages leave behind (`stage-one.safetensors`), `metrics.jsonl`, and a contact sheet of heatmaps per epoch.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

import torch

from soundwhere import distributed
from soundwhere.config import changed_settings, to_dict
from soundwhere.data.draws import batches
from soundwhere.data.training_scenes import data_root, make_draws
from soundwhere.errors import ConfigError
from soundwhere.files import claimed_folder, remove_partial, write_json
from soundwhere.methods.catalogue import find_method
from soundwhere.methods.files import MODEL_PREFIX, build, read_tensors, start_from, write_model
from soundwhere.training.checkpoint import Progress, read_progress, restore, save_checkpoint
from soundwhere.training.contact_sheet import write_sheet
from soundwhere.training.journal import METRICS, Journal, preparing
from soundwhere.training.loop import make_optimiser, run_stage
from soundwhere.training.stopping import StopRequest

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from soundwhere.config import Config
    from soundwhere.data.draws import Draws
    from soundwhere.data.training_scenes import Needs
    from soundwhere.methods.method import Stage

LATEST, BEST = "latest.safetensors", "best.safetensors"
STEPS: Final = "steps"  # folder of the copies that stay

# What may change when any run is resumed: how it logs, and where things are.
CHANGEABLE: Final = {
    *("train.checkpoint_every_s", "train.log_every", "train.keep_every", "train.device"),
    *("data.workers", "data.cache", "data.root", "data.shard_cache", "data.shard_cache_gb"),
}


def stage_file(name: str) -> str:
    """The file in which a stage leaves a network.

    >>> stage_file("one")
    'stage-one.safetensors'
    """
    return f"stage-{name}.safetensors"


def train(
    config: Config,
    folder: Path,
    *,
    resume: bool | Literal["auto"] = False,
    start: Path | None = None,
    download: bool = False,
    longest_s: float = math.inf,
) -> Path:
    """Train a model and return the file it ends up in.

    Args:
        config: Everything the run depends on.
        folder: Where the run lives.
        resume: Go on from the folder's latest checkpoint, to the same weights as if never interrupted; `auto` does so
            if there is one and starts otherwise.
        start: Begin from this model's weights, as far as both have them.
        download: Fetch weights that encoders start from if they are not found on this machine.
        longest_s: Stop when steps have taken so long, over all sittings, and return the file of the latest checkpoint,
            from which the run may go on; for one process.

    Raises:
        KeyboardInterrupt: SIGTERM came; a checkpoint was written after the step that was under way.
    """
    try:
        return Run(config, folder, resume=resume, start=start, download=download, longest_s=longest_s).train()
    finally:
        distributed.shutdown()


class Run:
    """The state of a run between its steps."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        *,
        resume: bool | Literal["auto"],
        start: Path | None,
        download: bool,
        longest_s: float = math.inf,
    ) -> None:
        self.folder = folder
        self.longest_s = longest_s
        self.device = distributed.initialise(config.train.device)
        self.latest = folder / LATEST
        self.resumed: Progress | None = None
        self.seconds = 0.0
        self._begun = False
        self.config = check_config(config)
        self.stages = find_method(config.method.family).stages(self.config.method)
        if resume == "auto":
            resume = distributed.from_main(self.latest.exists())  # what each finds on its disk may differ
        if resume:
            self.resumed = self._resumed()
            self.seconds = self.resumed.seconds
        elif self.latest.exists():
            raise ConfigError(f"{folder} already holds a run.", "Continue it with --resume, or choose another --out.")
        elif start is None and self.stages[0].follows is not None:
            raise ConfigError(
                f"Stage {self.stages[0].name} needs a trained stage {self.stages[0].follows}.",
                "Give one with --from FILE, or train --stage both.",
            )
        torch.manual_seed(self.config.train.seed)
        self.model = build(self.config.method)
        if self.resumed is None:
            if start is not None:
                start_from(self.model, start)
            else:
                self.model.load_pretrained(download)

    def _resumed(self) -> Progress:
        """Where the folder's run stands, whose settings may differ from those given only in what is changeable."""
        if not self.latest.exists():
            if not distributed.is_main():
                raise ConfigError(
                    f"{self.latest} is not there for process {distributed.rank()}.",
                    "Give an --out that all machines share.",
                )
            raise ConfigError(
                f"{self.folder} holds no run to resume.", "Leave out --resume, and give its settings, to start one."
            )
        stored, progress = read_progress(self.latest)
        before, given = stored.method.family, self.config.method.family
        if before != given:
            raise ConfigError(
                f"The run in {self.folder} trains the method {before!r}, but {given!r} is to be trained.",
                "Leave the method out to go on with the run's own, or start another run with another --out.",
            )
        fixed = set(changed_settings(stored, self.config)) - changeable(self.config)
        if fixed:
            raise ConfigError(
                f"The run in {self.folder} was started with other settings than those given: "
                f"{', '.join(sorted(fixed))}.",
                "Leave them out to go on with the run's own, or start another run with another --out.",
            )
        return progress

    def train(self) -> Path:
        """Run the stages that are left; where none can begin, for want of clips to train on, no folder is left."""
        with claimed_folder(self.folder):
            return self._train()

    def _train(self) -> Path:
        names = [stage.name for stage in self.stages]
        first = names.index(self.resumed.stage) if self.resumed else 0
        for stage in self.stages[first:]:
            ended = self._train_stage(stage, final=stage.name == names[-1])
            if not ended or (self.out_of_time and stage.name != names[-1]):
                return self.latest
        distributed.barrier()  # until the main process has written everything
        return self.folder / BEST

    @property
    def out_of_time(self) -> bool:
        """Whether steps have taken as long as they may."""
        return self.seconds >= self.longest_s

    def _train_stage(self, stage: Stage, final: bool) -> bool:
        """Run a stage, or what is left of it; whether there was time enough."""
        settings, schedule, phases = self.config.train, stage.schedule, stage.phases
        steps = phases[-1].until
        self.model.to(self.device)
        objective = stage.objective(self.model)
        optimiser = make_optimiser(objective, schedule)
        progress = Progress(stage.name, seconds=self.seconds)
        if self.resumed is not None and self.resumed.stage == stage.name:
            progress = self.resumed
            restore(self.latest, self.model, optimiser)
        else:
            with preparing(f"preparing stage {stage.name}") as done:
                stage.prepare(self.model, self.config, done)

        trained_on = [(self.draws(phase.needs, stage), phase.until) for phase in phases if phase.until > progress.step]
        self._begin()
        self._keep_copy(progress)
        saved = time.monotonic()
        with (
            Journal(self.folder, progress, steps, schedule.batch_size, settings.log_every) as journal,
            StopRequest() as stop,
        ):
            for draws, until in trained_on:
                if progress.step >= until:
                    continue
                epoch = max(1, len(draws) // schedule.batch_size)
                feed = batches(draws, range(progress.step, until), schedule.batch_size, self.config.data.workers)
                loop = run_stage(
                    objective,
                    optimiser,
                    feed,
                    progress,
                    steps,
                    schedule,
                    self.device,
                    seed=settings.seed,
                    bf16=settings.precision == "bf16",
                    stop=lambda: stop.came() or self.out_of_time,
                )
                for place, statistics in loop:
                    progress = replace(place, best_loss=progress.best_loss)
                    self.seconds = progress.seconds
                    journal.write(progress, statistics)
                    self._keep_copy(progress)
                    if progress.step % epoch == 0 or progress.step == steps:
                        sheet = f"stage-{stage.name}-{math.ceil(progress.step / epoch):04d}.png"
                        self._sheet(sheet, draws, objective, schedule.batch_size)
                        # losses on single clips and on mixtures do not compare: only the last phase counts
                        progress = self._keep_best(progress) if final and until == steps else progress
                    if time.monotonic() - saved > settings.checkpoint_every_s or progress.step == steps:
                        self._save(progress, optimiser)
                        saved = time.monotonic()
                if progress.step < until:  # asked to stop, as every process was
                    self._save(progress, optimiser)
                    distributed.barrier()  # who ends first might take the main process with it
                    if self.out_of_time and not stop.came():
                        return False
                    raise KeyboardInterrupt
        averaged = settings.average and self._average(stage)
        if final and (
            averaged or progress.best_loss == Progress.best_loss
        ):  # or resumed to stop at a step it has passed
            self._keep_best(replace(progress, best_loss=Progress.best_loss))
        left = stage.finish(self.model)
        if left is not None and distributed.is_main():
            write_model(self.folder / stage_file(stage.name), left)
        return True

    def _begin(self) -> None:
        """Put down the settings, once there is something to train on."""
        if self._begun or not distributed.is_main():
            return
        self._begun = True
        remove_partial(self.folder)
        if self.resumed is None:
            (self.folder / METRICS).unlink(missing_ok=True)
        write_json(self.folder / "config.json", to_dict(self.config))

    def draws(self, needs: Needs, stage: Stage) -> Draws:
        """What a phase trains on; preparing it (rendering, encoding frozen features) shows its progress."""
        with preparing("preparing scenes" if needs.sounds > 1 else "preparing single clips") as progress:
            return make_draws(
                self.config.data,
                needs,
                batch_size=stage.schedule.batch_size,
                seed=self.config.train.seed,
                frame_px=self.config.method.frame_px,
                eye=self.model.eye,
                progress=progress,
            )

    # Only the main process writes. The others go on and wait for it at their next exchange of gradients: a barrier here
    # would have to be reached by all, and their clocks do not agree on when a checkpoint is due.

    def _save(self, progress: Progress, optimiser: torch.optim.Optimizer) -> None:
        """Write `latest`."""
        if distributed.is_main():
            save_checkpoint(self.latest, self.model, self.config, progress, optimiser)

    def _keep_copy(self, progress: Progress) -> None:
        """Write a copy that stays into `steps/`, if one is due; the first is made before the first step."""
        every = self.config.train.keep_every
        if every and progress.step % every == 0 and distributed.is_main():
            write_model(self.folder / STEPS / f"stage-{progress.stage}-{progress.step:06d}.safetensors", self.model)

    def _average(self, stage: Stage) -> bool:
        """Take the mean of a stage's last copies for its end; whether there are enough, besides that of the start."""
        distributed.barrier()  # until the main process has written the last one
        copies = sorted((self.folder / STEPS).glob(f"stage-{stage.name}-*.safetensors"))
        last = [path for path in copies if not path.stem.endswith("-000000")][-self.config.train.average :]
        if len(last) < self.config.train.average:
            return False
        states = [read_tensors(path, MODEL_PREFIX) for path in last]
        mean = {
            name: torch.stack([state[name] for state in states]).mean(0) if end.is_floating_point() else end
            for name, end in states[-1].items()
        }
        self.model.load_state_dict(mean)
        return True

    def _keep_best(self, progress: Progress) -> Progress:
        """Write `best` if the smoothed loss has never been lower.

        Asked at steps that no clock decides, and before `latest` is written: a resumed run ends with the same file.
        """
        if progress.smooth_loss >= progress.best_loss:
            return progress
        if distributed.is_main():
            write_model(self.folder / BEST, self.model, facts={"config": to_dict(self.config)})
        return replace(progress, best_loss=progress.smooth_loss)

    def _sheet(self, name: str, draws: Draws, objective: nn.Module, batch_size: int) -> None:
        if distributed.is_main():
            objective.eval()
            write_sheet(self.folder / "sheets" / name, self.model, draws, batch_size)
            objective.train()


def changeable(config: Config) -> set[str]:
    """The settings that may change when a run is resumed, such as `train.device`."""
    return CHANGEABLE | {f"method.{name}" for name in config.method.changeable}


def check_config(config: Config) -> Config:
    """The configuration with what follows from it, or an error where it asks for the impossible."""
    config = find_method(config.method.family).check(config)
    if config.data.source != "synthetic":
        data_root(config.data)
    for stage in find_method(config.method.family).stages(config.method):
        size = stage.schedule.batch_size
        if size % distributed.world_size():
            raise ConfigError(
                f"A batch of {size} cannot be divided among {distributed.world_size()} processes.",
                "Choose a --batch-size that is a multiple of their number.",
            )
        for phase in stage.phases:
            if phase.needs.separate and config.data.mixtures == "native":
                raise ConfigError(
                    f"Stage {stage.name} needs the separate sounds of a mixture, and native mixtures have none.",
                    "Use --mixtures made.",
                )
    return config
