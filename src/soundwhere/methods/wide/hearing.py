"""What each moment and band of a sound says about each cell of a picture."""

from __future__ import annotations

import math
from typing import Final, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from soundwhere.models.encoders import build_audio
from soundwhere.models.encoders.yamnet import YAMNet

_MOMENTUM: Final = 0.01  # of the running mean of embeddings


class Ear(nn.Module):
    """An encoder and a head into the space of visual features: embeddings of each cell of time and frequency.

    The head may guess more than once what is heard in a cell: where two things sound at once, each may have a guess of
    its own, which one embedding between the two could not give them. An encoder as wide as that space needs no head for
    a single guess. A ReLU comes last, as visual features are not negative. What all sounds have in common is taken off
    once it is trained: a picture that fits any sound a little is no better an answer for that.
    """

    common: Tensor

    def __init__(self, encoder: str, channels: int, hearing: Literal["cells", "mean"], guesses: int = 1) -> None:
        super().__init__()
        self.encoder = YAMNet() if encoder == "yamnet" else build_audio(encoder)
        width = self.encoder.channels
        self.head = nn.Identity() if guesses == 1 and width == channels else nn.Linear(width, guesses * channels)
        self.hearing = hearing
        self.guesses = guesses
        self.register_buffer("common", torch.zeros(channels))

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Spectrograms (B, 1, F, T) to embeddings (B, N, C); N is the number of guesses if only the mean is heard.

        In training mode they have unit length, and their running mean is kept as what they have in common.
        """
        cells = self.encoder(spectrogram).flatten(2).transpose(1, 2)
        cells = cells.mean(1, keepdim=True) if self.hearing == "mean" else cells
        guessed = self.head(cells).unflatten(-1, (self.guesses, -1)).flatten(1, 2)
        directions = F.normalize(torch.relu(guessed), dim=-1)
        if not self.training:
            return directions - self.common
        self.common.lerp_(directions.detach().float().mean((0, 1)), _MOMENTUM)
        return directions


def soft_maximum(values: Tensor, dim: int, softness: float) -> Tensor:
    """Between the mean (of values closer together than the softness) and the maximum, over a dimension.

    >>> soft_maximum(torch.tensor([0.0, 1.0]), 0, 1e-3).round(decimals=2), soft_maximum(torch.ones(5), 0, 0.1)
    (tensor(1.), tensor(1.))
    """
    return softness * (torch.logsumexp(values / softness, dim) - math.log(values.shape[dim]))


def heard_map(features: Tensor, cells: Tensor, softness: float) -> Tensor:
    """S, shape (B, h, w): how well the best-fitting moment of the sound fits each cell.

    Args:
        features: V, shape (B, C, h, w).
        cells: Unit embeddings of the sound, shape (B, N, C).
        softness: Of the maximum over the sound's cells.
    """
    similarity = torch.einsum("bchw,bnc->bnhw", F.normalize(features, dim=1), cells)
    return soft_maximum(similarity, 1, softness)


def similarities(features: Tensor, cells: Tensor) -> Tensor:
    """How well each of N cells of M sounds fits each of Q cells of P pictures, cosine, shape (M, N, P, Q).

    Args:
        features: Cells of pictures, shape (P, C, Q).
        cells: Unit embeddings of sounds, shape (M, N, C).
    """
    return torch.einsum("pcq,mnc->mnpq", F.normalize(features, dim=1), cells)


def cross_scores(similarity: Tensor, softness: float) -> Tensor:
    """How well each of M sounds fits each of P pictures, shape (M, P).

    Args:
        similarity: Of their cells, shape (M, N, P, Q).
        softness: Of the maxima over the sound's cells, and then over the picture's.
    """
    return soft_maximum(soft_maximum(similarity, 1, softness), 2, softness)
