"""The few shapes that travel between the rooms.

Arrays are numpy on the data side (`Scene`) and torch on the model side (`Batch`, `Localisation`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    Image = NDArray[np.uint8]  # (H, W, 3), RGB
    Waveform = NDArray[np.float32]  # (N,), mono, 22 050 Hz, nominally within [-1, 1]
    Masks = NDArray[np.bool_]  # (S, H, W)


@dataclass(frozen=True)
class Scene:
    """A picture with S sounding objects, their separate sounds, and (for scoring only) where they are.

    Attributes:
        name: Unique within its data set.
        image: RGB, shape (H, W, 3), uint8.
        sounds: Each source's own sound, already at its level in the mixture, shape (S, N), float32; a single row where
            the sources were recorded together.
        masks: The sounding objects, shape (S, H, W), bool, in the order of `sounds`; none for a scene that
            should stay dark. Training never reads them.
        kinds: Class names in the order of `masks`. Training never reads them.
        silent_masks: Objects that are seen but do not sound, shape (Q, H, W), bool.
    """

    name: str
    image: Image
    sounds: NDArray[np.float32]
    masks: Masks
    kinds: tuple[str, ...] = ()
    silent_masks: Masks | None = None

    @property
    def mixture(self) -> Waveform:
        """The sum of the sounds, shape (N,)."""
        mixture: Waveform = self.sounds.sum(axis=0)
        return mixture


@dataclass(frozen=True)
class Batch:
    """What a method trains on: pictures (or their cached features) and waveforms. Labels only for those that need them.

    Attributes:
        mixture: Mixed sound, shape (B, N).
        image: Normalised pictures, shape (B, 3, H, W); absent when `features` are cached.
        features: Frozen visual features, shape (B, C, h, w); absent when `image` is given.
        solos: The separate sounds of a made mixture, shape (B, K, N); absent for native mixtures.
        targets: What a map of each source is taught, 0 outside the frame it came with, shape (B, K, h, w); only where
            a stage needs it.
        moments: The separate sounds at other moments, shape (B, M - 1, K, N); only where a stage needs them.
        labels: Number of each source's class, shape (B, K), int64; only for methods that declare that they read labels.
        captions: Embeddings of what captions say of each source's picture, those of sounding things first and that of
            the background last, shape (B, K, captions, D); only where a stage needs them.
    """

    mixture: Tensor
    image: Tensor | None = None
    features: Tensor | None = None
    solos: Tensor | None = None
    targets: Tensor | None = None
    moments: Tensor | None = None
    labels: Tensor | None = None
    captions: Tensor | None = None

    def __len__(self) -> int:
        return len(self.mixture)

    def to(self, device: torch.device | str) -> Self:
        """The same batch on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def __getitem__(self, rows: slice) -> Self:
        """A part of the batch, as gradient accumulation needs."""
        return self._map(lambda tensor: tensor[rows])

    def _map(self, change: Any) -> Self:
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(tensor) for name, tensor in tensors.items() if tensor is not None})


@dataclass(frozen=True)
class Localisation:
    """What a method answers.

    Attributes:
        similarity: Raw similarity of each source's sound to each cell, shape (B, K, h, w), in [-1, 1] for cosine; for
            models that show presence, how surely the cell belongs to the source, in [0, 1], perhaps shaped.
        confidence: How surely each map shows a sounding source, shape (B, K), in [0, 1].
        embeddings: Each source's audio embedding, shape (B, K, D), by which sources are followed over time.
    """

    similarity: Tensor
    confidence: Tensor
    embeddings: Tensor

    @classmethod
    def peaked(cls, similarity: Tensor, embeddings: Tensor) -> Localisation:
        """Maps (B, K, h, w) and embeddings (B, K, D) together; the confidence of a map is its peak."""
        return cls(similarity, similarity.flatten(2).amax(2).clamp(0, 1), embeddings)

    def of(self, sources: int) -> Localisation:
        """The same with as many maps as asked for: the first ones, or over again from the first."""
        count = self.similarity.shape[1]
        if sources == count:
            return self
        chosen = [number % count for number in range(sources)]
        return Localisation(self.similarity[:, chosen], self.confidence[:, chosen], self.embeddings[:, chosen])

    def heatmaps(self, size: tuple[int, int] | None = None) -> Tensor:
        """The maps in [0, 1], shape (B, K, H, W): similarity clamped at 0, upsampled bilinearly to `size` if given."""
        from torch.nn import functional as F

        maps = self.similarity.clamp(0, 1)
        if size is None:
            return maps
        return F.interpolate(maps, size=size, mode="bilinear", align_corners=False)
