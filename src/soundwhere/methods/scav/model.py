"""SCAV's network: both stages in one forward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import nn

from soundwhere.constants import SOURCES
from soundwhere.losses.distillation import presence_logits
from soundwhere.media.spectrogram import log_spectrogram
from soundwhere.methods.method import ANSWER, ANSWERS, EMBED, SEE, Control, Network, Step, check_frame
from soundwhere.methods.scav.config import SCAVConfig
from soundwhere.methods.scav.decouplers import AudioDecoupler, VisualDecoupler, sinusoidal_positions
from soundwhere.methods.scav.peeling import peel, share_out
from soundwhere.methods.scav.prior import dominant_steps
from soundwhere.methods.scav.shaping import heard_under, shaped
from soundwhere.methods.scav.strength import StrengthHead
from soundwhere.methods.two_encoders import frozen_eye, load_encoders, pool
from soundwhere.models.encoders import build_audio, build_visual, freeze
from soundwhere.models.recollection import once
from soundwhere.models.similarity import normalise_range, prepare, similarity_map
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.data.features import Eye
    from soundwhere.methods.method import Given
    from soundwhere.methods.scav.prior import Steps


class Branches(NamedTuple):
    """The decoupled sources: f_v of shape (B, K, D, h, w) and f_a of shape (B, K, D), dominant source first."""

    features: Tensor
    embeddings: Tensor


class AudioBranch(nn.Module):
    """Phi_a with its pooling, and a head where its width differs from the visual encoder's.

    A ReLU ends the head where visual features are not negative: sound and features then have a cosine in [0, 1], where
    the thresholds 0.65 and 0.4 mean something.
    """

    def __init__(self, config: SCAVConfig, channels: int, signed: bool) -> None:
        super().__init__()
        self.encoder = build_audio(config.audio)
        self.pooling = config.pooling
        if signed:
            self.head: nn.Module = nn.Linear(self.encoder.channels, channels)
        elif self.encoder.channels == channels:
            self.head = nn.Identity()
        else:
            self.head = nn.Sequential(nn.Linear(self.encoder.channels, channels), nn.ReLU())

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Encode spectrograms (B, 1, F, T) into embeddings a, shape (B, C)."""
        embedding: Tensor = self.head(pool(self.encoder(spectrogram), self.pooling))
        return embedding


