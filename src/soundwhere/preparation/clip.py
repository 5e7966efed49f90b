"""One clip to the files that stand for it in a shard: frames, sound, facts, and what a frozen encoder sees."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.shards import frame_times
from soundwhere.errors import MediaError
from soundwhere.media.audio import read_audio
from soundwhere.media.encoded import decode_jpeg, encode_jpeg, encode_sound
from soundwhere.media.image import resize
from soundwhere.media.video import length_s, read_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.preparation.lists import Entry, Listing
    from soundwhere.preparation.recipe import Recipe
    from soundwhere.types import Image, Waveform

    Encode = Callable[[list[Image]], NDArray[np.float16]]  # frames to features (F, C, h, w)

_OVERHANG_S: Final = 1.0  # by which a list's end may lie behind the file's: cutting at key frames loses as much
_LEAST_S: Final = 0.5  # of sound: less is a click


@dataclass(frozen=True)
class Prepared:
    """A clip as a shard holds it.

    Attributes:
        members: Endings and contents of its files, in the order in which they are written.
        frames: How many frames there are.
        samples: Length of its sound at 22 050 Hz.
        picture: Hash of the first frame, 16 bytes.
    """

    members: list[tuple[str, bytes]]
    frames: int
    samples: int
    picture: bytes


def prepare_clip(entry: Entry, listing: Listing, recipe: Recipe, encode: Encode | None = None) -> Prepared:
    """Prepare a clip.

    Args:
        entry: The clip.
        listing: Knows where its file is.
        recipe: How.
        encode: What a frozen encoder makes of frames, as they are when read back.

    Raises:
        MediaError: The file is missing or damaged, lacks picture or sound, or the clip's times are outside of it.
    """
    path, alone = listing.find(entry)
    if entry.sound:
        times_s, waveform = [0.0], _recording(entry, listing, recipe)
    else:
        start_s, end_s = _times(entry, path, alone)
        times_s = frame_times(start_s, end_s, recipe.frames)
        waveform = read_audio(path, start_s, end_s, recipe.rate_hz)
    if len(waveform) < _LEAST_S * recipe.rate_hz:
        raise MediaError(f"{path} has {len(waveform) / recipe.rate_hz:.1f} s of sound there.", "Leave it out.")
    pictures = [_reduced(frame.image, recipe.short_px) for frame in read_frames(path, times_s)]
    jpegs = [encode_jpeg(picture, recipe.quality) for picture in pictures]
    facts: dict[str, Any] = {
        "id": entry.name,
        "file": entry.file,
        "start_s": entry.start_s,
        "end_s": entry.end_s,
        "label": entry.label,
        "split": entry.split,
        "frame_times_s": [round(time_s, 6) for time_s in times_s],
        "frame_size": [pictures[0].shape[1], pictures[0].shape[0]],
        "rate_hz": recipe.rate_hz,
        "samples": len(waveform),
    }
    members = [(f"{number}.jpg", data) for number, data in enumerate(jpegs)]
    members.append((recipe.sound, encode_sound(waveform, recipe.rate_hz, recipe.sound)))
    if encode is not None:
        members.append(("features.npy", _npy(encode([decode_jpeg(data) for data in jpegs]))))
    members.append(("json", json.dumps(facts, sort_keys=True, ensure_ascii=False).encode(errors="replace") + b"\n"))
    samples = round(len(waveform) * SAMPLE_RATE_HZ / recipe.rate_hz)
    return Prepared(members, len(jpegs), samples, hashlib.sha256(jpegs[0]).digest()[:16])


def _times(entry: Entry, path: Path, alone: bool) -> tuple[float, float]:
    """Where a clip begins and ends in its file."""
    duration_s = length_s(path)
    if alone or entry.end_s is None:
        return 0.0, duration_s
    if entry.start_s >= duration_s or entry.end_s > duration_s + _OVERHANG_S:
        raise MediaError(
            f"{path} lasts {duration_s:.1f} s, so {entry.start_s:g} to {entry.end_s:g} s is outside of it.",
            "Correct the list, or get the whole video.",
        )
    return entry.start_s, min(entry.end_s, duration_s)


def _recording(entry: Entry, listing: Listing, recipe: Recipe) -> Waveform:
    """The sound beside a photo."""
    if entry.sound == "?":
        raise MediaError(f"{entry.file} has no sound file of the same name beside it.", "Add it, or leave it out.")
    for root in listing.roots:
        if (root / entry.sound).is_file():
            return read_audio(root / entry.sound, rate_hz=recipe.rate_hz)
    raise MediaError(f"{entry.sound} is missing.", "Copy it again.")


def _reduced(image: Image, short_px: int) -> Image:
    height, width = image.shape[:2]
    scale = short_px / min(height, width)
    return image if scale >= 1 else resize(image, (max(1, round(height * scale)), max(1, round(width * scale))))


def _npy(array: NDArray[np.float16]) -> bytes:
    file = BytesIO()
    np.save(file, array)
    return file.getvalue()
