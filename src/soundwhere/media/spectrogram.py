"""Log-spectrograms: power spectral density as `scipy.signal.spectrogram` defines it, in batches, of numpy or torch.

The presets of the literature take the natural logarithm of (density + 1e-7) and divide by 12, which brings everything
from silence (-1.34) to a full-scale tone (about 0) near the unit range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.errors import ConfigError
from soundwhere.media.arrays import Array, cut, finite, like, namespace, pad, triangles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


@dataclass(frozen=True)
class SpectrogramPreset:
    """How a waveform is cut into windows.

    Attributes:
        window_samples: Length of a window, even; also the length of the Fourier transform.
        hop_samples: Distance between the starts of two windows.
        window: Name and parameters of the window as `scipy.signal.get_window` takes them.
        centred: Pad half a window of silence at both ends, so that window t is centred on sample t * hop_samples.
        mels: Number of mel bands the frequencies are gathered into; 0 keeps them as they are.
        floor: Added to the density, so that silence has a logarithm.
        offset: Added to the logarithm.
        scale: What the sum is divided by.
    """

    window_samples: int
    hop_samples: int
    window: str | tuple[str, float]
    centred: bool
    mels: int = 0
    floor: float = 1e-7
    offset: float = 0.0
    scale: float = 12.0

    @property
    def bins(self) -> int:
        """Number of frequencies F."""
        return self.mels or self.window_samples // 2 + 1

    def frames(self, samples: int) -> int:
        """Number of windows T that `samples` samples give; at least one, for which a short sound is padded."""
        padded = samples + self.window_samples if self.centred else max(samples, self.window_samples)
        return 1 + (padded - self.window_samples) // self.hop_samples


PRESETS: dict[str, SpectrogramPreset] = {
    # The paper's text: 50 ms windows every 25 ms. It names no window function; Hann is the one whose copies at half
    # overlap add up to a constant, so that every sample counts equally.
    "paper": SpectrogramPreset(window_samples=1102, hop_samples=551, window="hann", centred=True),
    # The released code of the peers calls scipy.signal.spectrogram(x, 22050, nperseg=512, noverlap=274); scipy's
    # defaults then mean a Tukey(0.25) window, the mean of each window subtracted, one-sided density, no padding.
    "peers": SpectrogramPreset(window_samples=512, hop_samples=238, window=("tukey", 0.25), centred=False),
    # For encoders that start from photographs: few enough cells to be quick, and a floor that keeps the quiet overtones
    # which 1e-7 cuts off. Offset and scale bring sounds of RMS 0.1 to about zero mean and unit spread, as photos have.
    "mel": SpectrogramPreset(1024, 512, "hann", centred=True, mels=64, floor=1e-11, offset=18.0, scale=4.0),
}

# Edges of the mel bands.
_MEL_HZ = (40.0, 11_000.0)


def log_spectrogram(waveform: Array, preset: str = "paper") -> Array:
    """The logarithm of the power spectral density of each window, its mean subtracted first.

    A microphone's constant offset is inaudible, hence the subtraction. Samples that are not finite count as silence.

    Args:
        waveform: Sound at 22 050 Hz, shape (..., N), numpy or torch on any device, any floating dtype, nominally in
            [-1, 1]; N may be 0.
        preset: `paper` (552 x 121 for 3 s), `peers` (257 x 276 for 3 s) or `mel` (64 x 130 for 3 s).

    Returns:
        (ln(density + floor) + offset) / scale, shape (..., 1, F, T), float32, always finite.

    Raises:
        ConfigError: No such preset.

    >>> log_spectrogram(np.zeros((2, 66_150))).shape
    (2, 1, 552, 121)
    """
    if preset not in PRESETS:
        raise ConfigError(f"There is no spectrogram preset {preset!r}.", f"Choose one of: {', '.join(PRESETS)}.")
    form, xp = PRESETS[preset], namespace(waveform)
    samples = finite(waveform)
    margin = form.window_samples // 2 if form.centred else 0
    short = max(0, form.window_samples - samples.shape[-1] - 2 * margin)
    windows = cut(pad(samples, margin, margin + short), form.window_samples, form.hop_samples)
    weights, doubling = _weights(form)
    windows = (windows - windows.mean(-1)[..., None]) * like(weights, samples)
    density = xp.abs(xp.fft.rfft(windows)) ** 2 * like(doubling, samples)
    if form.mels:
        density = density @ like(mel_bands(form), samples)
    spectrogram: Array = xp.swapaxes((xp.log(density + form.floor) + form.offset) / form.scale, -1, -2)
    return spectrogram[..., None, :, :]


@lru_cache
def _weights(form: SpectrogramPreset) -> tuple[Floats, Floats]:
    """The window scaled to give a density per hertz, and the factor by which one side stands for both."""
    if form.window == "hann":
        window = np.hanning(form.window_samples + 1)[:-1]
    else:
        from scipy.signal import get_window  # only here: it takes longer to import than a clip to hear

        window = get_window(form.window, form.window_samples)
    doubling = np.full(form.window_samples // 2 + 1, 2.0, np.float32)
    doubling[0] = doubling[-1] = 1.0  # constant and Nyquist have no mirror image
    return (window / np.sqrt(SAMPLE_RATE_HZ * np.square(window).sum())).astype(np.float32), doubling


@lru_cache
def mel_bands(form: SpectrogramPreset) -> Floats:
    """Triangles of height 1 that overlap by half, equally wide in mel, shape (frequencies, mels)."""
    low, high = (2595 * math.log10(1 + edge / 700) for edge in _MEL_HZ)
    corners = 700 * (10 ** (np.linspace(low, high, form.mels + 2) / 2595) - 1)
    hertz = np.linspace(0, SAMPLE_RATE_HZ / 2, form.window_samples // 2 + 1)
    return triangles(hertz, corners).astype(np.float32)
