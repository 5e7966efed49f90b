"""The spectrograms with which the published systems hear, each to the letter of its released code.

A front end brings a waveform to its own rate, length and level, cuts it into windows, gathers frequencies into mel
bands and takes a logarithm. `hear_as` gives them by name, beside the presets of `spectrogram.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import torch
from torch.nn import functional as F

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.errors import ConfigError
from soundwhere.media.arrays import finite, triangles
from soundwhere.media.resample import resample
from soundwhere.media.spectrogram import PRESETS, log_spectrogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


@dataclass(frozen=True)
class FrontEnd:
    """How a published system turns sound into a picture.

    Attributes:
        rate_hz: Its sampling rate.
        seconds: Length of what it hears: the middle of a longer sound, a shorter one over and over.
        window_samples: Length of a window.
        hop_samples: Distance between the starts of two windows.
        window: Its form as `scipy.signal.get_window` takes it.
        to_peak: Divide each sound by its largest sample.
        gain: By which samples in [-1, 1] are multiplied.
        padding: Half a window at both ends, of `zeros` or a reflection, so that windows are centred; or `none`.
        detrend: Subtract the mean of each window.
        fft_samples: Length of the Fourier transform; 0 for that of the window.
        scaling: One-sided power per hertz, power over the window's energy, plain power, or magnitude.
        mels: Number of mel bands; 0 keeps frequencies as they are.
        mel_scale: Which mel: `htk`, `slaney`, or `vggish`, the first with other digits.
        mel_hz: Lowest and highest frequency of the bands; 0 for half the rate.
        mel_area: Give all bands the same area instead of the same height.
        floor: Added before the natural logarithm; for decibels, what lies below counts as this.
        decibel: Factor of the decimal logarithm, 10 or 20; 0 for a natural one.
        range_db: What lies further below the loudest value is raised to that; 0 leaves it.
        divide: What the logarithm is divided by.
        time_first: Whether the network takes time down and frequency across.
    """

    rate_hz: int
    seconds: float
    window_samples: int
    hop_samples: int
    window: str | tuple[str, float] = "hann"
    to_peak: bool = False
    gain: float = 1.0
    padding: Literal["none", "zeros", "reflect"] = "none"
    detrend: bool = False
    fft_samples: int = 0
    scaling: Literal["density", "energy", "power", "magnitude"] = "power"
    mels: int = 0
    mel_scale: Literal["htk", "slaney", "vggish"] = "htk"
    mel_hz: tuple[float, float] = (0.0, 0.0)
    mel_area: bool = False
    floor: float = 1e-7
    decibel: float = 0.0
    range_db: float = 0.0
    divide: float = 1.0
    time_first: bool = False

    @property
    def samples(self) -> int:
        """N, the length it hears, in samples."""
        return round(self.seconds * self.rate_hz)


# scipy.signal.spectrogram(x, rate, nperseg=512, noverlap=274)
_EZ_VSL: Final = FrontEnd(
    *(22_050, 3.0, 512, 238, ("tukey", 0.25)), detrend=True, scaling="density", floor=1e-7, divide=12.0
)

FRONT_ENDS: Final[dict[str, FrontEnd]] = {
    "lvs": replace(_EZ_VSL, seconds=10.0),
    "ez_vsl": _EZ_VSL,  # also SLAVC, FNAC, NoPrior, AVGN
    "ots": replace(_EZ_VSL, rate_hz=48_000, seconds=1.0, gain=32_768.0),  # raw 16-bit values
    "mix_and_localize": FrontEnd(  # each source at RMS 0.1 and their mean: how scenes are mixed, not how they are heard
        *(16_000, 0.96, 160, 80),
        padding="reflect",
        mels=64,
        floor=1e-5,
        decibel=20.0,
        divide=100.0,
        time_first=True,
    ),
    "jsa": FrontEnd(16_000, 5.0, 512, 160, padding="reflect", divide=12.0),
    "dsol": FrontEnd(  # also DMC, simplified
        *(16_000, 1.0, 160, 80),
        padding="zeros",
        scaling="magnitude",
        mels=64,
        mel_scale="slaney",
        mel_area=True,
        floor=1e-10,
        decibel=10.0,
        range_db=80.0,
        time_first=True,
    ),
    "coarse_to_fine": FrontEnd(
        *(22_050, 10.0, 882, 441),
        to_peak=True,
        padding="zeros",
        mels=64,
        mel_scale="slaney",
        mel_area=True,
        floor=float(torch.finfo(torch.float64).eps),
        time_first=True,
    ),
    "ssl_tie": FrontEnd(
        22_050, 10.0, 512, 239, padding="reflect", scaling="energy", mels=257, floor=1e-10, decibel=10.0
    ),
    "dmc": FrontEnd(  # the original's, in Keras
        *(16_000, 1.0, 1280, 800),
        fft_samples=2048,
        scaling="magnitude",
        mels=64,
        mel_scale="vggish",
        mel_hz=(125.0, 7500.0),
        floor=0.01,
    ),
}
"""Front ends by the name of the system that published them."""


def check_front_end(name: str) -> None:
    """Refuse the name of a front end that does not exist.

    Raises:
        ConfigError: Neither a preset nor a published front end is called so.
    """
    if name not in PRESETS and name not in FRONT_ENDS:
        raise ConfigError(f"There is no spectrogram {name!r}.", f"Choose one of: {', '.join([*PRESETS, *FRONT_ENDS])}.")


def hear_as(waveform: Tensor, name: str) -> Tensor:
    """The spectrogram that a network takes, by the name of a preset or of a published front end.

    Args:
        waveform: Sound at 22 050 Hz, shape (..., N), nominally in [-1, 1]; N may be 0.
        name: Of `spectrogram.PRESETS` or `FRONT_ENDS`.

    Returns:
        Shape (..., 1, F, T), or (..., 1, T, F) for front ends that put time first; always finite.
    """
    check_front_end(name)
    if name in PRESETS:
        return log_spectrogram(waveform, name)
    form = FRONT_ENDS[name]
    samples = resample(finite(waveform), SAMPLE_RATE_HZ, form.rate_hz)
    picture = spectrogram_of(to_length(samples, form.samples), form)
    return (picture.transpose(-1, -2) if form.time_first else picture).unsqueeze(-3)


def to_length(waveform: Tensor, samples: int) -> Tensor:
    """The middle of a waveform (..., N), or the waveform over and over, shape (..., samples)."""
    length = waveform.shape[-1]
    if not length:
        return waveform.new_zeros(*waveform.shape[:-1], samples)
    if length < samples:
        waveform = waveform.repeat(*[1] * (waveform.ndim - 1), -(-samples // length))
        return waveform[..., :samples]
    start = (length - samples) // 2
    return waveform[..., start : start + samples]


def spectrogram_of(waveform: Tensor, form: FrontEnd) -> Tensor:
    """The spectrogram of waveforms (..., N) that have the front end's own rate, shape (..., F, T)."""
    samples = waveform * form.gain
    if form.to_peak:
        samples = samples / samples.abs().amax(-1, keepdim=True).clamp_min(1e-6)
    if form.padding != "none":
        margin = (form.fft_samples or form.window_samples) // 2
        mode = "reflect" if form.padding == "reflect" else "constant"
        samples = F.pad(samples.reshape(-1, 1, samples.shape[-1]), (margin, margin), mode=mode)
        samples = samples.reshape(*waveform.shape[:-1], -1)
    windows = samples.unfold(-1, form.window_samples, form.hop_samples)
    if form.detrend:
        windows = windows - windows.mean(-1, keepdim=True)
    weights = _window(form).to(windows)
    spectra: Tensor = torch.fft.rfft(windows * weights, n=form.fft_samples or None)
    strength = spectra.abs() if form.scaling == "magnitude" else spectra.abs().square()
    if form.scaling in ("density", "energy"):
        strength = strength / weights.square().sum()
    if form.scaling == "density":
        doubling = strength.new_full((strength.shape[-1],), 2.0)
        doubling[0] = doubling[-1] = 1.0  # constant and Nyquist have no mirror image
        strength = strength * doubling / form.rate_hz
    if form.mels:
        strength = strength @ _bands(form).to(strength)
    return _logarithm(strength, form).transpose(-1, -2)


