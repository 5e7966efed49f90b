"""Sounds as other microphones, rooms and codecs would have them, so that no few hundred recordings are learnt by heart.

Every effect takes a batch of waveforms (B, N) and a generator, and changes each row by numbers of its own. What is
drawn depends on the generator's state and the shape alone, so that a run which goes on from its state goes on exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from soundwhere.constants import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from collections.abc import Callable

_LOWEST_HZ: Final = 50.0
_TINY: Final = 1e-8
_MU: Final = 255.0  # of the telephone's companding

Range = tuple[float, float]


@dataclass(frozen=True)
class Augmentation:
    """How often each effect is met (a share of the sounds), and how strong it is.

    Attributes:
        level_db: Range of the gain, always drawn.
        speed: Share whose speed and pitch change together.
        speed_octaves: By at most this much, up or down.
        equaliser: Share that is coloured.
        equaliser_db: Largest gain or loss of a band.
        reverberation: Share that stands in a room.
        reverberation_s: Range of the time in which the room's answer falls by 60 dB.
        noise: Share with noise, of a colour between white (power 0) and brown (power 2).
        noise_db: Range of the sound's level above the noise.
        background: Share with another sound of the batch far behind it.
        background_db: Range of that sound's level against the first one's.
        clipping: Share that is overdriven.
        clipping_db: At most so far below its peak is a sound cut off.
        codec: Share that passed a poor codec: no treble, few bits.
        codec_hz: Range of the highest frequency that is left.
        codec_bits: Range of the bits a sample has.
    """

    level_db: Range = (-6.0, 6.0)
    speed: float = 0.5
    speed_octaves: float = 0.25
    equaliser: float = 0.6
    equaliser_db: float = 12.0
    reverberation: float = 0.5
    reverberation_s: Range = (0.1, 1.2)
    noise: float = 0.5
    noise_db: Range = (5.0, 35.0)
    background: float = 0.3
    background_db: Range = (-24.0, -9.0)
    clipping: float = 0.2
    clipping_db: float = 15.0
    codec: float = 0.4
    codec_hz: Range = (2_500.0, 9_000.0)
    codec_bits: Range = (5.0, 10.0)


def augment(waveform: Tensor, settings: Augmentation, generator: torch.Generator) -> Tensor:
    """Change each of a batch of sounds (B, N) as it might have come from elsewhere; same shape, level apart from gain.

    The order is that of the world: the thing itself, its room, what else is there, the microphone, the codec.
    """
    loudness = _rms(waveform)
    waveform = waveform.clone()

    def meet(share: float, effect: Callable[[Tensor, Tensor], Tensor]) -> None:
        """Change the rows that meet an effect, given with the rows before them; the others cost nothing."""
        rows = torch.rand(len(waveform), generator=generator).lt(share).nonzero()[:, 0]
        if len(rows):
            waveform[rows] = effect(waveform[rows], waveform[rows - 1])

    meet(settings.speed, lambda sound, _: change_speed(sound, settings.speed_octaves, generator))
    meet(settings.reverberation, lambda sound, _: reverberate(sound, settings.reverberation_s, generator))
    meet(settings.background, lambda sound, other: add_background(sound, other, settings.background_db, generator))
    meet(settings.noise, lambda sound, _: add_noise(sound, settings.noise_db, generator))
    meet(settings.equaliser, lambda sound, _: equalise(sound, settings.equaliser_db, generator))
    meet(settings.clipping, lambda sound, _: overdrive(sound, settings.clipping_db, generator))
    meet(settings.codec, lambda sound, _: degrade(sound, settings.codec_hz, settings.codec_bits, generator))
    # an effect changes how a sound sounds, not how loud it is: levels are a matter of their own
    waveform = waveform * (loudness / _rms(waveform).clamp_min(_TINY))
    return waveform * _decibels(_uniform(len(waveform), settings.level_db, generator))


def random_window(waveform: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """A random part of each sound (B, N), shape (B, samples); one that is too short begins again."""
    starts = _uniform(len(waveform), (0, max(1, waveform.shape[1] - samples + 1)), generator).long()
    places = (starts + torch.arange(samples)) % waveform.shape[1]
    return waveform.gather(1, places)


def change_speed(waveform: Tensor, octaves: float, generator: torch.Generator) -> Tensor:
    """Play each sound faster or slower, by up to `octaves`; one that ends early begins again."""
    rate = torch.exp2(_uniform(len(waveform), (-octaves, octaves), generator).double())
    places = torch.arange(waveform.shape[1]) * rate  # in double: float32 cannot tell samples late in a clip apart
    before = places.floor()
    share = (places - before).to(waveform.dtype)
    index = before.long() % waveform.shape[1]
    following = (index + 1) % waveform.shape[1]
    return waveform.gather(1, index) * (1 - share) + waveform.gather(1, following) * share


def reverberate(waveform: Tensor, seconds: Range, generator: torch.Generator) -> Tensor:
    """Put each sound into a made room: the sound itself, then noise that dies away as a room's answer does."""
    length = round(seconds[1] * SAMPLE_RATE_HZ)
    rows, samples = waveform.shape
    decay_s = _uniform(rows, seconds, generator)
    wet = _decibels(_uniform(rows, (-15.0, 3.0), generator))
    gap = _uniform(rows, (0.001, 0.02), generator) * SAMPLE_RATE_HZ
    time = torch.arange(length)
    fall = torch.exp(-math.log(1000) * time / (decay_s * SAMPLE_RATE_HZ))
    answer = torch.randn(rows, length, generator=generator) * fall
    answer = answer * (time > gap)
    answer = wet * answer / answer.square().sum(1, keepdim=True).sqrt().clamp_min(_TINY)
    answer[:, 0] = 1
    size = samples + length
    echoed: Tensor = torch.fft.irfft(torch.fft.rfft(waveform, size) * torch.fft.rfft(answer, size), size)
    return echoed[:, :samples]


