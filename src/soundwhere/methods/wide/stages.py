"""What each stage of `scav-wide` trains on and minimises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.constants import MIXING_RMS, SAMPLE_RATE_HZ, SOURCES
from soundwhere.data.training_scenes import FramePairs, Frames, Needs
from soundwhere.losses.explanation import explanation_contrast
from soundwhere.losses.presence import multi_positive_contrast, presence_loss
from soundwhere.media.augment import blank
from soundwhere.media.waveform_augmentation import Augmentation, augment, coloured_noise, random_window
from soundwhere.methods.method import Phase, Schedule
from soundwhere.methods.scav.strength import fit_head
from soundwhere.methods.wide.explaining import explain, main_thing
from soundwhere.methods.wide.hearing import cross_scores, similarities, soft_maximum
from soundwhere.methods.wide.shape import SHAPE
from soundwhere.models.encoders.mobilenet import MobileNetV2

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Config
    from soundwhere.methods.method import Network, Progress
    from soundwhere.methods.wide.config import WideConfig
    from soundwhere.methods.wide.hearing import Ear
    from soundwhere.methods.wide.model import WideSCAV
    from soundwhere.types import Batch

StageName = Literal["one", "two"]

_SHARES: Final = (0.05, 0.35, 0.4, 0.2)  # of mixtures of stage 1 that hold no, one, two, three sounds
_GAIN_DB: Final = (-8.0, 4.0)  # of a whole mixture
_NOISE_DB: Final = (-30.0, 6.0)  # of what is heard where nothing sounds, against a sound
_SHAPES: Final = 320  # frames that the head of shapes is fitted to: 280 made it as good as its teacher
_FRAMES: Final = (2, 1, 4, 1, 3, 2)  # of the pictures that stage 2 puts together, in turn
_THINNED: Final = 5  # which of them show every other column of their frames: two things in as little space as one
_COUNTS: Final = (2, 1, 1, 0, 0)  # how many things sound in each way that stage 2 hears several frames
_WEIGHTS: Final = (0.6, 0.1, 0.1, 0.12, 0.08)  # of these; two counts most: a quiet second sound is easily missed


@dataclass(frozen=True)
class WideStage:
    """One stage; see `Stage`."""

    name: StageName
    config: WideConfig

    @property
    def follows(self) -> str | None:
        """Stage 2 follows stage 1."""
        return "one" if self.name == "two" else None

    @property
    def schedule(self) -> Schedule:
        """How long and how fast."""
        config, first = self.config, self.name == "one"
        return Schedule(
            batch_size=config.batch_size if first else config.batch_size_two,
            learning_rate=config.learning_rate if first else config.learning_rate_two,
            decay="cosine",
            warmup_steps=config.warmup_steps,
            clip_norm=config.clip_norm,
            optimiser="adamw",
            weight_decay=config.weight_decay,
            factors={".head.": config.head_rate, "log_": 30.0, "network.bias": 30.0} if first else {},
        )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Single clips, which both stages put together themselves."""
        steps = self.config.steps_one if self.name == "one" else self.config.steps_two
        return (Phase(steps, Needs(sounds=1, separate=True)),)

    def objective(self, network: WideSCAV) -> nn.Module:
        """What is minimised."""
        return Hearing(network) if self.name == "one" else Counting(network)

    def prepare(self, network: WideSCAV, config: Config, progress: Progress) -> None:
        """Before stage 2, fit the head that knows shapes, and remember things to compare with."""
        if self.name == "one":
            return
        data, eye, method = config.data, network.eye, network.config
        if not network.shape.fitted:
            pairs = FramePairs(data, eye, method.frame_px, SHAPE, progress, most=_SHAPES)
            fit_head(network.shape, pairs, config.train.seed, progress, F.binary_cross_entropy_with_logits)
        if method.others and not network.others.any():
            frames = Frames(data, eye, method.frame_px, progress, most=method.others)
            features = np.stack([frames[number % len(frames)] for number in range(method.others)])
            network.others.copy_(main_thing(network.visual_features(torch.from_numpy(features).float())))

    def finish(self, network: WideSCAV) -> Network | None:
        """Keep stage 1."""
        return network.without_stage_two() if self.name == "one" else None


