"""What each stage of SCAV trains on and minimises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.data.training_scenes import FramePairs, Needs
from soundwhere.errors import ConfigError
from soundwhere.losses.contrastive import infonce_loss, paper_loss, source_loss
from soundwhere.losses.distillation import distillation_loss, soft_half
from soundwhere.media.augment import blank
from soundwhere.methods.method import Phase, Schedule
from soundwhere.methods.scav.peeling import grow
from soundwhere.methods.scav.strength import STRENGTH, fit_head
from soundwhere.models.similarity import prepare

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Config
    from soundwhere.methods.method import Network, Progress
    from soundwhere.methods.scav.config import SCAVConfig
    from soundwhere.methods.scav.model import SCAV
    from soundwhere.types import Batch

StageName = Literal["one", "two", "joint"]


@dataclass(frozen=True)
class SCAVStage:
    """One stage; see `Stage`."""

    name: StageName
    config: SCAVConfig

    @property
    def follows(self) -> str | None:
        """Stage 2 follows stage 1."""
        return "one" if self.name == "two" else None

    @property
    def schedule(self) -> Schedule:
        """How long and how fast."""
        return Schedule.of(self.config.of_stage(self.name))

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Mixtures; stage 1 may begin with single clips (the curriculum)."""
        config = self.config
        if self.name == "one":
            single = round(config.single_fraction * config.steps_one)
            phases = (Phase(single, Needs(sounds=1)), Phase(config.steps_one, Needs(sounds=2)))
            return tuple(phase for begin, phase in zip((0, single), phases, strict=True) if phase.until > begin)
        distils = config.stage_two == "distil"
        taught = distils and config.teacher == "strength"
        needs = Needs(sounds=2, separate=distils, target=STRENGTH if taught else None)
        return (Phase(config.steps_two, needs),)

    def objective(self, network: SCAV) -> Objective:
        """What is minimised."""
        return Objective(network, self.name)

    def prepare(self, network: SCAV, config: Config, progress: Progress) -> None:
        """Fit the head that shapes maps, before stage 2."""
        head = network.strength
        if self.name == "one" or head is None or head.fitted:
            return
        eye = network.eye
        assert eye is not None, "maps are shaped by a frozen eye"
        pairs = FramePairs(config.data, eye, network.config.frame_px, STRENGTH, progress)
        fit_head(head, pairs, config.train.seed, progress)

    def finish(self, network: SCAV) -> Network | None:
        """Keep stage 1, and let stage 2 begin where it ended."""
        if self.name != "one":
            return None
        network.begin_stage_two()
        return network.without_stage_two()


class Objective(nn.Module):
    """SCAV's loss in one stage, which decides what trains: the rest gets no gradient and stays in eval mode."""

    def __init__(self, model: SCAV, stage: StageName) -> None:
        super().__init__()
        self.model = model
        self.stage = stage
        self.config = model.config
        first = model.stage_one if stage != "two" else ()
        second = model.stage_two if stage != "one" else ()
        frozen = model.visual if model.config.freeze_visual else None
        self._trained = tuple(module for module in (*first, *second) if module is not frozen)
        model.requires_grad_(False)
        for module in self._trained:
            module.requires_grad_(True)
        self.train()

    def train(self, mode: bool = True) -> Objective:
        """Training mode for what trains in this stage, eval mode for the rest, whose BatchNorm must not move."""
        super().train(False)
        self.training = mode
        for module in self._trained:
            module.train(mode)
        return self

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of a batch, and beside it (detached) what the progress display shows."""
        model = self.model
        seen = model.seen(batch)
        spectrogram = model.spectrogram(batch.mixture)
        if self.training and self.config.blank:
            spectrogram = blank(spectrogram, self.config.blank)
        heard = model.embed(spectrogram)
        similarity = model.stage_one_map(seen, heard)
        peaks = similarity.detach().flatten(1).amax(1)
        values = {"peak": peaks.mean(), "mean": similarity.detach().mean()}
        if self.stage == "one":
            return {"loss": self._stage_one(seen, heard), **values}
        prior = model.spatial_prior(similarity, seen)
        if not self.config.prior_gradient:
            prior = prior.detach()
        loss, statistics = self._stage_two(batch, seen, heard, prior)
        if self.stage == "joint":
            first = self._stage_one(seen, heard)
            loss, statistics = loss + first, {**statistics, "stage_one": first.detach()}
        return {"loss": loss, **values, **statistics}

    def _stage_one(self, seen: Tensor, heard: Tensor) -> Tensor:
        form = {"paper": paper_loss, "infonce": infonce_loss}[self.config.stage_one]
        kind = self.config.similarity
        return form(prepare(seen, kind), prepare(heard[:, 0], kind), self.config.thresholds)

    def _stage_two(self, batch: Batch, seen: Tensor, heard: Tensor, prior: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        model, thresholds = self.model, self.config.thresholds
        branches = model.decouple(seen, heard, prior)
        similarity = model.branch_similarity(branches)
        statistics = {
            "peak_1": similarity[:, 0].detach().flatten(1).amax(1).mean(),
            "peak_2": similarity[:, 1].detach().flatten(1).amax(1).mean(),
            "area": (similarity.detach() > thresholds.positive).float().mean(),
        }
        if self.config.stage_two == "distil":
            return distillation_loss(similarity, self.taught(batch, seen), thresholds), statistics
        kind = self.config.similarity
        pairs = zip(branches.features.unbind(1), branches.embeddings.unbind(1), strict=True)
        losses = [
            source_loss(prepare(v, kind), prepare(a, kind), thresholds, self.config.cross_sample_negatives)
            for v, a in pairs
        ]
        return torch.stack(losses).sum(), statistics

    def taught(self, batch: Batch, seen: Tensor) -> Tensor:
        """What the maps of a mixture's sources should be, shape (B, K, h, w), in [0, 1], in any order."""
        if self.config.teacher != "strength":
            return self.solo_maps(batch, seen)
        if batch.targets is None:
            raise ConfigError(
                "The teacher `strength` needs to know which frame each sound came with.",
                "Train on clips (--source real-duet or folder) with --mixtures made, or choose another --teacher.",
            )
        targets = F.interpolate(batch.targets, size=seen.shape[-2:], mode="bilinear", align_corners=False)
        strongest = targets.flatten(2).amax(2).clamp_min(1e-6)
        return soft_half(targets / strongest[..., None, None], self.config.softness)

    @torch.no_grad()
    def solo_maps(self, batch: Batch, seen: Tensor) -> Tensor:
        """Where stage 1 points when it hears each of the mixture's sounds alone, shape (B, K, h, w), in [0, 1].

        It listens in eval mode: solo sounds must not move the statistics with which it hears mixtures.
        """
        if batch.solos is None:
            raise ConfigError(
                "The loss `distil` needs the separate sounds of a mixture, and native mixtures have none.",
                "Train with --mixtures made, or with --stage-two paper.",
            )
        teacher = self.model.audio
        learning = teacher.training
        teacher.eval()
        maps = []
        for solo in batch.solos.unbind(1):
            similarity = self.model.similarity(seen, teacher(self.model.spectrogram(solo)))
            shape = grow if self.config.teacher == "grow" else self.model.dominant
            maps.append(soft_half(shape(similarity, seen), self.config.softness))
        teacher.train(learning)
        return torch.stack(maps, dim=1)
