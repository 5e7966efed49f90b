"""What a frozen visual encoder makes of pictures, kept on disk, so that training on a CPU is not spent on it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import torch

from soundwhere.constants import IMAGENET_MEAN, IMAGENET_STD
from soundwhere.distributed import barrier, local_rank, local_size, rank, world_size
from soundwhere.errors import DataError
from soundwhere.files import atomic_path, cache_folder
from soundwhere.media.image import normalise, resize

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from soundwhere.types import Image

    Features = NDArray[np.float16]  # (C, h, w)

# how pictures are prepared for every encoder
_TRANSFORM: Final = hashlib.sha256(repr((IMAGENET_MEAN, IMAGENET_STD)).encode()).hexdigest()[:8]


class Pictures(Protocol):
    """A numbered set of pictures."""

    def __len__(self) -> int:
        """How many there are."""

    def key(self, index: int) -> str:
        """Names the content of a picture, also in another run: equal keys, equal pictures."""

    def image(self, index: int) -> Image:
        """The picture, shape (H, W, 3)."""


class FeatureCache:
    """One file per picture, named by what the features depend on: the picture, the encoder and the transform.

    Files appear whole or not at all: what was stopped goes on where it stopped, and two runs may fill one cache.

    Args:
        folder: Where files are kept; by default below the user's cache folder.
        encoder: Identifies the encoder and its weights, see `encoder_id`.
        frame_px: Side to which pictures are squashed before they are encoded; None leaves them as they are.
    """

    def __init__(self, folder: Path | None, encoder: str, frame_px: int | None) -> None:
        self.frame_px = frame_px
        side = f"{frame_px}px" if frame_px else "whole"
        self.folder = (folder or cache_folder() / "features") / f"{encoder}-{side}-{_TRANSFORM}"

    def path(self, key: str) -> Path:
        """The file that holds, or will hold, the features of a picture."""
        name = hashlib.sha256(key.encode()).hexdigest()
        return self.folder / name[:2] / f"{name}.npy"

    def get(self, key: str) -> Features:
        """Features of a picture, shape (C, h, w), float16, read-only.

        Raises:
            DataError: They were never computed, or their file has been damaged or removed since.
        """
        features = _load(self.path(key))
        if features is None:
            path = self.path(key)
            raise DataError(f"{path} is missing or damaged.", "Start again with --resume: it is computed again.")
        return features

    def fill(
        self,
        pictures: Pictures,
        encode: Callable[[Tensor], Tensor],
        batch_size: int = 32,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Compute the features that are missing or damaged; several processes share the work and wait for each other.

        Args:
            pictures: What is encoded, such as clips.
            encode: From normalised pictures (B, 3, H, W) of one size, on the CPU, to features (B, C, h, w).
            batch_size: Pictures encoded at a time.
            progress: Called with the number of pictures done and of all that this process has to do.

        Returns:
            How many pictures this process encoded.
        """
        numbers = {pictures.key(index): index for index in range(len(pictures))}  # clips may share a picture
        done = self._fill_share(
            sorted(numbers)[rank() :: world_size()], numbers, pictures, encode, batch_size, progress
        )
        barrier()
        # machines with folders of their own lack what the others made; in a shared folder nothing is missing by now
        rest = sorted(numbers)[local_rank() :: local_size()] if world_size() > local_size() else []
        done += self._fill_share(rest, numbers, pictures, encode, batch_size, progress)
        barrier()
        return done

    def _fill_share(
        self,
        keys: list[str],
        numbers: dict[str, int],
        pictures: Pictures,
        encode: Callable[[Tensor], Tensor],
        batch_size: int,
        progress: Callable[[int, int], None] | None,
    ) -> int:
        """Compute what is missing of some pictures, and say how many that were."""
        missing = [key for key in keys if _load(self.path(key)) is None]
        for start in range(0, len(missing), batch_size):
            keys = missing[start : start + batch_size]
            by_size: dict[tuple[int, ...], dict[str, Image]] = {}
            for key in keys:
                picture = pictures.image(numbers[key])
                if self.frame_px is not None:
                    picture = resize(picture, (self.frame_px, self.frame_px))
                by_size.setdefault(picture.shape, {})[key] = picture
            for group in by_size.values():
                with torch.no_grad():
                    encoded = encode(normalise(np.stack(list(group.values())))).cpu().to(torch.float16).numpy()
                for key, features in zip(group, encoded, strict=True):
                    with atomic_path(self.path(key)) as temporary:
                        np.save(temporary, features)
            if progress is not None:
                progress(start + len(keys), len(missing))
        return len(missing)


@dataclass(frozen=True, eq=False)
class Eye:
    """A frozen visual encoder.

    Attributes:
        architecture: What it is called.
        encoder: From normalised pictures (B, 3, H, W) to features (B, C, h, w).
        stride_px: Pixels per cell.
    """

    architecture: str
    encoder: nn.Module
    stride_px: int

    @cached_property
    def name(self) -> str:
        """Tells it from every other encoder, by its weights too."""
        return encoder_id(self.architecture, self.encoder)

    def encode(self, images: Tensor) -> Tensor:
        """Features (B, C, h, w) of pictures (B, 3, H, W), wherever the encoder is."""
        features: Tensor = self.encoder(images.to(next(self.encoder.parameters()).device))
        return features


def encoder_id(architecture: str, encoder: nn.Module) -> str:
    """Identify an encoder by its architecture and every value of its weights and statistics."""
    digest = hashlib.sha256()
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return f"{architecture}-{digest.hexdigest()[:16]}"


def _load(path: Path) -> Features | None:
    """Map a file of features, or None if there is none or it is damaged; a file cut short cannot be mapped."""
    try:
        features = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return features if features.dtype == np.float16 and features.ndim == 3 else None
