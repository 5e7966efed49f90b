"""A training run: the stages in their order, in a folder that can be left and taken up again at any moment.

The folder holds `latest.safetensors` (to resume from), `best.safetensors` (lowest smoothed loss of the last stage),
`stage-one.safetensors` (the finished first stage), `metrics.jsonl`, and a contact sheet of heatmaps per epoch.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import torch

from soundwhere import distributed
from soundwhere.config import changed_settings, to_dict
from soundwhere.constants import SOURCES
from soundwhere.data.draws import batches
from soundwhere.data.layout import check_layouts
from soundwhere.data.sources import data_root, make_draws, make_strength_pairs
from soundwhere.engine.checkpoint import Progress, read_progress, restore, save_checkpoint
from soundwhere.engine.journal import METRICS, Journal, preparing
from soundwhere.engine.loop import make_optimiser, run_stage
from soundwhere.engine.sheet import write_sheet
from soundwhere.engine.strength import fit_strength
from soundwhere.errors import ConfigError
from soundwhere.files import make_folder, remove_partial, write_json
from soundwhere.models.encoders.weights import load_weights
from soundwhere.models.objective import Objective
from soundwhere.models.scav import SCAV
from soundwhere.models.storage import start_from, write_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from soundwhere.config import Config, ModelConfig
    from soundwhere.data.draws import Draws
    from soundwhere.models.strength import StrengthHead

Stage = Literal["one", "two", "joint"]
LATEST, BEST, STAGE_ONE = "latest.safetensors", "best.safetensors", "stage-one.safetensors"
STEPS = "steps"  # folder of the copies that stay

# What may change when a run is resumed: how long and how fast it trains, how it logs, and where things are.
CHANGEABLE = {
    *("train.steps_one", "train.steps_two", "train.learning_rate", "train.learning_rate_two", "train.clip_norm"),
    *("train.checkpoint_every_s", "train.log_every", "train.keep_every", "train.device"),
    *("data.workers", "data.cache", "data.root"),
}


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
    try:
        return Run(config, folder, resume=resume, start=start, download=download).train()
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
            raise ConfigError(f"{folder} already holds a run.", "Continue it with --resume, or choose another --out.")
        elif config.train.stage == "two" and start is None:
            raise ConfigError("Stage 2 needs a trained stage 1.", "Give one with --from FILE, or train --stage both.")
        self.config = _checked(config)
        torch.manual_seed(self.config.train.seed)
        settings = self.config.model
        self.model = SCAV(settings)
        if self.resumed is None:
            if start is not None:
                start_from(self.model, start)
            else:
                self._load_pretrained(settings, download)
        make_folder(folder)
        if distributed.is_main():
            remove_partial(folder)
            if self.resumed is None:
                (folder / METRICS).unlink(missing_ok=True)
            write_json(folder / "config.json", to_dict(self.config))

    def _load_pretrained(self, settings: ModelConfig, download: bool) -> None:
        load_weights(self.model.visual, settings.visual, settings.visual_weights, download=download)
        heard = settings.visual_weights if settings.audio_weights == "visual" else settings.audio_weights
        load_weights(self.model.audio.encoder, settings.audio, heard, download=download)
        self.model.begin_stage_two()

    def _resumed_config(self, config: Config) -> tuple[Config, Progress]:
        """The configuration to go on with, which may differ from the stored one only in what is `CHANGEABLE`."""
        if not self.latest.exists():
            raise ConfigError(f"{self.folder} holds no run to resume.", "Leave out --resume to start one.")
        stored, progress = read_progress(self.latest)
        fixed = sorted(set(changed_settings(stored, _checked(config))) - CHANGEABLE)
        if fixed:
            raise ConfigError(
                f"The run in {self.folder} was started with other settings than those given: {', '.join(fixed)}.",
                "Leave them out to go on with the run's own, or start another run with another --out.",
            )
        return config, progress

    def train(self) -> Path:
        """Run the stages that are left."""
        chosen = self.config.train.stage
        stages: tuple[Stage, ...] = ("one", "two") if chosen == "both" else (chosen,)
        first = stages.index(self.resumed.stage) if self.resumed else 0
        for stage in stages[first:]:
            self._train_stage(stage, final=stage == stages[-1])
        distributed.barrier()  # until the main process has written everything
        return self.folder / BEST

    def _train_stage(self, stage: Stage, final: bool) -> None:
        settings = self.config.train.of_stage(stage)
        steps = settings.steps_one if stage == "one" else settings.steps_two
        self.model.to(self.device)
        objective = Objective(self.model, stage, self.config.loss)
        optimiser = make_optimiser(objective, settings)
        progress = Progress(stage)
        if self.resumed is not None and self.resumed.stage == stage:
            progress = self.resumed
            restore(self.latest, self.model, optimiser)
        elif stage != "one" and self.model.strength is not None and not self.model.strength.fitted:
            self._fit_strength(self.model.strength)

        self._keep_copy(progress)
        phases = list(self._phases(stage, steps))
        saved = time.monotonic()
        with Journal(self.folder, progress, steps, settings.batch_size, settings.log_every) as journal:
            for draws, until in phases:
                if progress.step >= until:
                    continue
                epoch = max(1, len(draws) // settings.batch_size)
                feed = batches(draws, range(progress.step, until), settings.batch_size, self.config.data.workers)
                loop = run_stage(objective, optimiser, feed, progress, steps, settings, self.device)
                for place, statistics in loop:
                    progress = replace(place, best_loss=progress.best_loss)
                    journal.write(progress, statistics)
                    self._keep_copy(progress)
                    if progress.step % epoch == 0 or progress.step == steps:
                        self._sheet(f"stage-{stage}-{math.ceil(progress.step / epoch):04d}.png", draws, objective)
                        # losses on single clips and on mixtures do not compare: only the last phase counts
                        progress = self._keep_best(progress) if final and until == steps else progress
                    if time.monotonic() - saved > settings.checkpoint_every_s or progress.step == steps:
                        self._save(progress, optimiser)
                        saved = time.monotonic()
        if final and progress.best_loss == Progress.best_loss:  # resumed to stop at a step that it has passed
            self._keep_best(progress)
        if stage == "one":
            self.model.begin_stage_two()
            if distributed.is_main():
                write_model(self.folder / STAGE_ONE, self.model.without_stage_two())

    def _phases(self, stage: Stage, steps: int) -> Iterator[tuple[Draws, int]]:
        """What a stage trains on and until which step: stage 1 may begin with single clips (the curriculum)."""
        single = round(self.config.data.single_fraction * steps) if stage == "one" else 0
        if single:
            yield self.draws(1, stage), single
        if single < steps:
            yield self.draws(2, stage), steps

    def draws(self, sources: int, stage: Stage) -> Draws:
        """Scenes with that many sounds; preparing them (rendering, encoding frozen features) shows its progress."""
        config = replace(self.config, train=replace(self.config.train.of_stage(stage), stage=stage))
        with preparing("preparing scenes" if sources > 1 else "preparing single clips") as progress:
            return make_draws(config, self.model, sources, progress)

    def _fit_strength(self, head: StrengthHead) -> None:
        """Fit the strength head, in every process alike."""
        with preparing("preparing single frames") as progress:
            pairs = make_strength_pairs(self.config, self.model, progress)
        with preparing("fitting the strength head") as progress:
            fit_strength(head, pairs, self.config.train.seed, progress)

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

    def _keep_best(self, progress: Progress) -> Progress:
        """Write `best` if the smoothed loss has never been lower.

        Asked at steps that no clock decides, and before `latest` is written: a resumed run ends with the same file.
        """
        if progress.smooth_loss >= progress.best_loss:
            return progress
        if distributed.is_main():
            write_model(self.folder / BEST, self.model, facts={"config": to_dict(self.config)})
        return replace(progress, best_loss=progress.smooth_loss)

    def _sheet(self, name: str, draws: Draws, objective: Objective) -> None:
        if distributed.is_main():
            objective.eval()
            path = self.folder / "sheets" / name
            write_sheet(path, self.model, draws, self.device, self.config.train.of_stage(objective.stage).batch_size)
            objective.train()


def _checked(config: Config) -> Config:
    """The configuration with what follows from it, or an error where it contradicts itself."""
    stage, model = config.train.stage, config.model
    if stage != "one" and not model.decouple:
        raise ConfigError("model.decouple is off, but stage 2 was asked for.", "Use --stage one.")
    if config.loss.stage_two == "distil" and config.data.mixtures == "native" and stage != "one":
        raise ConfigError(
            "The loss `distil` needs the separate sounds of a mixture, and native mixtures have none.",
            "Use --mixtures made, or --stage-two paper.",
        )
    if config.loss.stage_two == "distil" and config.loss.cross_sample_negatives and stage != "one":
        raise ConfigError(
            "Cross-sample negatives belong to the paper's stage-2 loss, not to `distil`.", "Add --stage-two paper."
        )
    if config.data.source != "synthetic":
        data_root(config.data)
    elif config.loss.teacher == "strength" and stage != "one":
        raise ConfigError(
            "The teacher `strength` needs clips, of which scenes are made.", "Use --teacher grow in the made-up world."
        )
    if stage != "one" and model.maps == "shaped" and (config.data.source == "synthetic" or not model.freeze_visual):
        raise ConfigError(
            "Maps that are `shaped` need clips, to whose frames a head on a frozen visual encoder is fitted.",
            "Use --maps presence, or train on clips (--source real-duet or folder) with --freeze-visual.",
        )
    data = config.data
    if stage != "one" and data.source != "synthetic" and data.mixtures == "made":
        check_layouts(data.layouts, SOURCES, data.silent, data.pool, model.freeze_visual)
    if model.audio_weights == "visual" and model.audio != model.visual:
        raise ConfigError(
            f"The audio encoder ({model.audio}) cannot start from the weights of the visual one ({model.visual}).",
            "Set --audio-weights to none, imagenet or a file.",
        )
    for size in (config.train.batch_size, config.train.of_stage("two").batch_size):
        if size % distributed.world_size() == 0:
            continue
        raise ConfigError(
            f"A batch of {size} cannot be divided among {distributed.world_size()} processes.",
            "Choose a --batch-size that is a multiple of their number.",
        )
    return replace(
        config,
        model=replace(
            model,
            decouple=model.decouple and stage != "one",
            second_audio_encoder=model.second_audio_encoder or config.train.trainable == "full",
        ),
    )
