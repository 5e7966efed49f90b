"""JSA's network, and what it minimises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.config import require, require_least
from soundwhere.distributed import gather
from soundwhere.media.front_ends import FRONT_ENDS
from soundwhere.methods.jsa.losses import divergence, kept_pairs, match, slot_contrast
from soundwhere.methods.jsa.slots import Decoder, Read, Reader, assign
from soundwhere.methods.several import SeveralMaps
from soundwhere.methods.single_stage import SingleStageMethod
from soundwhere.methods.two_encoders import TwoEncodersConfig
from soundwhere.models.similarity import normalise_range
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from soundwhere.types import Batch

SLOTS: Final = 2
_CELLS: Final = 7  # rows and columns of learned positions of pictures
_MOMENTS: Final = 16  # and of sounds


@dataclass(frozen=True)
class JSAConfig(TwoEncodersConfig):
    """The defaults are as published: 50 epochs of 144,000 clips."""

    family: Literal["jsa"] = "jsa"
    name: str = "jsa"
    spectrogram: str = "jsa"
    augment: str = "strong"
    blank: int = 1
    steps: int = 28_125
    batch_size: int = 256
    learning_rate: float = 5e-5
    optimiser: Literal["adam", "adamw", "sgd"] = "adamw"
    weight_decay: float = 0.01
    """Taken from the weights."""
    iterations: int = 5
    """Times that slots look."""
    sharpening: float = 0.1
    """Factor of the logits of the maps at test: slots share cells more evenly than in training."""
    temperature: float = 0.03
    """Of the contrast."""
    reciprocal: int = 20
    """Neighbours, itself among them, within which two items that are near in both modalities are no negatives."""
    mask_ratio: float = 0.1
    """Chance that a token is hidden from the slots in training."""
    reconstruction_weight: float = 0.1
    """Weight of the loss of reconstruction."""
    divergence_weight: float = 0.1
    """Weight of the loss of slots that are alike."""
    match_weight: float = 100.0
    """Weight of the loss of attention that differs between modalities."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {
        *("temperature", "reciprocal", "mask_ratio", "reconstruction_weight", "divergence_weight", "match_weight"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dimension % 2 == 0, "dimension", self.dimension, "even")
        require_least(1, self, "iterations", "reciprocal")
        require(0 <= self.mask_ratio < 1, "mask_ratio", self.mask_ratio, "at least 0 and less than 1")


class Losses(NamedTuple):
    """The four losses, scalars."""

    contrast: Tensor
    reconstruction: Tensor
    divergence: Tensor
    match: Tensor