class SCAV(Network):
    """Localises two simultaneous sounds with one forward pass.

    Stage 1 (`visual`, `audio`) points at the dominant source; its map becomes the spatial prior (Algorithm 1). Stage 2
    (`project_*`, `*_decoupler`) splits picture and sound by that prior and compares each pair.

    What it sees is V, shape (B, C, h, w); what it hears are two embeddings, one for each stage, shape (B, 2, C).
    """

    config: SCAVConfig
    controls: ClassVar[tuple[Control, ...]] = (
        Control("peel", "training-free", lambda model, *scene: model.peel(*scene)),
        Control("solo sounds", "solo", lambda model, seen, heard, _: model.stage_one_map(seen, heard)[:, None]),
    )

    def __init__(self, config: SCAVConfig = SCAVConfig()) -> None:  # noqa: B008 - frozen
        super().__init__(config)
        visual = build_visual(config.visual, config.fine_grid)
        check_frame(config, visual.stride)
        self.visual = visual
        if config.freeze_visual:
            freeze(self.visual)
        channels, signed = visual.channels, getattr(visual, "signed", False)
        self.audio = AudioBranch(config, channels, signed)
        self.strength: StrengthHead | None = None
        own_ears = config.decouple and config.second_audio_encoder
        self.second_audio = AudioBranch(config, channels, signed) if own_ears else None
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

    # What trains, and from what

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

    @property
    def eye(self) -> Eye | None:
        """The visual encoder, if it is frozen."""
        return frozen_eye(self)

    def load_pretrained(self, download: bool) -> None:
        """Load the weights that both encoders start from."""
        load_encoders(self, self.audio.encoder, download)
        self.begin_stage_two()

    def start_from(self, other: Network) -> None:
        """Begin from all of another's stage 1, and as much of stage 2 as both have."""
        assert isinstance(other, SCAV)
        for mine, theirs in zip(self.stage_one, other.stage_one, strict=True):
            mine.load_state_dict(theirs.state_dict())
        self.begin_stage_two()
        if self.config.decouple and other.config.decouple:
            # the audio encoder of stage 2, which only some models have, comes last
            for mine, theirs in zip(self.stage_two, other.stage_two, strict=False):
                mine.load_state_dict(theirs.state_dict())
        if self.strength is not None and other.strength is not None:
            self.strength.load_state_dict(other.strength.state_dict())

    def begin_stage_two(self) -> None:
        """Let stage 2's own audio encoder, if there is one, start as a copy of stage 1's."""
        if self.second_audio is not None:
            self.second_audio.load_state_dict(self.audio.state_dict())

    def without_stage_two(self) -> SCAV:
        """A copy of stage 1 alone, which answers with its one map."""
        alone = SCAV(replace(self.config, decouple=False))
        alone.start_from(self)
        return alone

    # The forward pass

    @property
    def sources(self) -> int:
        """K, how many maps the model gives."""
        return SOURCES if self.config.decouple else 1

    @property
    def steps(self) -> tuple[Step, ...]:
        """The forward pass, with the values between stage 1 and stage 2."""
        if not self.config.decouple:
            return super().steps
        prior = Step("prior", ("features", "heard"), ("prior",))
        split = Step("split", ("features", "heard", "prior"), ("refined", *ANSWERS))
        return EMBED, SEE, *self._strength_steps, prior, split

    @property
    def parts(self) -> tuple[Step, ...]:
        """What other runtimes take over: the whole answer, and its steps with weights, for other numbers of sources."""
        if not self.config.decouple:
            return super().parts
        split = Step("decouple", ("features", "heard", "prior"), ("refined", "embeddings"), Branches)
        return EMBED, SEE, ANSWER, *self._strength_steps, split

    @property
    def _strength_steps(self) -> tuple[Step, ...]:
        return () if self.strength is None else (Step("see_strength", ("features",), ("strength",)),)

    def prior(self, seen: Tensor, heard: Tensor) -> Tensor:
        """M_dom of what is seen and heard, shape (B, h, w)."""
        return self.spatial_prior(self.stage_one_map(seen, heard), seen)

    def split(self, seen: Tensor, heard: Tensor, prior: Tensor) -> tuple[Tensor, ...]:
        """Stage 2 with a given prior: f_v, and the values of the answer."""
        branches = self.decouple(seen, heard, prior)
        found = self.read(seen, heard, branches)
        return branches.features, found.similarity, found.confidence, found.embeddings

    @property
    def front_end(self) -> str:
        """See `Network`."""
        return self.config.spectrogram

    def spectrogram(self, sound: Tensor) -> Tensor:
        """Turn waveforms (B, N) into the log-spectrograms (B, 1, F, T) this model was made for."""
        return log_spectrogram(sound, self.config.spectrogram)

    def embed(self, spectrogram: Tensor) -> Tensor:
        """Encode spectrograms (B, 1, F, T) once for any number of pictures: the embedding for each stage, (B, 2, C)."""
        first = self.audio(spectrogram)
        second = first if self.second_audio is None else self.second_audio(spectrogram)
        return torch.stack([first, second], dim=1)

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The maps of two sources, or of one without a stage 2."""
        similarity = self.stage_one_map(seen, heard)
        if not self.config.decouple:
            return Localisation.peaked(similarity[:, None], heard[:, :1])
        return self.read(seen, heard, self.decouple(seen, heard, self.spatial_prior(similarity, seen)))

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The maps of any number of sources; the paper's are two, one is the first of them.

        With more, what remains of the picture is split again (`share_out`); without a stage 2, peaks are grown and
        taken away one after another.
        """
        sources = sources or self.sources
        if sources <= self.sources:
            return self.answer(seen, heard).of(sources)
        similarity = self.stage_one_map(seen, heard)
        if not self.config.decouple:
            return Localisation.peaked(peel(similarity, seen, sources), heard[:, :1].expand(-1, sources, -1))
        return self.read(seen, heard, self.share(seen, heard, similarity, sources))

    def stage_one_map(self, seen: Tensor, heard: Tensor) -> Tensor:
        """S, shape (B, h, w): stage 1's one map."""
        return self.similarity(seen, heard[:, 0])

    def similarity(self, seen: Tensor, embedding: Tensor) -> Tensor:
        """S, shape (B, h, w), of features (B, C, h, w) and embeddings (B, C)."""
        return similarity_map(seen, embedding, self.config.similarity)

    def spatial_prior(self, similarity: Tensor, seen: Tensor) -> Tensor:
        """M_dom, shape (B, h, w), in [0, 1], by the configured rule."""
        if self.config.prior == "uniform":
            return torch.full_like(similarity, 0.5)
        if self.config.prior == "minmax":
            return normalise_range(similarity)
        return self.dominant(similarity, seen)

    def dominant(self, similarity: Tensor, seen: Tensor) -> Tensor:
        """Algorithm 1 on the configured features V', shape (B, h, w), in [0, 1]."""
        return self.dominant_steps(similarity, seen).prior

    def dominant_steps(self, similarity: Tensor, seen: Tensor) -> Steps:
        """The same, step by step."""
        compared = prepare(seen, "cosine") if self.config.prior_features == "normalised" else seen
        return dominant_steps(similarity, compared, self.config.thresholds)

    def share(self, seen: Tensor, heard: Tensor, similarity: Tensor, sources: int) -> Branches:
        """Split picture and sound into more sources than two by stage 1's map, shape (B, h, w).

        Every source's share of the picture goes through stage 2 as the dominant branch, the last one's as the other:
        with two sources that would be one pass with M_dom and 1 - M_dom.
        """
        shares = share_out(similarity, lambda remaining: self.spatial_prior(remaining, seen), sources)
        rounds = [self.decouple(seen, heard, share) for share in shares[:, :-1].unbind(1)]
        parts = [Branches(found.features[:, :1], found.embeddings[:, :1]) for found in rounds]
        last = self.decouple(seen, heard, 1 - shares[:, -1])
        parts.append(Branches(last.features[:, 1:], last.embeddings[:, 1:]))
        return Branches(*(torch.cat(tensors, dim=1) for tensors in zip(*parts, strict=True)))

    def decouple(self, seen: Tensor, heard: Tensor, prior: Tensor) -> Branches:
        """Split picture and sound by a prior (Sec. progressive multi-source localisation).

        Args:
            seen: V, shape (B, C, h, w).
            heard: Of which stage 2 takes its own embedding a, shape (B, 2, C).
            prior: M_dom, shape (B, h, w).
        """
        projected = once("projected", seen, self._project)
        mixed = self.project_audio(heard[:, 1])
        dominant = prior[:, None].to(projected.dtype)
        first, second = self.visual_decouplers[0], self.visual_decouplers[-1]
        refined = first(projected * dominant), second(projected * (1 - dominant))
        separated = [self.audio_decoupler(mixed, branch) for branch in refined]
        return Branches(torch.stack(refined, dim=1), torch.stack(separated, dim=1))

    def _project(self, seen: Tensor) -> Tensor:
        """What is seen in the space of stage 2, shape (B, D, h, w), each cell knowing its place."""
        projected: Tensor = self.project_visual(seen)
        _, dimension, height, width = projected.shape
        positions = sinusoidal_positions(dimension, height, width, projected.device)
        return projected + positions.to(projected.dtype)

    def branch_similarity(self, branches: Branches) -> Tensor:
        """S_k = <f_vk, f_ak> for every source, shape (B, K, h, w)."""
        flat = self.similarity(branches.features.flatten(0, 1), branches.embeddings.flatten(0, 1))
        return flat.reshape(*branches.embeddings.shape[:2], *flat.shape[1:])

    def read(self, seen: Tensor, heard: Tensor, branches: Branches) -> Localisation:
        """The answer that branches give: their similarities, as they are or as maps of things."""
        maps = self.branch_similarity(branches)
        if self.config.maps == "similarity":
            return Localisation.peaked(maps, branches.embeddings)
        presence = presence_logits(maps, self.config.thresholds).sigmoid()
        if self.strength is None:
            return Localisation.peaked(presence, branches.embeddings)
        mixed = self.similarity(seen, heard[:, 1])
        maps = shaped(presence, seen, self.see_strength(seen), mixed)
        return Localisation(maps, heard_under(maps, mixed), branches.embeddings)

    def see_strength(self, seen: Tensor) -> Tensor:
        """How surely each cell shows a thing of any kind, shape (B, 1, h, w), where maps are `shaped`."""
        assert self.strength is not None
        return once("strength", seen, self.strength)

    # Answers of its first stage

    def peel(self, seen: Tensor, heard: Tensor, grid: tuple[int, int] = (1, 1)) -> Tensor:
        """Two maps from stage 1 alone, training-free, shape (B, 2, h, w)."""
        return peel(self.stage_one_map(seen, heard), seen, SOURCES, grid)

    def views(self, seen: Tensor, heard: Tensor) -> dict[str, Tensor]:
        """Stage 1's map, to be watched while training."""
        return {"stage 1": self.stage_one_map(seen, heard)[:, None]}
