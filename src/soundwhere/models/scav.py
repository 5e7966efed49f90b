"""SCAV: selective convergence audio-visual localisation, the paper's method."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from soundwhere.config import ModelConfig
from soundwhere.constants import SOURCES
from soundwhere.losses.distillation import presence_logits
from soundwhere.media.spectrogram import log_spectrogram
from soundwhere.models.decouplers import AudioDecoupler, VisualDecoupler, sinusoidal_positions
from soundwhere.models.encoders import build_audio, build_visual, freeze
from soundwhere.models.hub import HubFormat
from soundwhere.models.prior import dominant_map, normalise_range
from soundwhere.models.shaping import heard_under, shaped
from soundwhere.models.similarity import prepare, similarity_map
from soundwhere.models.strength import StrengthHead
from soundwhere.types import Batch, Localisation

if TYPE_CHECKING:
    from torch import Tensor


class Branches(NamedTuple):
    """The decoupled sources: f_v of shape (B, K, D, h, w) and f_a of shape (B, K, D), dominant source first."""

    features: Tensor
    embeddings: Tensor


class AudioBranch(nn.Module):
    """Phi_a with its pooling, and a head where its width differs from the visual encoder's.

    A ReLU ends the head, so that sound and (non-negative) visual features have a cosine in [0, 1], where the thresholds
    0.65 and 0.4 mean something.
    """

    def __init__(self, config: ModelConfig, channels: int) -> None:
        super().__init__()
        self.encoder = build_audio(config.audio)
        self.pooling = config.pooling
        same = self.encoder.channels == channels
        self.head = nn.Identity() if same else nn.Sequential(nn.Linear(self.encoder.channels, channels), nn.ReLU())

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Encode spectrograms (B, 1, F, T) into embeddings a, shape (B, C)."""
        cells = self.encoder(spectrogram).flatten(2)
        embedding: Tensor = self.head(cells.mean(2) if self.pooling == "average" else cells.amax(2))
        return embedding