class JointSlots(nn.Module):
    """Slots over tokens of both modalities.

    Args:
        dimension: D of tokens and slots.
        iterations: Times that slots look.
    """

    def __init__(self, dimension: int, iterations: int) -> None:
        super().__init__()
        self.slots = nn.Parameter(torch.randn(1, SLOTS, dimension))
        self.mask_image, self.mask_audio = (nn.Parameter(torch.randn(1, 1, dimension)) for _ in range(2))
        self.image, self.audio = Reader(dimension, iterations), Reader(dimension, iterations)
        self.image_decoder = Decoder(dimension, _CELLS, _CELLS)
        self.audio_decoder = Decoder(dimension, 1, _MOMENTS)

    def see(self, tokens: Tensor, hidden: Tensor | None = None) -> Read:
        """Let slots look at cells (B, N, D), of which some may be hidden, shape (B, N), bool."""
        return self._read(self.image, tokens, self.mask_image, hidden)

    def hear(self, tokens: Tensor, hidden: Tensor | None = None) -> Read:
        """The same for moments of sounds."""
        return self._read(self.audio, tokens, self.mask_audio, hidden)

    def _read(self, reader: Reader, tokens: Tensor, mask: Tensor, hidden: Tensor | None) -> Read:
        if hidden is not None:
            tokens = torch.where(hidden[..., None], mask, tokens)
        read: Read = reader(tokens, self.slots.expand(tokens.shape[0], -1, -1))
        return read

    def losses(
        self,
        cells: Tensor,
        moments: Tensor,
        grid: tuple[int, int],
        temperature: float,
        reciprocal: int,
        hidden: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> Losses:
        """The four losses of cells (B, N, D), on a grid, and moments (B, T, D).

        Args:
            cells: Of pictures.
            moments: Of sounds.
            grid: Rows and columns of the cells.
            temperature: Of the contrast.
            reciprocal: Neighbours within which items may be alike.
            hidden: Which cells and which moments are hidden from the slots.
        """
        seen, heard = self.see(cells, hidden[0]), self.hear(moments, hidden[1])
        image, audio = F.normalize(seen.slots, dim=-1), F.normalize(heard.slots, dim=-1)
        first, second = gather(image[:, 0]), gather(audio[:, 0])
        remade = self.image_decoder(seen.slots, grid), self.audio_decoder(heard.slots, (1, moments.shape[1]))
        return Losses(
            slot_contrast(first, second, kept_pairs(first, second, reciprocal), temperature),
            F.mse_loss(remade[0], cells.detach()) + F.mse_loss(remade[1], moments.detach()),
            divergence(image) + divergence(audio),
            match(assign(heard.queries, seen.keys), assign(seen.queries, seen.keys))
            + match(assign(seen.queries, heard.keys), assign(heard.queries, heard.keys)),
        )


class JSA(SeveralMaps):
    """Map s: the cells that the sound's question to slot s picks out, stretched from 0 to 1.

    What it hears are the slots of the sound and their questions, shape (B, 2, S, D).
    """

    config: JSAConfig
    published: ClassVar[Mapping[str, str]] = {
        "slot_attn.slots": "joint.slots",
        "slot_attn.mask_token_img": "joint.mask_image",
        "slot_attn.mask_token_aud": "joint.mask_audio",
        "slot_attn.img_": "joint.image.",
        "slot_attn.aud_": "joint.audio.",
        **{
            f"{short}_decoder.{part}": f"joint.{whole}_decoder.{own}"
            for short, whole in (("img", "image"), ("aud", "audio"))
            for part, own in (
                ("pos_emb.row_embed.weight", "rows"),
                ("pos_emb.col_embed.weight", "columns"),
                ("mlp.", "mlp."),
            )
        },
    }

    def __init__(self, config: JSAConfig) -> None:
        super().__init__(config)
        seen, heard = self.channels
        self.project_visual = nn.Conv2d(seen, config.dimension, 1)
        self.project_audio = nn.Conv2d(heard, config.dimension, 1)
        self.joint = JointSlots(config.dimension, config.iterations)
        if not config.mask_ratio:  # nothing would train them
            self.joint.mask_image.requires_grad_(False)
            self.joint.mask_audio.requires_grad_(False)

    @property
    def sources(self) -> int:
        """One for each slot."""
        return SLOTS

    @property
    def note(self) -> str:
        """Where maps come from."""
        return "both slots; the second is meant to be off target"

    def cells(self, seen: Tensor) -> Tensor:
        """Tokens of features (B, C, h, w), shape (B, N, D)."""
        found: Tensor = self.project_visual(seen).flatten(2).transpose(1, 2)
        return found

    def moments(self, spectrogram: Tensor) -> Tensor:
        """Tokens of spectrograms (B, 1, F, T): the largest value over frequencies at each moment, shape (B, T', D)."""
        form = FRONT_ENDS.get(self.config.spectrogram)
        frequency = 3 if form is not None and form.time_first else 2
        found: Tensor = self.project_audio(self.audio(spectrogram)).amax(frequency).transpose(1, 2)
        return found

    def embed(self, spectrogram: Tensor) -> Tensor:
        """What slots make of spectrograms (B, 1, F, T), and how they ask, shape (B, 2, S, D)."""
        read = self.joint.hear(self.moments(spectrogram))
        return torch.stack([read.slots, read.queries], dim=1)

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The map of each slot; it is as sure as picture and sound agree on the slot."""
        height, width = seen.shape[-2:]
        slots, queries = heard.unbind(1)
        read = self.joint.see(self.cells(seen))
        maps = assign(queries, read.keys, self.config.sharpening) * height * width  # about 1
        maps = normalise_range(maps.flatten(0, 1)).reshape(-1, SLOTS, height, width)
        agreement = F.cosine_similarity(read.slots, slots, dim=-1).clamp(0, 1)
        return Localisation(maps, agreement, slots)


def loss(network: JSA, batch: Batch) -> dict[str, Tensor]:
    """The weighted sum of the four losses."""
    config = network.config
    seen = network.watch(batch)
    cells, moments = network.cells(seen), network.moments(network.listen(batch.mixture))
    hidden: tuple[Tensor | None, Tensor | None] = (None, None)
    if network.training and config.mask_ratio:
        hidden = (_some(cells, config.mask_ratio), _some(moments, config.mask_ratio))
    grid = (seen.shape[-2], seen.shape[-1])
    found = network.joint.losses(cells, moments, grid, config.temperature, config.reciprocal, hidden)
    total = (
        found.contrast
        + config.reconstruction_weight * found.reconstruction
        + config.divergence_weight * found.divergence
        + config.match_weight * found.match
    )
    return {"loss": total, **found._asdict()}


def _some(tokens: Tensor, share: float) -> Tensor:
    """Which tokens (B, N, D) are hidden, shape (B, N), bool."""
    return torch.rand(tokens.shape[:2], device=tokens.device) < share


METHOD = SingleStageMethod(JSAConfig, JSA, loss)