def add_background(waveform: Tensor, others: Tensor, level_db: Range, generator: torch.Generator) -> Tensor:
    """Add to each sound another one of the same shape, some way behind it."""
    return _add(waveform, others, _uniform(len(waveform), level_db, generator))


def add_noise(waveform: Tensor, above_db: Range, generator: torch.Generator) -> Tensor:
    """Add noise of a random colour, so that each sound lies `above_db` above it."""
    noise = coloured_noise(waveform.shape[1], _uniform(len(waveform), (0, 2), generator), generator)
    return _add(waveform, noise, -_uniform(len(waveform), above_db, generator))


def coloured_noise(samples: int, power: Tensor, generator: torch.Generator) -> Tensor:
    """Noise at RMS 1 whose density falls as 1 / frequency ** power: 0 is white, 1 pink, 2 brown.

    Args:
        samples: N.
        power: One for each row, shape (B, 1).
        generator: Draws the noise.

    Returns:
        Shape (B, N), float32.
    """
    spectrum = torch.fft.rfft(torch.randn(len(power), samples, generator=generator))
    frequency = torch.arange(spectrum.shape[1]).clamp_min(1)
    noise: Tensor = torch.fft.irfft(spectrum * frequency ** (-power / 2), samples)
    return noise / _rms(noise).clamp_min(_TINY)


def equalise(waveform: Tensor, largest_db: float, generator: torch.Generator, bands: int = 8) -> Tensor:
    """Colour each sound: gains drawn for bands that are equally wide to the ear, joined smoothly."""
    rows, samples = waveform.shape
    gains = _uniform(rows * bands, (-largest_db, largest_db), generator).reshape(rows, bands)
    frequency = torch.arange(samples // 2 + 1) * (SAMPLE_RATE_HZ / samples)
    octave = torch.log2(frequency.clamp_min(_LOWEST_HZ) / _LOWEST_HZ)
    place = octave / octave[-1] * (bands - 1)
    lower = place.floor().long().clamp_max(bands - 2)
    share = place - lower
    share = share * share * (3 - 2 * share)  # no corners where bands meet
    curve = gains[:, lower] * (1 - share) + gains[:, lower + 1] * share
    coloured: Tensor = torch.fft.irfft(torch.fft.rfft(waveform) * _decibels(curve), samples)
    return coloured


def overdrive(waveform: Tensor, deepest_db: float, generator: torch.Generator) -> Tensor:
    """Cut each sound off at up to `deepest_db` below its peak."""
    limit = waveform.abs().amax(1, keepdim=True) * _decibels(_uniform(len(waveform), (-deepest_db, 0.0), generator))
    return waveform.clamp(-limit, limit)


def degrade(waveform: Tensor, highest_hz: Range, bits: Range, generator: torch.Generator) -> Tensor:
    """What a poor codec leaves: frequencies up to a highest one, in samples of few bits, companded as a telephone's."""
    rows, samples = waveform.shape
    cut = _uniform(rows, highest_hz, generator)
    frequency = torch.arange(samples // 2 + 1) * (SAMPLE_RATE_HZ / samples)
    dull: Tensor = torch.fft.irfft(torch.fft.rfft(waveform) * torch.sigmoid((cut - frequency) / 100), samples)
    peak = dull.abs().amax(1, keepdim=True).clamp_min(_TINY)
    steps = torch.exp2(_uniform(rows, bits, generator) - 1)
    companded = torch.log1p(_MU * (dull / peak).abs()) / math.log1p(_MU)
    coarse = (companded * steps).round() / steps
    return dull.sign() * torch.expm1(coarse * math.log1p(_MU)) / _MU * peak


def _add(waveform: Tensor, other: Tensor, level_db: Tensor) -> Tensor:
    """A sound and another, scaled to a level against the first one's."""
    return waveform + other * (_rms(waveform) * _decibels(level_db) / _rms(other).clamp_min(_TINY))


def _rms(waveform: Tensor) -> Tensor:
    return waveform.square().mean(1, keepdim=True).sqrt()


def _decibels(gain: Tensor) -> Tensor:
    return torch.exp(gain * (math.log(10) / 20))


def _uniform(rows: int, limits: Range, generator: torch.Generator) -> Tensor:
    """One number for each row, shape (rows, 1)."""
    return torch.rand(rows, 1, generator=generator) * (limits[1] - limits[0]) + limits[0]
