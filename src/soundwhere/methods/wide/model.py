"""The network of `scav-wide`: an ear that knows AudioSet, and what is seen as an explanation of what it hears."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, cast

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.constants import SOURCES
from soundwhere.data.features import Eye
from soundwhere.media.log_mel import log_mel
from soundwhere.media.spectrogram import log_spectrogram
from soundwhere.methods.method import Control, Network, check_frame
from soundwhere.methods.scav.peeling import peel
from soundwhere.methods.wide.config import WideConfig
from soundwhere.methods.wide.explaining import ELSEWHERE, EVIDENCE, elsewhere, evidence, explain
from soundwhere.methods.wide.hearing import Ear, heard_map
from soundwhere.methods.wide.shape import ShapeHead, colours
from soundwhere.models.encoders import freeze
from soundwhere.models.encoders.levels import MobileNetV2Levels
from soundwhere.models.encoders.mobilenet import MobileNetV2
from soundwhere.models.encoders.weights import load_weights
from soundwhere.models.encoders.yamnet import load_yamnet
from soundwhere.models.sharpening import sharpen
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from soundwhere.methods.method import Given
    from soundwhere.methods.wide.explaining import Explanation

_VISUAL: Final = MobileNetV2.channels
_DIMMING: Final = 16.0  # a cell that fits by 0.1 less than the best is dimmed to exp(-1.6)
_LIKE: Final = 0.25  # power of how much a cell looks like the source
_THING: Final = 1.5  # power of how surely a cell shows a thing; this and the others: chosen on val
_AROUND: Final = 11  # cells of a shape, 88 pixels, among which the surest is looked for
_LEAST: Final = 0.1  # where no cell around is surer than this, nothing is made surer
_WHOSE: Final = 0.2  # softness of whose a cell is: cosine between features of cells
_CONTRAST, _PRESENCE, _BIAS = 30.0, 30.0, -8.0  # where the scales of stage 1's scores begin
_FAMILIAR: Final = math.log(1.5)  # sounds it learnt from fit better than new ones: "nothing" counts 2 / 3; by val
_DOUBT: Final = 1.5  # a second thing is doubted where it is exp(1.5) times as likely a part of the first; chosen on val
_GRID_PX: Final = 4  # side of a cell of sharpened maps
_EDGES: Final = (10, 2e-4)  # of a window in such cells, and how faint an edge they follow; chosen on val, too


_NEVER_DARK: Final = Control(
    "never dark",
    "training-free",
    lambda model, seen, heard, _: model.localise(seen, heard, SOURCES).similarity,
    sharp=True,
)


class WideSCAV(Network):
    """Localises two simultaneous sounds, and says how surely each is there.

    What it sees are features of three levels in one, shape (B, 2176, h, w), of which V is the first 1280; what it hears
    are embeddings of each moment and band of the sound, shape (B, N, 1280).
    """

    config: WideConfig
    others: Tensor
    controls: ClassVar[tuple[Control, ...]] = (
        Control("peel", "training-free", lambda model, *scene: model.peel(*scene)),
        Control("solo sounds", "solo", lambda model, seen, heard, _: model.stage_one_map(seen, heard)[:, None]),
    )

    def __init__(self, config: WideConfig = WideConfig()) -> None:  # noqa: B008 - frozen
        super().__init__(config)
        self.visual = freeze(MobileNetV2Levels())
        check_frame(config, self.stride_px)
        self.ear = Ear(config.audio, _VISUAL, config.hearing, config.guesses)
        further = (Ear(config.audio, _VISUAL, config.hearing, config.guesses) for _ in range(1, config.ears))
        self.further = nn.ModuleList(further)
        self.log_contrast = nn.Parameter(torch.tensor(math.log(_CONTRAST)))
        self.log_presence = nn.Parameter(torch.tensor(math.log(_PRESENCE)))
        self.bias = nn.Parameter(torch.tensor(_BIAS))
        if config.explain:
            self.shape = ShapeHead()
            values = EVIDENCE
            if config.others:
                self.register_buffer("others", torch.zeros(config.others, _VISUAL))
                values += ELSEWHERE
            self.count = _judge(values, SOURCES + 1)
            if config.apart:
                self.apart = _judge(values, 1)

    @property
    def offers(self) -> tuple[Control, ...]:
        """See `Network`; where a picture may stay dark, also with none that does."""
        return (*self.controls, _NEVER_DARK) if self._may_be_dark else self.controls

    # What trains, and from what

    @property
    def eye(self) -> Eye:
        """The visual encoder, which is always frozen."""
        return Eye("mobilenet_v2-levels", self.visual, self.stride_px)

    def load_pretrained(self, download: bool) -> None:
        """Load the weights that both encoders start from."""
        load_weights(self.visual, "mobilenet_v2", self.config.visual_weights, download=download)
        heard = self.config.visual_weights if self.config.audio_weights == "visual" else self.config.audio_weights
        for ear in self.ears:
            if self.config.audio != "yamnet":
                load_weights(ear.encoder, self.config.audio, heard, download=download)
            elif heard != "none":
                load_yamnet(ear.encoder, None if heard == "yamnet" else Path(heard))

    def start_from(self, other: Network) -> None:
        """Begin from all of another's stage 1, and from its stage 2 where both have one alike."""
        mine, theirs = self.state_dict(), other.state_dict()
        kept = {name: value for name, value in theirs.items() if name in mine and mine[name].shape == value.shape}
        if "count.1.weight" not in kept:  # it counts by something else
            kept = {name: value for name, value in kept.items() if not name.startswith("count.")}
        self.load_state_dict({**mine, **kept})

    def without_stage_two(self) -> WideSCAV:
        """A copy of stage 1 alone, which answers with its one map."""
        alone = WideSCAV(replace(self.config, explain=False))
        alone.start_from(self)
        return alone

    # The forward pass

    @property
    def ears(self) -> tuple[Ear, ...]:
        """All that hear, the first one first."""
        return (self.ear, *cast("Iterable[Ear]", self.further))

    @property
    def sources(self) -> int:
        """K, how many maps the model gives."""
        return SOURCES if self.config.explain else 1

    def spectrogram(self, sound: Tensor) -> Tensor:
        """Turn waveforms (B, N) into spectrograms (B, 1, F, T)."""
        return log_mel(sound) if self.config.audio == "yamnet" else log_spectrogram(sound, self.config.spectrogram)

    def embed(self, spectrogram: Tensor) -> Tensor:
        """Embeddings of each moment and band, of one ear after the other, shape (B, N, 1280)."""
        return torch.cat([ear(spectrogram) for ear in self.ears], dim=1)

    def stage_one_map(self, seen: Tensor, heard: Tensor) -> Tensor:
        """S, shape (B, h, w): how well the sound's best-fitting moment fits each cell."""
        return heard_map(seen[:, :_VISUAL], heard, self.config.softness)

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The maps of two sources, or of one without a stage 2."""
        if self.config.explain:
            features = seen[:, :_VISUAL]
            found = explain(features, heard, SOURCES)
            return Localisation(self.light(seen, found), self.sure(features, found, heard), _voices(found, heard))
        similarity = self.stage_one_map(seen, heard)[:, None]
        return Localisation(similarity, self.presence(similarity).flatten(2).amax(2), heard.mean(1, keepdim=True))

    def light(self, seen: Tensor, found: Explanation) -> Tensor:
        """Maps of K sources, shape (B, K, 4h, 4w), in [0, 1].

        A cell is lit as well as it fits the moments that are the source's, as far as it looks like the source, and
        rather than like another, and as surely as it shows a thing, beside the surest of the cells around it: things
        are told from what surrounds them, and none is dimmed because another is easier to see.
        """
        sure: Tensor = self.shape(seen).sigmoid()
        around = F.max_pool2d(sure, _AROUND, stride=1, padding=_AROUND // 2)
        things = (sure / around.clamp_min(_LEAST)).pow(_THING)
        fits = found.maps
        whose = (found.likeness / _WHOSE).softmax(1)
        like = found.likeness.clamp_min(0).pow(_LIKE)
        lit = whose * like * torch.exp(_DIMMING * (fits - fits.amax(2, keepdim=True)))
        maps = lit.reshape(*lit.shape[:2], *seen.shape[-2:])
        return F.interpolate(maps, size=things.shape[-2:], mode="bilinear", align_corners=False) * things

    def evidence(self, features: Tensor, found: Explanation, heard: Tensor) -> Tensor:
        """What speaks for nothing, one or two things that sound, shape (B, E)."""
        values = evidence(found, heard)
        if not self.config.others:
            return values
        moments = heard.reshape(len(heard), len(self.ears), -1, heard.shape[2])
        whole = (moments + torch.stack([ear.common for ear in self.ears])[:, None]).flatten(1, 2)
        return torch.cat([values, elsewhere(features, heard, whole, self.others)], dim=1)

    def sure(self, features: Tensor, found: Explanation, heard: Tensor) -> Tensor:
        """How surely the first thing sounds, and the second as well, shape (B, 2), in [0, 1]."""
        values = self.evidence(features, found, heard)
        odds, apart = self.count(values), 1.0
        if self.config.apart:
            odds = odds - odds.new_tensor([_FAMILIAR, 0, 0])
            apart = (2 * (self.apart(values)[:, 0] + _DOUBT).sigmoid()).clamp_max(1)
        nothing, _, two = odds.softmax(1).unbind(1)
        return torch.stack([1 - nothing, two * apart], dim=1)

    def presence(self, similarity: Tensor) -> Tensor:
        """How surely what has this similarity sounds, in [0, 1], by the odds that stage 1 learnt."""
        return torch.sigmoid(self.log_presence.exp() * similarity + self.bias)

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The maps of any number of sources; a third one is as sure as the second, times what it adds beside it.

        Asked for no number, it leaves a picture dark in which hardly anything is likely to sound.
        """
        if sources is None:
            return self._darkened(self.answer(seen, heard))
        if sources <= self.sources or not self.config.explain:
            return self.answer(seen, heard).of(sources)
        features = seen[:, :_VISUAL]
        found = explain(features, heard, sources)
        sure = self.sure(features, explain(features, heard, SOURCES), heard)
        gains = found.gains()
        rest = (gains[:, SOURCES:] / gains[:, 1:SOURCES].clamp_min(1e-6)).clamp(0, 1)
        return Localisation(
            self.light(seen, found), torch.cat([sure, sure[:, 1:] * rest], dim=1), _voices(found, heard)
        )

    def _darkened(self, found: Localisation) -> Localisation:
        """The same, with maps of 0 where it is too unlikely that anything in the picture sounds."""
        if not self._may_be_dark:
            return found
        sounds = found.confidence[:, :1, None, None] >= self.config.dark
        return replace(found, similarity=found.similarity * sounds)

    @property
    def _may_be_dark(self) -> bool:
        return self.config.explain and self.config.dark > 0

    def visual_features(self, seen: Tensor) -> Tensor:
        """V, shape (B, 1280, h, w)."""
        return seen[:, :_VISUAL]

    def sharpen(self, maps: Tensor, image: Tensor) -> Tensor:
        """Maps (B, K, h, w) with the edges of normalised pictures (B, 3, H, W), in [0, 1], shape (B, K, H/4, W/4).

        Coarser than the picture: a clip's maps are kept until its last frame, and nobody sees a difference.
        """
        if not self.config.sharp:
            return maps
        return sharpen(maps, colours(F.avg_pool2d(image, _GRID_PX)), *_EDGES, stride_px=1).clamp(0, 1)

    @property
    def front_end(self) -> str:
        """See `Network`."""
        return self.config.spectrogram

    # Answers of its first stage

    def peel(self, seen: Tensor, heard: Tensor, grid: tuple[int, int] = (1, 1)) -> Tensor:
        """Two maps from stage 1 alone, training-free, shape (B, 2, h, w)."""
        return peel(self.stage_one_map(seen, heard), seen[:, :_VISUAL], SOURCES, grid)

    def views(self, seen: Tensor, heard: Tensor) -> dict[str, Tensor]:
        """Stage 1's map, to be watched while training."""
        return {"stage 1": self.stage_one_map(seen, heard)[:, None]}


def _judge(values: int, verdicts: int) -> nn.Sequential:
    """A linear head on evidence of any scale, which favours nothing before it is trained."""
    linear = nn.Linear(values, verdicts)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return nn.Sequential(nn.BatchNorm1d(values, affine=False, momentum=None), linear)


def _voices(found: Explanation, heard: Tensor) -> Tensor:
    """What each source sounds like: the mean of the moments that are its own, shape (B, K, C)."""
    return found.owners @ heard / found.owners.sum(2, keepdim=True).clamp_min(1e-6)
