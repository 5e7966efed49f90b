"""The log-mel spectrogram that YAMNet was trained with, in batches of numpy or torch, from this package's 22 050 Hz."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.media.arrays import Array, cut, finite, like, namespace, pad, triangles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

RATE_HZ: Final = 16_000
BANDS: Final = 64
LEAST_SAMPLES: Final = 15_600  # of 16 kHz: 96 windows, what the network takes for one look
WINDOW: Final = 400
HOP: Final = 160
_FFT: Final = 512
_EDGES_HZ: Final = (125.0, 7_500.0)
_FLOOR: Final = 0.001
_DIVISOR: Final = math.gcd(SAMPLE_RATE_HZ, RATE_HZ)


def log_mel(waveform: Array) -> Array:
    """The logarithm of the mel magnitudes of 25 ms windows every 10 ms.

    Samples that are not finite count as silence; a sound of less than 0.975 s is followed by silence up to that length.

    Args:
        waveform: Sound at 22 050 Hz, shape (..., N), numpy or torch on any device, any floating dtype, nominally in
            [-1, 1]; N may be 0.

    Returns:
        ln(magnitude + 0.001), shape (..., 1, 64, T), float32, always finite; T is 298 for 3 s.

    >>> log_mel(np.zeros((2, 66_150))).shape
    (2, 1, 64, 298)
    """
    xp = namespace(waveform)
    samples = resample(finite(waveform))
    samples = pad(samples, 0, max(0, LEAST_SAMPLES - samples.shape[-1]))
    windows = cut(samples, WINDOW, HOP) * like(_window(), samples)
    magnitudes = xp.abs(xp.fft.rfft(windows, _FFT)) @ like(mel_triangles(), samples)
    spectrogram: Array = xp.swapaxes(xp.log(magnitudes + _FLOOR), -1, -2)
    return spectrogram[..., None, :, :]


def resample(waveform: Array) -> Array:
    """Waveforms (..., N) at 22 050 Hz as they sound at 16 kHz, shape (..., M): their spectrum, cut at 8 kHz.

    N is filled up with silence to whole steps of 20 ms (441 samples to 320).
    """
    step, new_step = SAMPLE_RATE_HZ // _DIVISOR, RATE_HZ // _DIVISOR
    steps = -(-waveform.shape[-1] // step)
    if not steps:
        return waveform
    before, after = steps * step, steps * new_step
    xp = namespace(waveform)
    spectrum = xp.fft.rfft(waveform, before)[..., : after // 2 + 1]
    resampled: Array = xp.fft.irfft(spectrum, after) * (after / before)
    return resampled


@lru_cache
def mel_triangles() -> Floats:
    """Triangles of height 1 that are linear in mel and overlap by half, shape (257, 64); the constant has no band."""
    mel = 1127 * np.log1p(np.linspace(0, RATE_HZ / 2, _FFT // 2 + 1) / 700)
    low, high = (1127 * math.log1p(edge / 700) for edge in _EDGES_HZ)
    bands = triangles(mel, np.linspace(low, high, BANDS + 2)).astype(np.float32)
    bands[0] = 0
    return bands


@lru_cache
def _window() -> Floats:
    return np.hanning(WINDOW + 1)[:-1].astype(np.float32)