class Hearing(nn.Module):
    """Stage 1: which of a batch's pictures sound in mixtures of no to three of their sounds?

    The clips of a batch are mixed here, so that every mixture is contrasted with every picture. What is drawn comes
    from torch's generator, which the training loop seeds for every step.
    """

    def __init__(self, network: WideSCAV) -> None:
        super().__init__()
        self.network = network
        self.config = network.config
        network.requires_grad_(False)
        for ear in network.ears:
            ear.requires_grad_(True)
            for number in range(1, self.config.frozen_layers + 1):
                ear.encoder.get_submodule(f"layer{number}").requires_grad_(False)
        for scale in (network.log_contrast, network.log_presence, network.bias):
            scale.requires_grad_(True)
        self.train()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of a batch of single clips, and beside it (detached) what the progress display shows."""
        assert batch.solos is not None
        network, config = self.network, self.config
        generator = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
        sounds = _levelled(batch.solos[:, 0])
        if self.training:
            sounds = random_window(sounds, round(config.window_s * SAMPLE_RATE_HZ), generator)
            sounds = augment(sounds, Augmentation(), generator) if config.augment else sounds
        pictures = strongest(network.seen(batch)[:, : MobileNetV2.channels], config.strong_cells)
        found = [self._of(ear, pictures, sounds, generator) for ear in network.ears]
        shown = {name: torch.stack([each[name].detach() for each in found]).mean(0) for name in found[0]}
        return {**shown, "loss": torch.stack([each["loss"] for each in found]).sum()}

    def _of(self, ear: Ear, pictures: Tensor, sounds: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """What one ear makes of mixtures of its own."""
        network, config = self.network, self.config
        counts = _draw_counts(len(sounds), _SHARES[: config.most_sounds + 1], generator)
        mixtures, belongs = mix(sounds, counts, generator)
        spectrogram = network.spectrogram(mixtures)
        if self.training and config.blank:
            spectrogram = blank(spectrogram, config.blank)
        similarity = similarities(pictures, ear(spectrogram))
        scores = cross_scores(similarity, config.softness)
        contrast = multi_positive_contrast(network.log_contrast.exp() * scores, belongs)
        presence = presence_loss(network.log_presence.exp() * scores + network.bias, belongs)
        found = {"loss": contrast + presence, "contrast": contrast, "presence": presence}
        if config.explaining:
            explained = explanation_contrast(soft_maximum(similarity, 3, config.softness), belongs)
            found |= {"loss": found["loss"] + config.explaining * explained, "explained": explained}
        with torch.no_grad():
            sure = network.presence(scores)
            found["right"] = (sure * belongs).sum() / belongs.sum().clamp_min(1)
            found["wrong"] = (sure * (1 - belongs)).sum() / (1 - belongs).sum().clamp_min(1)
        return found


class Counting(nn.Module):
    """Stage 2: how many of the things that are seen sound: none, one or two? What stage 1 hears stays as it is.

    The clips of a batch are put together here, and every picture is heard in five ways: with the sounds of two of its
    frames, either of them, the sound of another picture, and noise. Some frames stand alone, as most pictures show one
    thing that sounds: from these, heard with their own sound and with another beside it, is learnt what is no second
    thing, but a part of the first or what surrounds it.
    """

    def __init__(self, network: WideSCAV) -> None:
        super().__init__()
        self.network = network
        network.requires_grad_(False)
        self.heads = [network.count, *([network.apart] if network.config.apart else [])]
        for head in self.heads:
            head.requires_grad_(True)
        self.train()

    def train(self, mode: bool = True) -> Counting:
        """Training mode for what trains; all else stays in eval mode."""
        super().train(False)
        self.training = mode
        for head in self.heads:
            head.train(mode)
        return self

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of a batch of single clips, and what is shown."""
        assert batch.solos is not None
        network = self.network
        generator = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
        sounds = batch.solos[:, 0]
        if self.training and network.config.augment:
            sounds = augment(sounds, Augmentation(), generator)
        pictures = put_together(len(sounds))
        several = torch.tensor([len(frames) > 1 for frames in pictures], device=sounds.device)
        first = torch.tensor([frames[0] for frames in pictures], device=sounds.device)
        second = torch.tensor([frames[-1] for frames in pictures], device=sounds.device)
        second = torch.where(several, second, first.roll(1))  # beside a lone frame, another picture's
        with torch.no_grad():
            features = network.visual_features(network.seen(batch))
            alone = network.hear(sounds)
            both = network.hear(sounds[first] + sounds[second])
            noise = network.hear(self._noise(len(pictures), sounds, generator))
            ways = (both, alone[first], alone[second], alone[first.roll(-1)], noise)
            found = torch.stack([self._evidence(features, pictures, heard) for heard in ways])
        odds: Tensor = network.count(found[:, several].flatten(0, 1))
        truth = torch.tensor(_COUNTS, device=odds.device).repeat_interleave(int(several.sum()))
        weights = torch.tensor(_WEIGHTS, device=odds.device).repeat_interleave(int(several.sum())) / several.sum()
        loss = (weights * F.cross_entropy(odds, truth, reduction="none")).sum()
        if network.config.apart and len(pictures) > 1:  # a batch of two clips has no lone frame
            values = [found[0, several], found[0, ~several], found[1, ~several]]
            truths = torch.cat([torch.full((len(each),), float(not part)) for part, each in enumerate(values)])
            apart: Tensor = network.apart(torch.cat(values))[:, 0]
            loss = loss + F.binary_cross_entropy_with_logits(apart, truths.to(apart.device))
        return {"loss": loss, "right": (weights * (odds.detach().argmax(1) == truth)).sum()}

    def _evidence(self, features: Tensor, pictures: list[list[int]], heard: Tensor) -> Tensor:
        """Evidence of pictures put together of frames (B, C, h, w), in what each of them hears."""
        network = self.network
        found = []
        for number, frames in enumerate(pictures):
            step = 2 if number % len(_FRAMES) == _THINNED else 1
            shown = torch.cat(tuple(features[frames][..., ::step]), dim=-1)[None]
            here = heard[number : number + 1]
            found.append(network.evidence(shown, explain(shown, here, SOURCES), here))
        return torch.cat(found)

    def _noise(self, pictures: int, sounds: Tensor, generator: torch.Generator) -> Tensor:
        noise = coloured_noise(sounds.shape[1], 2 * torch.rand(pictures, 1, generator=generator), generator)
        return (MIXING_RMS * noise * _gains(pictures, _NOISE_DB, generator)).to(sounds.device)


