"""The made-up world's sounds: one synthesiser for each kind of object.

Every draw differs in pitch, rhythm, loudness contour and timbre; what stays is what a log-spectrogram shows of a kind:
harmonic or not, struck or sustained, steady or gliding, low or high. No sample is computed in a Python loop: decaying
partials are one matrix product, and periodic sounds are read from a table of one cycle.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

import numpy as np

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
    return (sound / max(float(np.sqrt(np.mean(sound**2))), 1e-9)).astype(np.float32)


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
    ring: Array = (coarse.real @ fine.real - coarse.imag @ fine.imag).astype(np.float32).ravel()[:samples]
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
    """A random curve of straight pieces, `rate_hz` of them a second, with values within [-1, 1], shape (samples,)."""
    step = max(1, int(SAMPLE_RATE_HZ / rate_hz))
    knots = 2 * rng.random(samples // step + 2, dtype=np.float32) - 1
    ramp = np.arange(step, dtype=np.float32) / np.float32(step)
    return (knots[:-1, None] + np.diff(knots)[:, None] * ramp).ravel()[:samples]


def _noise(rng: Generator, samples: int) -> Array:
    """White noise with variance 1, shape (samples,); uniform, which is quicker than normal and sounds the same."""
    return (rng.random(samples, dtype=np.float32) - np.float32(0.5)) * np.float32(12**0.5)


def _onsets(rng: Generator, samples: int, per_second: float, jitter: float = 0.1) -> list[int]:
    """Where events begin: a pulse that is late by up to `jitter` periods; the first within half a period."""
    periods = samples / SAMPLE_RATE_HZ * per_second
    times = np.arange(rng.uniform(0, min(0.5, periods / 2)), periods)
    times[1:] += rng.uniform(0, jitter, len(times) - 1)
    return [int(time / periods * samples) for time in times if time < periods]


def _silence(samples: int) -> Array:
    return np.zeros(samples, dtype=np.float32)


def _fraction(turns: Array) -> Array:
    return turns - np.floor(turns)  # much quicker than turns % 1


def _add(track: Array, start: int, sound: Array, level: float) -> None:
    """Add a sound to a track at a level, cutting what would go over the end."""
    place = track[start : start + len(sound)]
    place += np.float32(level) * sound[: len(place)]


def _guitar(rng: Generator, samples: int) -> Array:
    track, root = _silence(samples), rng.uniform(100, 200)
    brightness, pick = rng.uniform(0.75, 1.1), rng.uniform(0.12, 0.3)
    notes = []
    for step in rng.choice([0, 3, 5, 7, 10, 12, 15], 4, replace=False):
        partials = _harmonics(root * 2 ** (step / 12), 5000)[:24]
        order = np.arange(1, len(partials) + 1)
        level = np.abs(np.sin(np.pi * order * pick)) / order**brightness
        notes.append(_ring(partials, level, 0.45 / order**0.7, _samples(0.9), rng))
    for start in _onsets(rng, samples, rng.uniform(2.5, 5)):
        _add(track, start, notes[rng.integers(4)], rng.uniform(0.6, 1))
    return track


def _bell(rng: Generator, samples: int) -> Array:
    track, pitch = _silence(samples), rng.uniform(380, 800)
    ratios = np.array([0.5, 1, 1.19, 1.56, 2, 2.66, 3.01, 4.17, 5.43, 6.8]) * rng.uniform(0.99, 1.01, 10)
    level = np.array([0.4, 1, 0.7, 0.6, 1, 0.6, 0.5, 0.5, 0.35, 0.25]) * rng.uniform(0.5, 1.2, 10)
    strike = _ring(pitch * ratios, level, rng.uniform(0.7, 1.3) / ratios**0.6, samples, rng)
    for start in _onsets(rng, samples, rng.uniform(1.2, 2.2)):
        _add(track, start, strike, rng.uniform(0.6, 1))
    return track


def _drum(rng: Generator, samples: int) -> Array:
    track, pitch, length = _silence(samples), rng.uniform(70, 130), _samples(0.3)
    time = _time(length)
    thump = np.sin(2 * np.pi * pitch * (time + 0.02 * (1 - np.exp(-40 * time)))) * np.exp(-10 * time)
    thump += _ring(np.array([1.59, 2.14, 2.3, 2.65]) * pitch, np.full(4, 0.35), np.full(4, 0.06), length, rng)
    snare = rng.uniform(0.3, 0.7) * np.exp(-time / rng.uniform(0.03, 0.06))
    for start in _onsets(rng, samples, rng.uniform(3, 6), 0.05):
        _add(track, start, thump + snare * _noise(rng, length), rng.choice([0.45, 0.7, 1.0]))
    return track


def _siren(rng: Generator, samples: int) -> Array:
    low, high = rng.uniform(450, 700), rng.uniform(1100, 1600)
    turn = _time(samples) * rng.uniform(0.35, 1.6) + rng.random()
    sweep = 2 * np.abs(_fraction(turn) - 0.5) if rng.random() < 0.5 else 0.5 - 0.5 * np.cos(2 * np.pi * turn)
    level = np.array([1, 0.15, 0.5, 0.1, 0.25]) * rng.uniform(0.6, 1.3, 5)
    return _play(_cycle(level), low * np.exp2(log2(high / low) * sweep)) * (1 + 0.2 * _wander(rng, samples, 2))


def _car(rng: Generator, samples: int) -> Array:
    idle = rng.uniform(24, 42)
    frequency = idle * (1 + rng.uniform(0.1, 0.5) * (1 + _wander(rng, samples, 1)))
    order = np.arange(1, 31)
    body = _formants(order * idle, np.array([90.0, 260, 600]), np.array([60.0, 90, 160]), np.array([1, 0.7, 0.35]))
    firing = np.where(order % rng.integers(2, 5) == 0, 1.6, 0.7) * rng.uniform(0.5, 1, 30)
    engine = _play(_cycle(body * firing, rng), frequency)
    road = _wander(rng, samples, 1000)
    sound: Array = engine / engine.std() + rng.uniform(0.4, 0.9) * road
    return sound


def _bird(rng: Generator, samples: int) -> Array:
    track, home = _silence(samples), rng.uniform(2600, 4600)
    tweet, warble = _cycle(np.ones(1)), rng.uniform(0, 0.06)
    song = []
    for _ in range(3):
        length = _samples(rng.uniform(0.05, 0.14))
        time = np.linspace(0, 1, length, dtype=np.float32)
        bend = np.exp2(rng.uniform(-0.35, 0.35) * time) * (1 + warble * np.sin(2 * np.pi * 30 * _time(length)))
        song.append(_play(tweet, home * rng.uniform(0.85, 1.2) * bend) * np.sin(np.pi * time))
    for start in _onsets(rng, samples, rng.uniform(1.4, 2.4)):
        at = start
        for chirp in song * int(rng.integers(1, 3)):
            _add(track, at, chirp, rng.uniform(0.6, 1))
            at += len(chirp) + _samples(0.03)
    return track


def _kettle(rng: Generator, samples: int) -> Array:
    pitch = rng.uniform(1700, 2900) * (1 + 0.02 * _wander(rng, samples, 3))
    pitch = pitch * (1 + rng.uniform(0.002, 0.012) * np.sin(2 * np.pi * rng.uniform(5, 9) * _time(samples)))
    level = np.array([1, rng.uniform(0.15, 0.4), rng.uniform(0.05, 0.2)])
    breath = rng.uniform(0.06, 0.14) * np.diff(_noise(rng, samples), prepend=np.float32(0))
    sound: Array = _play(_cycle(level), pitch) * (1 + 0.25 * _wander(rng, samples, 9)) + breath
    return sound


_VOWELS = np.array([[730, 1090, 2440], [270, 2290, 3010], [300, 870, 2240], [530, 1840, 2480], [570, 840, 2410.0]])


def _face(rng: Generator, samples: int) -> Array:
    track, pitch, tract = _silence(samples), rng.uniform(95, 230), rng.uniform(0.92, 1.15)
    rate = rng.uniform(3, 4.6)
    for start in _onsets(rng, samples, rate, 0.25):
        if track.any() and rng.random() < 0.12:  # a breath between phrases
            continue
        length = _samples(rng.uniform(0.55, 0.95) / rate)
        fundamental = pitch * rng.uniform(0.85, 1.2)
        partials = _harmonics(fundamental, 5000)
        vowel = _VOWELS[rng.integers(5)] * tract
        level = _formants(partials, vowel, np.array([90.0, 110, 150]), np.array([1, 0.6, 0.35])) / partials**0.3
        contour = fundamental * np.exp2(rng.uniform(-0.25, 0.15) * np.linspace(0, 1, length, dtype=np.float32))
        _add(track, start, _play(_cycle(level, rng), contour) * _swell(length, 0.03, 0.06), rng.uniform(0.6, 1))
        if rng.random() < 0.35:
            hiss = np.diff(_noise(rng, _samples(0.07))) * _swell(_samples(0.07) - 1, 0.03, 0.03)
            _add(track, max(0, start - len(hiss)), hiss, 0.05)
    return track


def _clock(rng: Generator, samples: int) -> Array:
    track, case = _silence(samples), rng.uniform(1500, 3000)
    decay = np.array([1, 0.8, 0.6, 0.5, 0.4]) * rng.uniform(0.024, 0.045)
    strokes = []
    for tone in (1.0, rng.uniform(0.75, 0.9)):  # tick, tock
        level = np.array([1, 0.8, 0.7, 0.5, 0.4]) * rng.uniform(0.8, 1.2, 5)
        strokes.append(_ring(case * tone * np.array([1, 1.47, 2.09, 2.83, 3.4]), level, decay, _samples(0.15), rng))
    for count, start in enumerate(_onsets(rng, samples, rng.uniform(3.8, 6.3), 0.02)):
        _add(track, start, strokes[count % 2], rng.uniform(0.85, 1))
        _add(track, start + _samples(0.025), strokes[count % 2], 0.4)
    return track


def _trumpet(rng: Generator, samples: int) -> Array:
    track, root = _silence(samples), rng.uniform(220, 360)
    rate, vibrato = rng.uniform(1.2, 2.6), rng.uniform(0.003, 0.012)
    for start in _onsets(rng, samples, rate, 0.15):
        pitch = root * 2 ** (rng.choice([0, 2, 4, 5, 7, 9, 12]) / 12)
        length = _samples(rng.uniform(0.8, 1) / rate)
        partials = _harmonics(pitch, 8000)
        bright = _formants(partials, np.array([1200.0]), np.array([1100.0]), np.array([1.0]))
        dull = bright * np.exp(-(partials - pitch) / 600)
        frequency = pitch * (1 + vibrato * np.sin(2 * np.pi * 5.5 * _time(length)))
        swell = _swell(length, 0.1, 0.1)
        note = (1 - swell) * _play(_cycle(dull), frequency) + swell * _play(_cycle(bright), frequency)
        _add(track, start, note * swell, rng.uniform(0.7, 1))
    return track


def _cloud(rng: Generator, samples: int) -> Array:
    noise = _noise(rng, samples)
    rain = noise - rng.uniform(-0.6, 0.6) * np.roll(noise, 1)
    track: Array = rain * (1 + 0.3 * _wander(rng, samples, 3))
    drop = _ring(rng.uniform(1500, 5000, 3), np.ones(3), np.full(3, 0.002), _samples(0.015), rng)
    for start in _onsets(rng, samples, rng.uniform(10, 30), 1.0):
        _add(track, start, drop, rng.uniform(0.5, 2.5))
    return track


def _phone(rng: Generator, samples: int) -> Array:
    frequencies = rng.uniform(900, 1500) * np.array([1, 1.25, 2.4, 3.1, 4.3])
    level = np.array([1, 0.9, 0.5, 0.4, 0.25]) * rng.uniform(0.7, 1.2, 5)
    metal = _ring(frequencies, level, np.full(5, 1e6), samples, rng)
    time, on, pause = _time(samples), rng.uniform(0.45, 0.8), rng.uniform(0.2, 0.4)
    cadence = _fraction((time + rng.uniform(0, on)) / (on + pause)) * (on + pause)
    gate = np.clip(np.minimum(cadence / 0.01, (on - cadence) / 0.06 + 1), 0, 1)
    sound: Array = metal * gate * (0.15 + np.exp(-3 * _fraction(time * rng.uniform(18, 28))))
    return sound


def _bee(rng: Generator, samples: int) -> Array:
    pitch = rng.uniform(170, 260)
    frequency = pitch * (1 + 0.09 * _wander(rng, samples, 6) + 0.01 * _wander(rng, samples, 40))
    order = np.arange(1, int(4500 / pitch))
    level = np.exp(-(order * pitch) / 1500) * rng.uniform(0.5, 1, len(order))
    level[0] *= 0.6
    return _play(_cycle(level, rng), frequency) * (1 + 0.45 * _wander(rng, samples, 7))


def _frog(rng: Generator, samples: int) -> Array:
    track, pulse, mouth = _silence(samples), rng.uniform(38, 65), rng.uniform(650, 1150)
    partials = _harmonics(pulse, 4000)
    centres, widths = np.array([mouth, 2.1 * mouth]), np.array([160.0, 260])
    cycle = _cycle(_formants(partials, centres, widths, np.array([1, 0.35])), rng)
    rate = rng.uniform(1.5, 3)
    for start in _onsets(rng, samples, rate, 0.2):
        length = _samples(rng.uniform(0.5, 0.7) / rate)
        glide = pulse * np.exp2(np.linspace(0, rng.uniform(0.2, 0.6), length, dtype=np.float32))
        _add(track, start, _play(cycle, glide) * _swell(length, 0.05, 0.05), rng.uniform(0.7, 1))
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
