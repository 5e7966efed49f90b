"""A fingerprint of a sound: how loud eight bands of it are, twenty times a second, in steps of 3 dB.

Relative to its own loudest moment, so that another level changes nothing, and coarse enough to outlast encoding. It
also says where in a longer recording a sound was cut out: `find` compares every 5 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.constants import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.types import Waveform

    Levels = NDArray[np.float32]  # (frames, bands), dB

FRAME: Final = 1_100
"""Samples of a frame, 50 ms."""
FINE: Final = 110
"""Samples between places that `find` tries, 5 ms."""
BANDS: Final = 8
LOWEST_HZ: Final = 100.0
HIGHEST_HZ: Final = 7_000.0
STEP_DB: Final = 3.0
STEPS: Final = 15
SAME_SOUND: Final = 1.8
"""Mean difference in dB up to which two sounds count as the same."""


def sound_print(waveform: Waveform) -> bytes:
    """The levels of a sound (N,): one value of 0 to 15 for each whole frame and band, two in a byte."""
    levels = _steps(_levels(waveform, FRAME)).astype(np.uint8)
    return (levels[:, ::2] * 16 + levels[:, 1::2]).tobytes()


def sound_distance(waveform: Waveform, listed: bytes) -> float:
    """How far a sound is from a print of the same length: the mean difference of their levels in dB."""
    wanted = unpacked(listed)
    levels = _levels(waveform[: len(wanted) * FRAME], FRAME)
    if len(levels) < len(wanted):
        return float("inf")
    return float(np.abs(_steps(levels) - wanted).mean()) * STEP_DB


def find(waveform: Waveform, listed: bytes) -> tuple[int, float]:
    """Where in a recording the sound of a print begins.

    Returns:
        The sample at which it begins, and how far that place is from the print as `sound_distance` has it; infinitely
        far where the recording is shorter than the print.
    """
    wanted = unpacked(listed)
    stride = FRAME // FINE
    fine = _levels(waveform, FINE)
    places = len(fine) - (len(wanted) - 1) * stride
    best, nearest = 0, float("inf")
    for place in range(max(places, 0)):
        frames = fine[place : place + (len(wanted) - 1) * stride + 1 : stride]
        distance = float(np.abs(_steps(frames) - wanted).mean()) * STEP_DB
        if distance < nearest:
            best, nearest = place * FINE, distance
    return best, nearest


def _levels(waveform: Waveform, hop: int) -> Levels:
    """Levels in dB of each band in frames that begin every `hop` samples and lie within the waveform."""
    if len(waveform) < FRAME:
        waveform = np.pad(waveform, (0, FRAME - len(waveform)))
    frames = np.lib.stride_tricks.sliding_window_view(waveform, FRAME)[::hop]
    edges = np.geomspace(LOWEST_HZ, HIGHEST_HZ, BANDS + 1)
    bins = np.searchsorted(np.fft.rfftfreq(FRAME, 1 / SAMPLE_RATE_HZ), edges)
    window = np.hanning(FRAME).astype(np.float32)
    levels = []
    for start in range(0, len(frames), 1024):  # a few seconds at a time: spectra are large
        power = np.square(np.abs(np.fft.rfft(frames[start : start + 1024] * window)))
        levels.append(np.add.reduceat(power[:, : bins[-1]], bins[:-1], axis=1))
    return (10 * np.log10(np.concatenate(levels) + 1e-12)).astype(np.float32)


def _steps(levels: Levels) -> Levels:
    """Levels in steps below the loudest, 15, down to 0."""
    steps: Levels = np.clip(np.rint(STEPS + (levels - levels.max()) / STEP_DB), 0, STEPS).astype(np.float32)
    return steps


def unpacked(listed: bytes) -> Levels:
    """The levels in a print, in steps, shape (frames, bands)."""
    pairs = np.frombuffer(listed, np.uint8).reshape(-1, BANDS // 2)
    return np.stack([pairs >> 4, pairs & 15], -1).reshape(-1, BANDS).astype(np.float32)
