"""The network of `scav-wide`: the paper's two stages around an ear that knows AudioSet."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.constants import SOURCES
from soundwhere.data.features import Eye
from soundwhere.media.log_mel import log_mel
from soundwhere.methods.method import ANSWERS, EMBED, SEE, Control, Network, Step, check_frame
from soundwhere.methods.scav.decouplers import AudioDecoupler, VisualDecoupler, sinusoidal_positions
from soundwhere.methods.scav.peeling import peel
from soundwhere.methods.scav.prior import dominant_map
from soundwhere.methods.wide.config import WideConfig
from soundwhere.methods.wide.hearing import Ear, heard_map
from soundwhere.methods.wide.shape import ShapeHead, colours
from soundwhere.models.encoders import freeze
from soundwhere.models.encoders.levels import MobileNetV2Levels
from soundwhere.models.encoders.mobilenet import MobileNetV2
from soundwhere.models.encoders.weights import load_weights
from soundwhere.models.encoders.yamnet import load_yamnet
from soundwhere.models.sharpening import RADIUS_PX, sharpen
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.methods.method import Given

_VISUAL: Final = MobileNetV2.channels
_EVIDENCE: Final = 12.0  # a cell whose similarity is 0.1 lower than the best is dimmed to exp(-1.2)
_CONTRAST, _PRESENCE, _BIAS = 30.0, 30.0, -8.0  # where the scales of stage 1's scores begin
_GRID_PX: Final = 4  # side of a cell of sharpened maps
_PRIOR: Final = 4.0  # log-odds with which the shares of stage 2 begin at Algorithm 1's map


class WideSCAV(Network):
    """Localises two simultaneous sounds, and says how surely each is there.

    What it sees are features of three levels in one, shape (B, 2176, h, w), of which V is the first 1280; what it hears
    is one unit embedding for each moment and band of the sound, shape (B, N, 1280).
    """

    config: WideConfig
    controls: ClassVar[tuple[Control, ...]] = (
        Control("peel", "training-free", lambda model, *scene: model.peel(*scene)),
        Control("solo sounds", "solo", lambda model, seen, heard, _: model.stage_one_map(seen, heard)[:, None]),
    )

    def __init__(self, config: WideConfig = WideConfig()) -> None:  # noqa: B008 - frozen
        super().__init__(config)
        self.visual = freeze(MobileNetV2Levels())
        check_frame(config, self.stride_px)
        self.ear = Ear(_VISUAL, config.hearing)
        self.log_contrast = nn.Parameter(torch.tensor(math.log(_CONTRAST)))
        self.log_presence = nn.Parameter(torch.tensor(math.log(_PRESENCE)))
        self.bias = nn.Parameter(torch.tensor(_BIAS))
        if config.decouple:
            size = config.dimension
            self.project_visual = nn.Conv2d(_VISUAL, size, 1, bias=False)
            self.project_audio = nn.Linear(_VISUAL, size, bias=False)
            nn.init.orthogonal_(self.project_audio.weight)
            with torch.no_grad():
                self.project_visual.weight.copy_(self.project_audio.weight[..., None, None])
            self.evidence = nn.Parameter(0.1 * torch.randn(size))
            self.visual_decouplers = nn.ModuleList(
                VisualDecoupler(size, config.decoupler_layers, config.decoupler_heads) for _ in range(SOURCES)
            )
            self.audio_decoupler = AudioDecoupler(size, config.decoupler_heads)
            self.listening = AudioDecoupler(size, config.decoupler_heads)
            self.certainty = nn.Parameter(torch.tensor(0.0))
            self.prior_weight = nn.Parameter(torch.tensor(_PRIOR))
            self.shape = ShapeHead()

    # What trains, and from what

    @property
    def stage_two(self) -> tuple[nn.Module | nn.Parameter, ...]:
        """What is trained in stage 2."""
        return (
            *(self.project_visual, self.project_audio, self.visual_decouplers, self.audio_decoupler, self.listening),
            *(self.evidence, self.certainty, self.prior_weight),
        )

    @property
    def eye(self) -> Eye:
        """The visual encoder, which is always frozen."""
        return Eye("mobilenet_v2-levels", self.visual, self.stride_px)

    def load_pretrained(self, download: bool) -> None:
        """Load the weights that both encoders start from."""
        load_weights(self.visual, "mobilenet_v2", self.config.visual_weights, download=download)
        if self.config.audio_weights != "none":
            own = None if self.config.audio_weights == "yamnet" else Path(self.config.audio_weights)
            load_yamnet(self.ear.encoder, own)

    def start_from(self, other: Network) -> None:
        """Begin from all of another's stage 1, and its stage 2 where both have one."""
        mine, theirs = self.state_dict(), other.state_dict()
        kept = {name: tensor for name, tensor in theirs.items() if name in mine}
        self.load_state_dict({**mine, **kept})

    def without_stage_two(self) -> WideSCAV:
        """A copy of stage 1 alone, which answers with its one map."""
        alone = WideSCAV(replace(self.config, decouple=False))
        alone.start_from(self)
        return alone

    # The forward pass

    @property
    def sources(self) -> int:
        """K, how many maps the model gives."""
        return SOURCES if self.config.decouple else 1

    @property
    def steps(self) -> tuple[Step, ...]:
        """The forward pass, with stage 1's prior on its own."""
        if not self.config.decouple:
            return super().steps
        prior = Step("prior", ("features", "heard"), ("prior",))
        return EMBED, SEE, prior, Step("read", ("features", "heard", "prior"), ANSWERS)

    def spectrogram(self, sound: Tensor) -> Tensor:
        """Turn waveforms (B, N) into YAMNet's log-mel spectrograms (B, 1, 64, T)."""
        return log_mel(sound)

    def embed(self, spectrogram: Tensor) -> Tensor:
        """One unit embedding for each moment and band, shape (B, N, 1280)."""
        cells: Tensor = self.ear(spectrogram)
        return cells

    def stage_one_map(self, seen: Tensor, heard: Tensor) -> Tensor:
        """S, shape (B, h, w): how well the sound's best-fitting moment fits each cell."""
        return heard_map(seen[:, :_VISUAL], heard, self.config.softness)

    def prior(self, seen: Tensor, heard: Tensor) -> Tensor:
        """M_dom by Algorithm 1, shape (B, h, w), in [0, 1]."""
        return dominant_map(self.stage_one_map(seen, heard), seen[:, :_VISUAL], self.config.thresholds)

    def shares(self, seen: Tensor, heard: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Share the cells out between two sources (Sec. progressive multi-source localisation).

        The picture, with stage 1's map written onto it, is split by the prior and each part refined; the sound attends
        to a part and then to its own moments, and what has become of it is compared with the part's cells. A cell
        belongs to the source whose sound it fits better.

        Args:
            seen: Features, shape (B, 2176, h, w).
            heard: Embeddings of the sound, shape (B, N, 1280).
            prior: M_dom, shape (B, h, w).

        Returns:
            Log-odds that a cell belongs to the first source, shape (B, h, w), and the sources' embeddings, (B, 2, D).
        """
        similarity = self.stage_one_map(seen, heard)
        projected = self.project_visual(seen[:, :_VISUAL])
        _, dimension, height, width = projected.shape
        positions = sinusoidal_positions(dimension, height, width, projected.device)
        projected = projected + positions + self.evidence[:, None, None] * (10 * similarity)[:, None]
        moments = self.project_audio(heard)  # (B, N, D)
        cells = moments.transpose(1, 2)[..., None]  # as if they were those of a picture
        fits, sounds = [], []
        for part, decoupler in zip((prior, 1 - prior), self.visual_decouplers, strict=True):
            refined = decoupler(projected * part[:, None])
            sound = self.listening(self.audio_decoupler(moments.mean(1), refined), cells)
            fits.append(torch.einsum("bdhw,bd->bhw", F.normalize(refined, dim=1), F.normalize(sound, dim=1)))
            sounds.append(sound)
        odds = self.certainty.exp() * (fits[0] - fits[1]) + self.prior_weight * (2 * prior - 1)
        return odds, torch.stack(sounds, dim=1)

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The maps of two sources, or of one without a stage 2."""
        if self.config.decouple:
            return Localisation(*self.read(seen, heard, self.prior(seen, heard)))
        similarity = self.stage_one_map(seen, heard)[:, None]
        return Localisation(similarity, self.presence(similarity).flatten(2).amax(2), heard.mean(1, keepdim=True))

    def read(self, seen: Tensor, heard: Tensor, prior: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Maps (B, 2, 4h, 4w), how surely each sounds (B, 2), and embeddings (B, 2, D), with a given prior.

        A map is whose a cell is, times how well the sound fits there against where it fits best, times where things
        are. So what stage 1 hears decides where anything is lit, and stage 2 whose it is.
        """
        odds, embeddings = self.shares(seen, heard, prior)
        first = odds.sigmoid()
        whose = torch.stack([first, 1 - first], dim=1)
        similarity = self.stage_one_map(seen, heard)[:, None]
        near = F.max_pool2d(similarity, 3, stride=1, padding=1)
        lit = whose * torch.exp(_EVIDENCE * (near - near.amax((-2, -1), keepdim=True)))
        things = self.shape(seen).sigmoid()
        maps = F.interpolate(lit, size=things.shape[-2:], mode="bilinear", align_corners=False) * things
        owned = similarity * (whose >= 0.5)
        return maps, self.presence(owned).flatten(2).amax(2), embeddings

    def presence(self, similarity: Tensor) -> Tensor:
        """How surely what has this similarity sounds, in [0, 1], by the odds that stage 1 learnt."""
        return torch.sigmoid(self.log_presence.exp() * similarity + self.bias)

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The maps of any number of sources: two as trained, one of them, or more, peeled off stage 1's map."""
        sources = sources or self.sources
        if sources <= self.sources:
            return self.answer(seen, heard).of(sources)
        maps = peel(self.stage_one_map(seen, heard), seen[:, :_VISUAL], sources)
        similarity = self.stage_one_map(seen, heard)[:, None]
        sure = self.presence(similarity * (maps >= maps.amax((-2, -1), keepdim=True) / 2)).flatten(2).amax(2)
        return Localisation(maps, sure, heard.mean(1, keepdim=True).expand(-1, sources, -1))

    def visual_features(self, seen: Tensor) -> Tensor:
        """V, shape (B, 1280, h, w)."""
        return seen[:, :_VISUAL]

    def sharpen(self, maps: Tensor, image: Tensor) -> Tensor:
        """Maps (B, K, h, w) with the edges of normalised pictures (B, 3, H, W), in [0, 1], shape (B, K, H/4, W/4).

        Coarser than the picture: a clip's maps are kept until its last frame, and nobody sees a difference.
        """
        if not self.config.sharp:
            return maps
        return sharpen(maps, F.avg_pool2d(colours(image), _GRID_PX), RADIUS_PX // _GRID_PX, stride_px=1).clamp(0, 1)

    @property
    def front_end(self) -> str:
        """See `Network`."""
        return "yamnet"

    # Answers of its first stage

    def peel(self, seen: Tensor, heard: Tensor, grid: tuple[int, int] = (1, 1)) -> Tensor:
        """Two maps from stage 1 alone, training-free, shape (B, 2, h, w)."""
        return peel(self.stage_one_map(seen, heard), seen[:, :_VISUAL], SOURCES, grid)

    def views(self, seen: Tensor, heard: Tensor) -> dict[str, Tensor]:
        """Stage 1's map, to be watched while training."""
        return {"stage 1": self.stage_one_map(seen, heard)[:, None]}