class SCAV(HubFormat, nn.Module):
    """Localises two simultaneous sounds with one forward pass.

    Stage 1 (`visual`, `audio`) points at the dominant source; its map becomes the spatial prior (Algorithm 1). Stage 2
    (`project_*`, `*_decoupler`) splits picture and sound by that prior and compares each pair.
    """

    def __init__(self, config: ModelConfig = ModelConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        self.visual = build_visual(config.visual, config.fine_grid)
        if config.freeze_visual:
            freeze(self.visual)
        channels = self.visual.channels
        self.audio = AudioBranch(config, channels)
        self.strength: StrengthHead | None = None
        own_ears = config.decouple and config.second_audio_encoder
        self.second_audio = AudioBranch(config, channels) if own_ears else None
        if config.decouple:
            self.project_visual = nn.Conv2d(channels, config.dimension, 1, bias=False)
            self.project_audio = nn.Linear(channels, config.dimension, bias=False)
            branches = 1 if config.share_decoupler else SOURCES
            self.visual_decouplers = nn.ModuleList(
                VisualDecoupler(config.dimension, config.decoupler_layers, config.decoupler_heads)
                for _ in range(branches)
            )
            self.audio_decoupler = AudioDecoupler(config.dimension, config.decoupler_heads)
            self._align_projections()
            if config.maps == "shaped":
                with torch.random.fork_rng(devices=[]):  # a seed gives the same stage 2 with and without it
                    self.strength = StrengthHead(channels)

    @torch.no_grad()
    def _align_projections(self) -> None:
        """Start both projections from one orthonormal matrix: stage 2 begins where stage 1's similarity ended."""
        nn.init.orthogonal_(self.project_audio.weight)
        self.project_visual.weight.copy_(self.project_audio.weight[..., None, None])

    @property
    def stage_one(self) -> tuple[nn.Module, ...]:
        """The modules trained in stage 1."""
        return self.visual, self.audio

    @property
    def stage_two(self) -> tuple[nn.Module, ...]:
        """The modules trained in stage 2."""
        heads: tuple[nn.Module, ...] = (
            self.project_visual,
            self.project_audio,
            self.visual_decouplers,
            self.audio_decoupler,
        )
        return heads if self.second_audio is None else (*heads, self.second_audio)

    def without_stage_two(self) -> SCAV:
        """A copy of stage 1 alone, which answers with its one map."""
        alone = SCAV(replace(self.config, decouple=False))
        for mine, theirs in zip(alone.stage_one, self.stage_one, strict=True):
            mine.load_state_dict(theirs.state_dict())
        return alone

    def begin_stage_two(self) -> None:
        """Let stage 2's own audio encoder, if there is one, start as a copy of stage 1's."""
        if self.second_audio is not None:
            self.second_audio.load_state_dict(self.audio.state_dict())

    @property
    def sources(self) -> int:
        """K, how many maps the model gives."""
        return SOURCES if self.config.decouple else 1

    def hear(self, waveform: Tensor) -> Tensor:
        """Turn waveforms (B, N) into the log-spectrograms (B, 1, F, T) this model was made for."""
        return log_spectrogram(waveform, self.config.spectrogram)

    def features(self, batch: Batch) -> Tensor:
        """V, shape (B, C, h, w): the cached features if the batch has them, else those of its pictures."""
        if batch.features is not None:
            return batch.features
        if batch.image is None:
            raise ValueError("a batch needs pictures or their features")
        return self.see(batch.image)

    def see(self, image: Tensor) -> Tensor:
        """V, shape (B, C, h, w), of pictures (B, 3, H, W). Through a frozen encoder no gradient ever flows."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.config.freeze_visual):
            encoded: Tensor = self.visual(image)
        return encoded

    def similarity(self, features: Tensor, embedding: Tensor) -> Tensor:
        """S, shape (B, h, w), of features (B, C, h, w) and embeddings (B, C)."""
        return similarity_map(features, embedding, self.config.similarity)

    def spatial_prior(self, similarity: Tensor, features: Tensor) -> Tensor:
        """M_dom, shape (B, h, w), in [0, 1], by the configured rule."""
        if self.config.prior == "uniform":
            return torch.full_like(similarity, 0.5)
        if self.config.prior == "minmax":
            return normalise_range(similarity)
        return self.dominant(similarity, features)

    def dominant(self, similarity: Tensor, features: Tensor) -> Tensor:
        """Algorithm 1 on the configured features V', shape (B, h, w), in [0, 1]."""
        compared = prepare(features, "cosine") if self.config.prior_features == "normalised" else features
        return dominant_map(similarity, compared, self.config.thresholds)

    def decouple(self, features: Tensor, embedding: Tensor, prior: Tensor) -> Branches:
        """Split picture and sound by the prior (Sec. progressive multi-source localisation).

        Args:
            features: V, shape (B, C, h, w).
            embedding: a, shape (B, C).
            prior: M_dom, shape (B, h, w).
        """
        projected = self.project_visual(features)
        _, dimension, height, width = projected.shape
        positions = sinusoidal_positions(dimension, height, width, projected.device)
        projected = projected + positions.to(projected.dtype)
        mixed = self.project_audio(embedding)
        dominant = prior[:, None].to(projected.dtype)
        first, second = self.visual_decouplers[0], self.visual_decouplers[-1]
        refined = first(projected * dominant), second(projected * (1 - dominant))
        separated = [self.audio_decoupler(mixed, branch) for branch in refined]
        return Branches(torch.stack(refined, dim=1), torch.stack(separated, dim=1))

    def forward(self, image: Tensor, spectrogram: Tensor) -> Localisation:
        """From pictures (B, 3, H, W) and spectrograms (B, 1, F, T) to the maps of K sources in one pass."""
        return self.localise_features(self.see(image), spectrogram)

    def localise_features(self, features: Tensor, spectrogram: Tensor) -> Localisation:
        """As `forward`, from visual features (B, C, h, w)."""
        return self.localise_heard(features, self.embed(spectrogram))

    def embed(self, spectrogram: Tensor) -> Tensor:
        """Encode spectrograms (B, 1, F, T) once for any number of pictures: the embedding for each stage, (B, 2, C)."""
        first = self.audio(spectrogram)
        second = first if self.second_audio is None else self.second_audio(spectrogram)
        return torch.stack([first, second], dim=1)

    def localise_heard(self, features: Tensor, heard: Tensor) -> Localisation:
        """As `localise_features`, from what `embed` made of the sound, shape (B, 2, C)."""
        embedding, second = heard.unbind(1)
        similarity = self.similarity(features, embedding)
        if not self.config.decouple:
            return localisation(similarity[:, None], embedding[:, None])
        branches = self.decouple(features, second, self.spatial_prior(similarity, features))
        maps = self.branch_similarity(branches)
        if self.config.maps == "similarity":
            return localisation(maps, branches.embeddings)
        presence = presence_logits(maps, self.config.thresholds).sigmoid()
        if self.strength is None:
            return localisation(presence, branches.embeddings)
        mixed = self.similarity(features, second)
        maps = shaped(presence, features, self.see_strength(features), mixed)
        return Localisation(maps, heard_under(maps, mixed), branches.embeddings)

    def see_strength(self, features: Tensor) -> Tensor:
        """How surely each cell shows a thing of any kind, shape (B, 1, h, w), where maps are `shaped`."""
        assert self.strength is not None
        strength: Tensor = self.strength(features)
        return strength

    def branch_similarity(self, branches: Branches) -> Tensor:
        """S_k = <f_vk, f_ak> for every source, shape (B, K, h, w)."""
        flat = self.similarity(branches.features.flatten(0, 1), branches.embeddings.flatten(0, 1))
        return flat.reshape(*branches.embeddings.shape[:2], *flat.shape[1:])

    def localise(self, batch: Batch) -> Localisation:
        """The maps of a batch's mixtures."""
        return self.localise_features(self.features(batch), self.hear(batch.mixture))


def localisation(similarity: Tensor, embeddings: Tensor) -> Localisation:
    """Put maps (B, K, h, w) and embeddings (B, K, D) together; the confidence of a map is its peak."""
    return Localisation(similarity, similarity.flatten(2).amax(2).clamp(0, 1), embeddings)
