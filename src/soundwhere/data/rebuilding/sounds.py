"""A sound of a set from a source's own file: cut out where its fingerprint says, repeated, at the listed level."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.rebuilding.lists import print_of, whole_of
from soundwhere.data.rebuilding.photos import another_version
from soundwhere.data.rebuilding.sound_prints import FRAME, SAME_SOUND, find, sound_distance
from soundwhere.errors import DataError, SoundwhereError
from soundwhere.files import is_file, write_bytes
from soundwhere.media.audio import read_audio, scale_to_rms
from soundwhere.media.encoded import encode_sound

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.rebuilding.sources import Source
    from soundwhere.data.table import Row
    from soundwhere.types import Waveform

SOUND_SAMPLES: Final = 5 * SAMPLE_RATE_HZ
GAP_SAMPLES: Final = 3_307
"""Silence before a sound is repeated, 0.15 s, as measured in the files of the sets."""
_AS_GOOD_DB = 0.25  # the beginning of a recording is taken if it fits as well as the best place up to this
_LEVEL_DB = 0.5  # another level than the one listed is corrected from here on
_SHORT = FRAME  # samples that may be missing at the end of a recording: codecs round


def is_made(row: Row, out: Path) -> bool:
    """Whether a sound is there, as its fingerprint says; a phrase, which has none, need only be whole."""
    path = row.inside(row["audio"], out)
    if not is_file(path):
        return False
    try:
        waveform = read_audio(path)
        return len(waveform) == SOUND_SAMPLES and (
            not row["print"] or sound_distance(waveform, print_of(row)) <= SAME_SOUND
        )
    except SoundwhereError:  # damaged since: it is made again
        return False


def make_sound(row: Row, path: Path, source: Source, out: Path) -> tuple[float, int]:
    """Write a sound.

    Args:
        row: Of the list of sounds.
        path: The source's file.
        source: Which source.
        out: Folder of the set.

    Returns:
        The distance from its fingerprint in dB, and the sample of the recording with which it begins.

    Raises:
        SoundwhereError: The file is damaged or cut short, or not the sound that was used.
    """
    recording, listed, length = read_audio(path), print_of(row), whole_of(row, "samples")
    if len(recording) < length - _SHORT:
        has_s, needs_s = len(recording) / SAMPLE_RATE_HZ, length / SAMPLE_RATE_HZ
        raise DataError(
            f"{path} is cut short: {has_s:.2f} s, and {needs_s:.2f} s are needed.",
            f"Unpack or download {source.title} again.",
        )
    start, distance = find(recording, listed)
    at_start = sound_distance(recording, listed)
    if at_start <= distance + _AS_GOOD_DB:
        start, distance = 0, at_start
    if distance > SAME_SOUND:
        raise another_version(path, source, f"its levels differ by {distance:.1f} dB, not up to {SAME_SOUND:g}")
    write_sound(row, repeat(recording[start : start + length]), out, exact=False)
    return distance, start


def repeat(body: Waveform) -> Waveform:
    """5 s of a sound: repeated after a gap if it is shorter."""
    period = np.concatenate([body, np.zeros(GAP_SAMPLES, np.float32)])
    return np.resize(period, SOUND_SAMPLES) if len(body) < SOUND_SAMPLES else body[:SOUND_SAMPLES]


def write_sound(row: Row, waveform: Waveform, out: Path, exact: bool) -> None:
    """Write 5 s at the listed level: always, or only where it is noticeably another."""
    level = float(np.sqrt(np.mean(np.square(waveform, dtype=np.float64))))
    if not re.fullmatch(r"-?\d+(\.\d+)?", row["rms_db"]):
        raise DataError(f"{row.place}: rms_db is {row['rms_db']!r}.", "Make the lists again.")
    wanted = 10 ** (float(row["rms_db"]) / 20)
    if exact or abs(20 * np.log10(max(level, 1e-9) / wanted)) > _LEVEL_DB:
        waveform = scale_to_rms(waveform, wanted)
        waveform = waveform / np.float32(max(1.0, float(np.abs(waveform).max())))  # rather too quiet than clipped
    write_bytes(row.inside(row["audio"], out), encode_sound(waveform, SAMPLE_RATE_HZ, "ogg"))