def put_together(clips: int) -> list[list[int]]:
    """The clips of each picture of stage 2: two, one alone, four, and so on.

    >>> put_together(9)
    [[0, 1], [2], [3, 4, 5, 6], [7], [8]]
    """
    pictures: list[list[int]] = []
    taken = 0
    while taken < clips:
        frames = _FRAMES[len(pictures) % len(_FRAMES)]
        pictures.append(list(range(taken, min(taken + frames, clips))))
        taken += frames
    return pictures


def mix(sounds: Tensor, counts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Mixtures of so many of the sounds each, taken in their order; where none sounds there is noise.

    Args:
        sounds: Shape (B, N).
        counts: How many sounds each mixture holds, shape (M,), at most B in all.
        generator: Draws levels and noise.

    Returns:
        Mixtures, shape (M, N), and which sound belongs to which, 1 or 0, shape (M, B).
    """
    used = int(counts.sum())
    owner = torch.repeat_interleave(torch.arange(len(counts)), counts)
    mixtures = torch.zeros(len(counts), sounds.shape[1]).index_add_(0, owner, sounds[:used].cpu())
    belongs = torch.zeros(len(counts), len(sounds))
    belongs[owner, torch.arange(used)] = 1
    empty = (counts == 0).nonzero()[:, 0]
    if len(empty):
        noise = coloured_noise(sounds.shape[1], 2 * torch.rand(len(empty), 1, generator=generator), generator)
        mixtures[empty] = MIXING_RMS * noise * _gains(len(empty), _NOISE_DB, generator)
    return (mixtures * _gains(len(counts), _GAIN_DB, generator)).to(sounds.device), belongs.to(sounds.device)


def strongest(features: Tensor, count: int) -> Tensor:
    """The cells of pictures (B, C, h, w) with the strongest features, shape (B, C, count)."""
    cells = features.flatten(2)
    chosen = cells.square().sum(1).topk(min(count, cells.shape[2]), dim=1).indices
    return cells.gather(2, chosen[:, None].expand(-1, cells.shape[1], -1))


def _draw_counts(sounds: int, shares: tuple[float, ...], generator: torch.Generator) -> Tensor:
    """How many sounds each mixture holds, as many mixtures as there are sounds for."""
    drawn = torch.multinomial(torch.tensor(shares), sounds, replacement=True, generator=generator)
    return drawn[drawn.cumsum(0) <= sounds]


def _levelled(sounds: Tensor) -> Tensor:
    """Sounds (B, N) at one level."""
    return sounds * (MIXING_RMS / sounds.square().mean(1, keepdim=True).sqrt().clamp_min(1e-6))


def _gains(rows: int, range_db: tuple[float, float], generator: torch.Generator) -> Tensor:
    drawn = torch.rand(rows, 1, generator=generator) * (range_db[1] - range_db[0]) + range_db[0]
    return torch.pow(10.0, drawn / 20)
