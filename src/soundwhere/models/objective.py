"""What each training stage minimises, as a module, so that DistributedDataParallel can wrap it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.errors import ConfigError
from soundwhere.losses.contrastive import infonce_loss, paper_loss, source_loss
from soundwhere.losses.distillation import distillation_loss, soft_half
from soundwhere.media.augment import blank
from soundwhere.models.growth import grow
from soundwhere.models.similarity import prepare

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import LossConfig
    from soundwhere.models.scav import SCAV
    from soundwhere.types import Batch

Stage = Literal["one", "two", "joint"]


class Objective(nn.Module):
    """SCAV's loss in one stage, which decides what trains: the rest gets no gradient and stays in eval mode."""

    def __init__(self, model: SCAV, stage: Stage, config: LossConfig) -> None:
        super().__init__()
        self.model = model
        self.stage = stage
        self.config = config
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
        features = model.features(batch)
        spectrogram = model.hear(batch.mixture)
        if self.training and self.config.blank:
            spectrogram = blank(spectrogram, self.config.blank)
        embedding = model.audio(spectrogram)
        similarity = model.similarity(features, embedding)
        peaks = similarity.detach().flatten(1).amax(1)
        values = {"peak": peaks.mean(), "mean": similarity.detach().mean()}
        if self.stage == "one":
            return {"loss": self._stage_one(features, embedding), **values}
        prior = model.spatial_prior(similarity, features)
        if not self.config.prior_gradient:
            prior = prior.detach()
        heard = embedding if model.second_audio is None else model.second_audio(spectrogram)
        loss, statistics = self._stage_two(batch, features, heard, prior)
        if self.stage == "joint":
            first = self._stage_one(features, embedding)
            loss, statistics = loss + first, {**statistics, "stage_one": first.detach()}
        return {"loss": loss, **values, **statistics}

    def _stage_one(self, features: Tensor, embedding: Tensor) -> Tensor:
        kind, thresholds = self.model.config.similarity, self.model.config.thresholds
        form = {"paper": paper_loss, "infonce": infonce_loss}[self.config.stage_one]
        return form(prepare(features, kind), prepare(embedding, kind), thresholds)

    def _stage_two(
        self, batch: Batch, features: Tensor, heard: Tensor, prior: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        model, thresholds = self.model, self.model.config.thresholds
        branches = model.decouple(features, heard, prior)
        similarity = model.branch_similarity(branches)
        statistics = {
            "peak_1": similarity[:, 0].detach().flatten(1).amax(1).mean(),
            "peak_2": similarity[:, 1].detach().flatten(1).amax(1).mean(),
            "area": (similarity.detach() > thresholds.positive).float().mean(),
        }
        if self.config.stage_two == "distil":
            return distillation_loss(similarity, self.taught(batch, features), thresholds), statistics
        kind = model.config.similarity
        pairs = zip(branches.features.unbind(1), branches.embeddings.unbind(1), strict=True)
        losses = [
            source_loss(prepare(v, kind), prepare(a, kind), thresholds, self.config.cross_sample_negatives)
            for v, a in pairs
        ]
        return torch.stack(losses).sum(), statistics

    def taught(self, batch: Batch, features: Tensor) -> Tensor:
        """What the maps of a mixture's sources should be, shape (B, K, h, w), in [0, 1], in any order."""
        if self.config.teacher != "strength":
            return self.solo_maps(batch, features)
        if batch.targets is None:
            raise ConfigError(
                "The teacher `strength` needs to know which frame each sound came with.",
                "Train on clips (--source real-duet or folder) with --mixtures made, or choose another --teacher.",
            )
        # cells of 32 pixels, also where the encoder's are finer
        targets = F.interpolate(batch.targets, size=features.shape[-2:], mode="bilinear", align_corners=False)
        strongest = targets.flatten(2).amax(2).clamp_min(1e-6)
        return soft_half(targets / strongest[..., None, None], self.config.softness)

    @torch.no_grad()
    def solo_maps(self, batch: Batch, features: Tensor) -> Tensor:
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
            similarity = self.model.similarity(features, teacher(self.model.hear(solo)))
            shape = grow if self.config.teacher == "grow" else self.model.dominant
            maps.append(soft_half(shape(similarity, features), self.config.softness))
        teacher.train(learning)
        return torch.stack(maps, dim=1)
