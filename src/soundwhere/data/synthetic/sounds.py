"""The made-up world's sounds: one synthesiser for each kind of object.

Every draw differs in pitch, rhythm, loudness contour and timbre; what stays is what a log-spectrogram shows of a kind:
harmonic or not, struck or sustained, steady or gliding, low or high. No sample is computed in a Python loop: decaying
partials are one matrix product, and periodic sounds are read from a table of one cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.signal import lfilter

from soundwhere.constants import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

    from soundwhere.types import Waveform

    Array = NDArray[np.floating]

_TABLE = 2048  # samples of one stored cycle
_BLOCK = 128  # inner length of the matrix product in `_ring`


def synthesise(kind: str, rng: Generator, samples: int) -> Waveform:
    """Make the sound of a kind of object.

    Args:
        kind: One of `SOUNDS`.
        rng: Decides pitch, rhythm and timbre.
        samples: Length N at 22 050 Hz.

    Returns:
        Shape (N,), float32, at an RMS of 1.
    """
    sound = SOUNDS[kind](rng, samples)
    sound = sound - sound.mean()
    scaled: Waveform = (sound / max(float(np.sqrt(np.mean(sound**2))), 1e-9)).astype(np.float32)
    return scaled


def _time(samples: int) -> Array:
    return np.arange(samples, dtype=np.float32) / np.float32(SAMPLE_RATE_HZ)


def _samples(seconds: float) -> int:
    return max(1, round(seconds * SAMPLE_RATE_HZ))


def _ring(frequencies: Array, amplitudes: Array, decays_s: Array, samples: int, rng: Generator) -> Array:
    """A sum of decaying partials, shape (samples,), starting at random phases.

    With z = exp(rate), sample 128 i + j of a partial is z^(128 i) z^j: all partials together are one matrix product.
    """
    audible = frequencies < 0.48 * SAMPLE_RATE_HZ
    rate = (-1 / decays_s + 2j * np.pi * frequencies)[audible] / SAMPLE_RATE_HZ
    start = amplitudes[audible] * np.exp(2j * np.pi * rng.random(audible.sum()))
    fine = np.exp(rate[:, None] * np.arange(_BLOCK))
    coarse = start * np.exp(rate * (_BLOCK * np.arange(-(-samples // _BLOCK)))[:, None])
    ring: Array = (coarse.real @ fine.real - coarse.imag @ fine.imag).ravel()[:samples]
    return ring


def _cycle(amplitudes: Array, rng: Generator | None = None) -> Array:
    """One cycle with these harmonics, shape (2048,), float32; a pulse, or spread over the cycle if `rng` is given."""
    spectrum = np.zeros(_TABLE // 2 + 1, dtype=np.complex128)
    phases = np.exp(2j * np.pi * rng.random(len(amplitudes))) if rng else 1.0
    spectrum[1 : len(amplitudes) + 1] = amplitudes * phases
    cycle: Array = np.fft.irfft(spectrum).astype(np.float32)
    return cycle * np.float32(_TABLE / 2)


def _play(cycle: Array, frequency: Array) -> Array:
    """Read a cycle at a changing frequency in hertz, shape (samples,)."""
    phase = np.cumsum(frequency * (_TABLE / SAMPLE_RATE_HZ), dtype=np.float64)
    played: Array = cycle[phase.astype(np.int64) & (_TABLE - 1)]
    return played


def _harmonics(fundamental: float, highest: float) -> Array:
    """Frequencies of all harmonics up to `highest` hertz."""
    return fundamental * np.arange(1, max(2, int(min(highest, 0.45 * SAMPLE_RATE_HZ) / fundamental) + 1))


def _formants(frequencies: Array, centres: Array, widths: Array, levels: Array) -> Array:
    """Amplitude of a vocal tract with these resonances at `frequencies`."""
    distance = (frequencies[:, None] - centres) / widths
    amplitude: Array = (levels / (1 + distance**2)).sum(-1)
    return amplitude


def _swell(samples: int, attack_s: float, release_s: float) -> Array:
    """An envelope that rises linearly, holds at 1 and falls linearly, shape (samples,)."""
    time = _time(samples)
    envelope: Array = np.minimum(1, np.minimum(time / attack_s, (time[-1] - time) / release_s))
    return envelope


def _wander(rng: Generator, samples: int, rate_hz: float) -> Array:
    """A smooth random curve with values mostly within [-1, 1] and about `rate_hz` bends a second, shape (samples,)."""
    knots = rng.uniform(-1, 1, max(2, int(samples / SAMPLE_RATE_HZ * rate_hz) + 2))
    curve: Array = np.interp(np.linspace(0, len(knots) - 1, samples), np.arange(len(knots)), knots).astype(np.float32)
    return curve


def _onsets(rng: Generator, samples: int, per_second: float, jitter: float = 0.1) -> list[int]:
    """Where events begin: a steady pulse with some irregularity, the first within the first period."""
    period = SAMPLE_RATE_HZ / per_second
    grid = np.arange(rng.uniform(0, 0.5), samples / period) + 0.5
    times = (grid - 0.5 + rng.uniform(0, jitter, len(grid))) * period
    return [int(time) for time in times if time < samples]


def _add(track: Array, start: int, sound: Array) -> None:
    """Add a sound to a track, cutting what would go over the end."""
    place = track[start : start + len(sound)]
    place += sound[: len(place)]


def _guitar(rng: Generator, samples: int) -> Array:
    track, root = np.zeros(samples), rng.uniform(100, 200)
    steps = rng.choice([0, 3, 5, 7, 10, 12, 15], 12)
    brightness, pick = rng.uniform(0.75, 1.1), rng.uniform(0.12, 0.3)
    for count, start in enumerate(_onsets(rng, samples, rng.uniform(2.5, 5))):
        pitch = root * 2 ** (steps[count % 12] / 12)
        partials = _harmonics(pitch, 5000)[:24]
        order = np.arange(1, len(partials) + 1)
        level = np.abs(np.sin(np.pi * order * pick)) / order**brightness * rng.uniform(0.6, 1)
        _add(track, start, _ring(partials, level, 0.45 / order**0.7, _samples(0.9), rng))
    return track


def _bell(rng: Generator, samples: int) -> Array:
    track, pitch = np.zeros(samples), rng.uniform(380, 800)
    ratios = np.array([0.5, 1, 1.19, 1.56, 2, 2.66, 3.01, 4.17, 5.43, 6.8]) * rng.uniform(0.99, 1.01, 10)
    level = np.array([0.4, 1, 0.7, 0.6, 1, 0.6, 0.5, 0.5, 0.35, 0.25]) * rng.uniform(0.5, 1.2, 10)
    decay = rng.uniform(0.7, 1.3) / ratios**0.6
    strikes = _onsets(rng, samples, rng.uniform(0.9, 1.8))
    for start in strikes:
        _add(track, start, rng.uniform(0.6, 1) * _ring(pitch * ratios, level, decay, samples - start, rng))
    return track


def _drum(rng: Generator, samples: int) -> Array:
    track, pitch, length = np.zeros(samples), rng.uniform(70, 130), _samples(0.3)
    modes, time = np.array([1.59, 2.14, 2.3, 2.65]) * pitch, _time(length)
    snare, tail = rng.uniform(0.3, 0.7), rng.uniform(0.03, 0.06)
    accents = rng.choice([0.45, 0.7, 1.0], 16)
    for count, start in enumerate(_onsets(rng, samples, rng.uniform(3, 6), 0.05)):
        thump = np.sin(2 * np.pi * pitch * (time + 0.02 * (1 - np.exp(-time * 40)))) * np.exp(-time / 0.1)
        skin = _ring(modes, np.full(4, 0.35), np.full(4, 0.06), length, rng)
        rattle = snare * rng.standard_normal(length, np.float32) * np.exp(-time / tail)
        _add(track, start, accents[count % 16] * (thump + skin + rattle))
    return track


def _siren(rng: Generator, samples: int) -> Array:
    low, high = rng.uniform(450, 700), rng.uniform(1100, 1600)
    turn = _time(samples) * rng.uniform(0.35, 1.6) + rng.random()
    triangle = 2 * np.abs(turn % 1 - 0.5)
    sweep = triangle if rng.random() < 0.5 else 0.5 - 0.5 * np.cos(2 * np.pi * turn)
    level = np.array([1, 0.15, 0.5, 0.1, 0.25]) * rng.uniform(0.6, 1.3, 5)
    return _play(_cycle(level), low * (high / low) ** sweep) * (1 + 0.2 * _wander(rng, samples, 2))


def _car(rng: Generator, samples: int) -> Array:
    idle = rng.uniform(24, 42)
    frequency = idle * (1 + rng.uniform(0.1, 0.5) * (1 + _wander(rng, samples, 1)))
    order = np.arange(1, 31)
    body = _formants(order * idle, np.array([90.0, 260, 600]), np.array([60.0, 90, 160]), np.array([1, 0.7, 0.35]))
    firing = np.where(order % rng.integers(2, 5) == 0, 1.6, 0.7) * rng.uniform(0.5, 1, 30)
    road = lfilter([0.06], [1, -0.94], rng.standard_normal(samples, np.float32))
    engine = _play(_cycle(body * firing, rng), frequency)
    sound: Array = engine / engine.std() + rng.uniform(0.5, 1) * road
    return sound


def _bird(rng: Generator, samples: int) -> Array:
    track, home = np.zeros(samples), rng.uniform(2600, 4600)
    song = [(rng.uniform(0.05, 0.14), rng.uniform(-0.35, 0.35), rng.uniform(0.85, 1.2)) for _ in range(3)]
    warble = rng.uniform(0, 0.06)
    for start in _onsets(rng, samples, rng.uniform(1.4, 2.4)):
        at = start
        for seconds, glide, pitch in song * int(rng.integers(1, 3)):
            time = np.linspace(0, 1, _samples(seconds), dtype=np.float32)
            bend = 2 ** (glide * time) * (1 + warble * np.sin(2 * np.pi * 30 * seconds * time))
            phase = 2 * np.pi * np.cumsum(home * pitch * bend, dtype=np.float64) / SAMPLE_RATE_HZ
            _add(track, at, np.sin(phase) * np.sin(np.pi * time) * rng.uniform(0.6, 1))
            at += _samples(seconds + 0.03)
    return track


def _kettle(rng: Generator, samples: int) -> Array:
    pitch = rng.uniform(1700, 2900) * (1 + 0.02 * _wander(rng, samples, 3))
    pitch = pitch * (1 + rng.uniform(0.002, 0.012) * np.sin(2 * np.pi * rng.uniform(5, 9) * _time(samples)))
    level = np.array([1, rng.uniform(0.15, 0.4), rng.uniform(0.05, 0.2)])
    breath = lfilter([1, -0.6], [1], rng.standard_normal(samples, np.float32))
    sound: Array = (
        _play(_cycle(level), pitch) * (1 + 0.25 * _wander(rng, samples, 9)) + rng.uniform(0.06, 0.14) * breath
    )
    return sound


_VOWELS = np.array([[730, 1090, 2440], [270, 2290, 3010], [300, 870, 2240], [530, 1840, 2480], [570, 840, 2410.0]])


def _face(rng: Generator, samples: int) -> Array:
    track, pitch, tract = np.zeros(samples), rng.uniform(95, 230), rng.uniform(0.92, 1.15)
    rate = rng.uniform(3, 4.6)
    for start in _onsets(rng, samples, rate, 0.25):
        if rng.random() < 0.12:  # a breath between phrases
            continue
        length = _samples(rng.uniform(0.55, 0.95) / rate)
        fundamental = pitch * rng.uniform(0.85, 1.2)
        partials = _harmonics(fundamental, 5000)
        vowel = _VOWELS[rng.integers(5)] * tract
        level = (
            _formants(partials, vowel, np.array([90.0, 110, 150]), np.array([1, 0.6, 0.35])) / (partials / 200) ** 0.3
        )
        contour = fundamental * 2 ** (rng.uniform(-0.25, 0.15) * np.linspace(0, 1, length, dtype=np.float32))
        _add(track, start, _play(_cycle(level, rng), contour) * _swell(length, 0.03, 0.06) * rng.uniform(0.6, 1))
        if rng.random() < 0.35:
            hiss = np.diff(rng.standard_normal(_samples(0.07), np.float32), prepend=0)
            _add(track, max(0, start - len(hiss)), 0.25 * hiss * np.hanning(len(hiss)))
    return track


def _clock(rng: Generator, samples: int) -> Array:
    track, case = np.zeros(samples), rng.uniform(1500, 3000)
    ratios, decay = np.array([1, 1.47, 2.09, 2.83, 3.4]), np.array([1, 0.8, 0.6, 0.5, 0.4]) * rng.uniform(0.018, 0.035)
    tones = (1.0, rng.uniform(0.75, 0.9))
    for count, start in enumerate(_onsets(rng, samples, rng.choice([4, 5, 6]) * rng.uniform(0.95, 1.05), 0.02)):
        level = np.array([1, 0.8, 0.7, 0.5, 0.4]) * rng.uniform(0.8, 1.2, 5)
        tick = _ring(case * tones[count % 2] * ratios, level, decay, _samples(0.15), rng)
        _add(track, start, tick)
        _add(track, start + _samples(0.025), 0.4 * tick)
    return track


def _trumpet(rng: Generator, samples: int) -> Array:
    track, root = np.zeros(samples), rng.uniform(220, 360)
    rate, vibrato = rng.uniform(1.2, 2.6), rng.uniform(0.003, 0.012)
    for start in _onsets(rng, samples, rate, 0.15):
        pitch = root * 2 ** (rng.choice([0, 2, 4, 5, 7, 9, 12]) / 12)
        length = _samples(rng.uniform(0.8, 1) / rate)
        partials = _harmonics(pitch, 8000)
        bright = _formants(partials, np.array([1200.0]), np.array([1100.0]), np.array([1.0]))
        frequency = pitch * (1 + vibrato * np.sin(2 * np.pi * 5.5 * _time(length)))
        dull = bright * np.exp(-(partials - pitch) / 600)
        swell = _swell(length, 0.1, 0.1)
        note = (1 - swell) * _play(_cycle(dull), frequency) + swell * _play(_cycle(bright), frequency)
        _add(track, start, note * swell * rng.uniform(0.7, 1))
    return track


def _cloud(rng: Generator, samples: int) -> Array:
    noise = rng.standard_normal(samples, np.float32)
    tilt = rng.uniform(0.2, 0.75)
    rain = lfilter([1 - tilt, -0.6 * (1 - tilt)], [1, -tilt], noise)
    rain = rain / rain.std() * (1 + 0.3 * _wander(rng, samples, 3))
    drops = np.zeros(samples, np.float32)
    count = int(samples / SAMPLE_RATE_HZ * rng.uniform(20, 60))
    drops[rng.integers(0, samples, count)] = rng.uniform(1, 6, count)
    sound: Array = rain + lfilter([1], [1, -1.2, 0.75], drops)
    return sound


def _phone(rng: Generator, samples: int) -> Array:
    pitch, hammer = rng.uniform(900, 1500), rng.uniform(18, 28)
    frequencies = pitch * np.array([1, 1.25, 2.4, 3.1, 4.3])
    level = np.array([1, 0.9, 0.5, 0.4, 0.25]) * rng.uniform(0.7, 1.2, 5)
    metal = _ring(frequencies, level, np.full(5, 1e6), samples, rng)
    time = _time(samples)
    on, pause = rng.uniform(0.45, 0.8), rng.uniform(0.2, 0.4)
    cadence = (time + rng.uniform(0, on)) % (on + pause)
    gate = np.clip(np.minimum(cadence / 0.01, (on - cadence) / 0.06 + 1), 0, 1)
    sound: Array = metal * gate * (0.15 + np.exp(-3 * ((time * hammer) % 1)))
    return sound


def _bee(rng: Generator, samples: int) -> Array:
    pitch = rng.uniform(170, 260)
    frequency = pitch * (1 + 0.09 * _wander(rng, samples, 6) + 0.01 * _wander(rng, samples, 40))
    order = np.arange(1, int(4500 / pitch))
    level = np.exp(-(order * pitch) / 1500) * rng.uniform(0.5, 1, len(order))
    level[0] *= 0.6
    return _play(_cycle(level, rng), frequency) * (1 + 0.45 * _wander(rng, samples, 7))


def _frog(rng: Generator, samples: int) -> Array:
    track, pulse, mouth = np.zeros(samples), rng.uniform(38, 65), rng.uniform(650, 1150)
    partials = _harmonics(pulse, 4000)
    centres, widths = np.array([mouth, 2.1 * mouth]), np.array([160.0, 260])
    cycle = _cycle(_formants(partials, centres, widths, np.array([1, 0.35])))
    rate = rng.uniform(1.5, 3)
    for start in _onsets(rng, samples, rate, 0.2):
        length = _samples(rng.uniform(0.5, 0.7) / rate)
        glide = pulse * 2 ** np.linspace(0, rng.uniform(0.2, 0.6), length, dtype=np.float32)
        _add(track, start, _play(cycle, glide) * _swell(length, 0.05, 0.05) * rng.uniform(0.7, 1))
    return track


SOUNDS: dict[str, Callable[[Generator, int], Array]] = {
    "guitar": _guitar,
    "bell": _bell,
    "drum": _drum,
    "siren": _siren,
    "car": _car,
    "bird": _bird,
    "kettle": _kettle,
    "face": _face,
    "clock": _clock,
    "trumpet": _trumpet,
    "cloud": _cloud,
    "phone": _phone,
    "bee": _bee,
    "frog": _frog,
}
