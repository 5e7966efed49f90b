"""Phrases of recorded notes, made by a seeded rule: they are not those of the sets, which cannot be made again.

A phrase has as many notes as the one it stands for. What is drawn depends on the phrase's name and on the names of the
samples alone. A recorded note belongs to one split, unless a class has too few.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.rebuilding.sounds import SOUND_SAMPLES
from soundwhere.data.rebuilding.sources import PHILHARMONIA, TONEJS, Source
from soundwhere.errors import ConfigError, DataError, SoundwhereError
from soundwhere.media.audio import read_audio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from soundwhere.types import Waveform

# Philharmonia's files begin with the instrument (`banjo_A3_1_forte_normal.mp3`); tonejs-instruments has folders.
_INSTRUMENTS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    PHILHARMONIA.key: {
        **{kind: (kind,) for kind in ("banjo", "clarinet", "flute", "guitar", "mandolin", "saxophone", "tambourine")},
        "trombone": ("trombone",),
        "drums": ("snare-drum", "bass-drum", "tenor-drum", "tom-toms"),
    },
    TONEJS.key: {
        **{kind: (kind,) for kind in ("harp", "piano", "trumpet", "tuba", "violin", "xylophone")},
        "guitar": ("guitar-acoustic", "guitar-nylon"),
    },
}
_FORMATS: Final = (".mp3", ".ogg", ".wav")
_SHARES: Final = {"train": (0.0, 0.6), "val": (0.6, 0.75), "test": (0.75, 1.0)}
_FEW = 6  # notes, below which splits share them
_LEAD = 0.01  # of a note's peak, at which it begins
_RING_S = 0.25  # a note sounds on after the next has begun
_FADE = round(0.03 * SAMPLE_RATE_HZ)


class Notes:
    """The recorded notes of a source, by class.

    Args:
        source: Philharmonia or tonejs-instruments.
        folder: Its folder.

    Raises:
        ConfigError: There is no note of any class in it.
    """

    def __init__(self, source: Source, folder: Path) -> None:
        self.samples: dict[str, list[Path]] = {}
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() not in _FORMATS or "_phrase_" in path.name:
                continue
            kind = _kind(source, path)
            if kind:
                self.samples.setdefault(kind, []).append(path)
        if not self.samples:
            raise ConfigError(
                f"{source.option} {folder}: there are no notes of {', '.join(sorted(_INSTRUMENTS[source.key]))} in it.",
                f"Get {source.where}, and unpack it with the archives in it.",
            )


def pool(notes: Sequence[Notes], kind: str, split: str) -> list[Path]:
    """The notes of a class that belong to a split; all of them if there are too few to share out."""
    found = [path for each in notes for path in _one_format(each.samples.get(kind, []))]
    ordered = sorted(found, key=lambda path: hashlib.sha256(path.name.encode()).digest())
    if len(ordered) < _FEW:
        return ordered
    low, high = (round(share * len(ordered)) for share in _SHARES[split])
    return ordered[low:high]


def phrase(name: str, count: int, notes: Sequence[Path]) -> Waveform:
    """5 s of `count` notes drawn for a phrase's name, one after the other, each sounding on into the next.

    Raises:
        DataError: No note can be read.
    """
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))
    slot = SOUND_SAMPLES / count
    starts = [round((number + rng.uniform(-0.1, 0.1) * (number > 0)) * slot) for number in range(count)]
    mixed = np.zeros(SOUND_SAMPLES, np.float32)
    for start in starts:
        note = _note(notes, rng)[: round(slot + _RING_S * SAMPLE_RATE_HZ)]
        note = note[: SOUND_SAMPLES - start].copy()
        fade = min(_FADE, len(note))
        note[len(note) - fade :] *= np.linspace(1, 0, fade, dtype=np.float32)
        mixed[start : start + len(note)] += note
    return mixed


def _note(notes: Sequence[Path], rng: np.random.Generator) -> Waveform:
    """One note drawn from those that can be read, without the silence before it, at peak 1."""
    first = int(rng.integers(len(notes)))
    reason = ""
    for path in [*notes[first:], *notes[:first]]:
        try:
            return _read(path)
        except SoundwhereError as error:
            reason = error.message
    raise DataError(f"None of {len(notes)} notes can be read: {reason}", "Unpack or download the samples again.")


@lru_cache(256)
def _read(path: Path) -> Waveform:
    waveform = read_audio(path, end_s=10.0)
    peak = float(np.abs(waveform).max(initial=0.0))
    if peak < 1e-4:
        raise DataError(f"{path} is silent.")
    begins = int(np.argmax(np.abs(waveform) > _LEAD * peak))
    return waveform[begins:] / np.float32(peak)


def _kind(source: Source, path: Path) -> str | None:
    name = path.stem.split("_")[0] if source is PHILHARMONIA else path.parent.name
    return next((kind for kind, names in _INSTRUMENTS[source.key].items() if name in names), None)


def _one_format(paths: Sequence[Path]) -> list[Path]:
    """A note that is there in several formats, once."""
    chosen: dict[Path, Path] = {}
    for path in sorted(paths, key=lambda path: _FORMATS.index(path.suffix.lower())):
        chosen.setdefault(path.with_suffix(""), path)
    return list(chosen.values())
