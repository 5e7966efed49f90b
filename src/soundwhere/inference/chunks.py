"""A clip cut into chunks for the network: a few frames, and the windows of sound around them, each picture once."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from soundwhere.inference.footage import SoundWindows, level_db
from soundwhere.media.image import normalise

if TYPE_CHECKING:
    from collections.abc import Generator

    from torch import Tensor

    from soundwhere.inference.footage import Footage
    from soundwhere.types import Image, Waveform


@dataclass(frozen=True, eq=False)
class Chunk:
    """B frames that go through the network together.

    Attributes:
        times_s: When they are on display, B times.
        images: Their P different pictures, normalised, shape (P, 3, H, W).
        shown: Which picture each frame shows, B numbers below P.
        windows: Which window of sound lies around each frame, B numbers that count on from chunk to chunk.
        sounds: The windows that no chunk before this one had, by number, shape (66150,).
        levels_db: The level of each of those.
    """

    times_s: list[float]
    images: Tensor
    shown: list[int]
    windows: list[int]
    sounds: dict[int, Waveform]
    levels_db: dict[int, float]


def chunks(
    footage: Footage, fps: float, hop_s: float, batch: int, size: tuple[int, int]
) -> Generator[Chunk, None, None]:
    """Read a clip chunk by chunk, in constant memory.

    Args:
        footage: The clip.
        fps: Frames per second that are looked at.
        hop_s: Distance between windows of sound; a frame has the one whose middle is nearest.
        batch: Frames in a chunk; the last one may have fewer.
        size: Height and width at which the network sees pictures.
    """
    hearing = SoundWindows(footage.sound, footage.start_s - hop_s)
    latest = -1
    with closing(footage.frames(fps)) as frames:
        while part := list(islice(frames, batch)):
            pictures, shown = [part[0].image], []
            for frame in part:  # a video that holds a picture, or a photo, gives the same array again
                if frame.image is not pictures[-1]:
                    pictures.append(frame.image)
                shown.append(len(pictures) - 1)
            windows = [int(frame.time_s / hop_s + 0.5) for frame in part]
            sounds = {number: hearing.at(number * hop_s) for number in sorted(set(windows)) if number > latest}
            latest = windows[-1]
            yield Chunk(
                times_s=[frame.time_s for frame in part],
                images=normalise(torch.stack([_resized(picture, size) for picture in pictures])),
                shown=shown,
                windows=windows,
                sounds=sounds,
                levels_db={number: level_db(sound) for number, sound in sounds.items()},
            )


def single(image: Image, sound: Waveform, size: tuple[int, int]) -> Chunk:
    """One picture (H, W, 3) and one window of sound (66150,) that came together, as a chunk."""
    picture = normalise(_resized(image, size)[None])
    return Chunk([0.0], picture, [0], [0], {0: sound}, {0: level_db(sound)})


def _resized(picture: Image, size: tuple[int, int]) -> Tensor:
    """As `media.image.resize` to within 1 of 255, several times as fast, shape (H, W, 3), uint8."""
    planes = torch.from_numpy(picture).permute(2, 0, 1)[None]
    return F.interpolate(planes, size=size, mode="bilinear", antialias=True)[0].permute(1, 2, 0)