def _logarithm(strength: Tensor, form: FrontEnd) -> Tensor:
    if not form.decibel:
        return (strength + form.floor).log() / form.divide
    decibels = form.decibel * strength.clamp_min(form.floor).log10()
    if form.range_db:
        decibels = decibels.maximum(decibels.amax((-2, -1), keepdim=True) - form.range_db)
    return decibels / form.divide


@lru_cache
@torch.inference_mode(False)  # kept for later calls, which may train
def _window(form: FrontEnd) -> Tensor:
    """In single precision, and Hann's with torch's own last digit, as in the released code."""
    if form.window == "hann":
        return torch.hann_window(form.window_samples)
    from scipy.signal import get_window

    return torch.from_numpy(get_window(form.window, form.window_samples)).float()


@lru_cache
@torch.inference_mode(False)
def _bands(form: FrontEnd) -> Tensor:
    """Triangles that overlap by half, equally wide in mel, shape (frequencies, mels), float64.

    VGGish's are straight in mel, the others' in hertz.
    """
    to_mel, to_hertz = _MELS[form.mel_scale]
    length = form.fft_samples or form.window_samples
    hertz = torch.linspace(0, form.rate_hz / 2, length // 2 + 1, dtype=torch.float64)
    edges = form.mel_hz[0], form.mel_hz[1] or form.rate_hz / 2
    low, high = (to_mel(torch.tensor(edge, dtype=torch.float64)) for edge in edges)
    mels = low + (high - low) * torch.linspace(0, 1, form.mels + 2, dtype=torch.float64)
    corners, places = (mels, to_mel(hertz)) if form.mel_scale == "vggish" else (to_hertz(mels), hertz)
    bands = torch.from_numpy(triangles(places.numpy(), corners.numpy()))
    if form.mel_scale == "vggish":
        bands[0] = 0  # the constant is left out
    return bands * 2 / (corners[2:] - corners[:-2]) if form.mel_area else bands


def _slaney(hertz: Tensor) -> Tensor:
    """Linear up to 1000 Hz, logarithmic above (Slaney's Auditory Toolbox)."""
    return torch.where(hertz < 1000, hertz * 3 / 200, 15 + 27 * (hertz.clamp_min(1) / 1000).log() / math.log(6.4))


def _from_slaney(mels: Tensor) -> Tensor:
    return torch.where(mels < 15, mels * 200 / 3, 1000 * torch.exp((mels - 15) * math.log(6.4) / 27))


_MELS: Final[dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]]] = {
    "htk": (lambda f: 2595 * (1 + f / 700).log10(), lambda m: 700 * (10 ** (m / 2595) - 1)),
    "slaney": (_slaney, _from_slaney),
    "vggish": (lambda f: 1127 * (1 + f / 700).log(), lambda m: 700 * ((m / 1127).exp() - 1)),
}
