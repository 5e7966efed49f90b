"""A training run: the stages in their order, in a folder that can be left and taken up again at any moment.

The folder holds `latest.safetensors` (to resume from), `best.safetensors` (lowest smoothed loss of the last stage),
`stage-one.safetensors` (the finished first stage), `metrics.jsonl`, and a contact sheet of heatmaps per epoch.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Literal

import torch

from soundwhere import distributed
from soundwhere.config import to_dict
from soundwhere.data.draws import batches
from soundwhere.data.sources import make_draws
from soundwhere.engine.checkpoint import Progress, read_progress, restore, save_checkpoint
from soundwhere.engine.journal import Journal, preparing
from soundwhere.engine.loop import make_optimiser, run_stage
from soundwhere.engine.sheet import write_sheet
from soundwhere.errors import ConfigError
from soundwhere.files import make_folder, write_json
from soundwhere.models.encoders.weights import load_weights
from soundwhere.models.objective import Objective
from soundwhere.models.scav import SCAV
from soundwhere.models.storage import start_from, write_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from soundwhere.config import Config
    from soundwhere.data.draws import Draws

Stage = Literal["one", "two", "joint"]
LATEST, BEST, STAGE_ONE = "latest.safetensors", "best.safetensors", "stage-one.safetensors"


def train(
    config: Config, folder: Path, *, resume: bool = False, start: Path | None = None, download: bool = False
) -> Path:
    """Train a model and return the file it ends up in.

    Args:
        config: Everything the run depends on.
        folder: Where the run lives.
        resume: Go on from the folder's latest checkpoint, to the same weights as if never interrupted.
        start: Begin from this model's weights (all of stage 1, and stage 2 where it has one).
        download: Fetch the visual encoder's ImageNet weights if they are not found on this machine.
    """
    run = Run(config, folder, resume=resume, start=start, download=download)
    try:
        return run.train()
    finally:
        distributed.shutdown()


class Run:
    """The state of a run between its steps."""

    def __init__(self, config: Config, folder: Path, *, resume: bool, start: Path | None, download: bool) -> None:
        self.folder = folder
        self.device = distributed.initialise(config.train.device)
        self.latest = folder / LATEST
        self.resumed: Progress | None = None
        if resume:
            config, self.resumed = self._resumed_config(config)
        elif self.latest.exists():
            raise ConfigError(f"{folder} already holds a run.", "Go on with it with --resume, or choose another --out.")
        self.config = _checked(config, start)
        torch.manual_seed(self.config.train.seed)
        settings = self.config.model
        self.model = SCAV(settings)
        if self.resumed is None:
            if start is not None:
                start_from(self.model, start)
            else:
                load_weights(self.model.visual, settings.visual, settings.visual_weights, download=download)
        make_folder(folder)
        if distributed.is_main():
            write_json(folder / "config.json", to_dict(self.config))

    def _resumed_config(self, config: Config) -> tuple[Config, Progress]:
        """The stored configuration, of which only how long to train and how to log may be changed."""
        if not self.latest.exists():
            raise ConfigError(f"{self.folder} holds no run to resume.", "Start one by leaving out --resume.")
        stored, progress = read_progress(self.latest)
        lasting = ("checkpoint_every_s", "log_every", "device")
        return replace(stored, train=replace(stored.train, **{k: getattr(config.train, k) for k in lasting})), progress

    def train(self) -> Path:
        """Run the stages that are left."""
        stages: list[Stage] = {"both": ["one", "two"]}.get(self.config.train.stage, [self.config.train.stage])  # type: ignore[list-item, dict-item, assignment]
        first = stages.index(self.resumed.stage) if self.resumed else 0  # type: ignore[arg-type]
        for stage in stages[first:]:
            self._train_stage(stage, final=stage == stages[-1])
        return self.folder / BEST

    def _train_stage(self, stage: Stage, final: bool) -> None:
        settings = self.config.train
        steps = settings.steps_one if stage == "one" else settings.steps_two
        self.model.to(self.device)
        objective = Objective(self.model, stage, self.config.loss)
        optimiser = make_optimiser(objective, settings)
        progress = Progress(stage)
        if stage == "two":
            self.model.begin_stage_two()
        if self.resumed is not None and self.resumed.stage == stage:
            progress = self.resumed
            restore(self.latest, self.model, optimiser)

        phases = list(self._phases(stage, steps))
        saved = time.monotonic()
        with Journal(self.folder, progress, steps, settings.batch_size, settings.log_every) as journal:
            for draws, until in phases:
                if progress.step >= until:
                    continue
                epoch = max(1, len(draws) // settings.batch_size)
                feed = batches(draws, range(progress.step, until), settings.batch_size, self.config.data.workers)
                for progress, statistics in run_stage(
                    objective, optimiser, feed, progress, steps, settings, self.device
                ):
                    journal.write(progress, statistics)
                    if progress.step % epoch == 0 or progress.step == steps:
                        self._sheet(stage, progress.step // epoch, draws, objective)
                    if time.monotonic() - saved > settings.checkpoint_every_s or progress.step == steps:
                        progress = self._save(progress, optimiser, final)
                        saved = time.monotonic()
        if stage == "one" and distributed.is_main():
            write_model(self.folder / STAGE_ONE, self.model.without_stage_two())

    def _phases(self, stage: Stage, steps: int) -> Iterator[tuple[Draws, int]]:
        """What a stage trains on and until which step: stage 1 may begin with single clips (the curriculum)."""
        single = round(self.config.data.single_fraction * steps) if stage == "one" else 0
        if single:
            yield self.draws(1), single
        yield self.draws(2), steps

    @cache  # noqa: B019 - lives as long as the run
    def draws(self, sources: int) -> Draws:
        """Scenes with that many sounds; preparing them (rendering, encoding frozen features) shows its progress."""
        with preparing("preparing scenes" if sources > 1 else "preparing single clips") as progress:
            return make_draws(self.config, self.model, sources, progress)

    def _save(self, progress: Progress, optimiser: torch.optim.Optimizer, final: bool) -> Progress:
        """Write `latest`, and `best` if the smoothed loss of the last stage has never been lower."""
        better = final and progress.smooth_loss < progress.best_loss
        if better:
            progress = replace(progress, best_loss=progress.smooth_loss)
        if distributed.is_main():
            save_checkpoint(self.latest, self.model, self.config, progress, optimiser)
            if better:
                write_model(self.folder / BEST, self.model, facts={"config": to_dict(self.config)})
        distributed.barrier()
        return progress

    def _sheet(self, stage: Stage, epoch: int, draws: Draws, objective: Objective) -> None:
        if distributed.is_main():
            objective.eval()
            write_sheet(self.folder / "sheets" / f"stage-{stage}-{epoch:04d}.png", self.model, draws, self.device)
            objective.train()
        distributed.barrier()


def _checked(config: Config, start: Path | None) -> Config:
    """The configuration with what follows from it, or an error where it contradicts itself."""
    stage, model = config.train.stage, config.model
    if stage == "two" and start is None:
        raise ConfigError("Stage 2 needs a trained stage 1.", "Give one with --from FILE, or train --train.stage both.")
    if stage != "one" and not model.decouple:
        raise ConfigError("model.decouple is off, but stage 2 is to be trained.", "Use --train.stage one.")
    if config.loss.stage_two == "distil" and config.data.mixtures == "native" and stage != "one":
        raise ConfigError(
            "The loss `distil` needs the separate sounds of a mixture, and native mixtures have none.",
            "Use --data.mixtures made, or --loss.stage-two paper.",
        )
    if config.train.batch_size % distributed.world_size():
        raise ConfigError(
            f"A batch of {config.train.batch_size} cannot be shared by {distributed.world_size()} processes.",
            "Choose a --train.batch-size that is a multiple of their number.",
        )
    return replace(
        config,
        model=replace(
            model,
            decouple=model.decouple and stage != "one",
            second_audio_encoder=model.second_audio_encoder or config.train.trainable == "full",
        ),
    )
