"""Every effect does what it says, to each row by itself, and the same again from the same state."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import signal

from soundwhere.media import waveform_augmentation as effects
from soundwhere.media.waveform_augmentation import Augmentation, augment

RATE = 22_050


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tones(rows: int = 4, hertz: float = 1000.0, samples: int = RATE) -> torch.Tensor:
    return 0.1 * torch.sin(2 * torch.pi * hertz * torch.arange(samples) / RATE).expand(rows, -1)


def noise(rows: int = 4, samples: int = RATE, seed: int = 1) -> torch.Tensor:
    return 0.1 * torch.randn(rows, samples, generator=generator(seed))


def rms(waveform: torch.Tensor) -> torch.Tensor:
    return waveform.square().mean(-1).sqrt()


def test_same_state_same_sounds_and_nothing_global() -> None:
    before = torch.get_rng_state()
    first, again = (augment(noise(), Augmentation(), generator(3)) for _ in range(2))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert not torch.equal(first, augment(noise(), Augmentation(), generator(4)))
    assert torch.equal(before, torch.get_rng_state())


def test_a_run_goes_on_from_its_state() -> None:
    source = generator()
    augment(noise(), Augmentation(), source)
    state = source.get_state()
    expected = augment(noise(), Augmentation(), source)
    resumed = generator(99)
    resumed.set_state(state)
    torch.testing.assert_close(augment(noise(), Augmentation(), resumed), expected, rtol=0, atol=0)


def test_all_effects_keep_shape_and_level() -> None:
    changed = augment(noise(16), Augmentation(), generator())
    assert changed.shape == (16, RATE)
    assert changed.isfinite().all()
    decibels = 20 * torch.log10(rms(changed) / rms(noise(16)))
    assert (decibels.abs() <= 6.01).all()
    assert decibels.std() > 1


def test_without_effects_only_the_level_changes() -> None:
    shares = ("speed", "equaliser", "reverberation", "noise", "background", "clipping", "codec")
    settings = Augmentation(level_db=(0.0, 0.0), **dict.fromkeys(shares, 0.0))
    torch.testing.assert_close(augment(noise(), settings, generator()), noise())


def test_silence_stays_silent_but_for_nothing() -> None:
    settings = Augmentation(noise=1.0)
    assert not augment(torch.zeros(2, RATE), settings, generator()).any()


@pytest.mark.parametrize("share", ["speed", "equaliser", "reverberation", "noise", "background", "clipping", "codec"])
def test_every_share_reaches_its_effect(share: str) -> None:
    off = dict.fromkeys(("speed", "equaliser", "reverberation", "noise", "background", "clipping", "codec"), 0.0)
    settings = Augmentation(level_db=(0.0, 0.0), **{**off, share: 1.0})
    changed = augment(noise(), settings, generator())
    assert ((changed - noise()).abs().amax(1) > 1e-4).all()


def test_window_is_a_part_of_its_own_row() -> None:
    ramp = torch.arange(1000.0).expand(8, -1) + 1000 * torch.arange(8.0)[:, None]
    window = effects.random_window(ramp, 300, generator())
    assert (window.diff(dim=1) == 1).all()
    assert (window // 1000 == torch.arange(8.0)[:, None]).all()
    assert len(set(window[:, 0].remainder(1000).tolist())) > 1


def test_a_short_sound_begins_again() -> None:
    window = effects.random_window(torch.arange(5.0)[None], 12, generator())
    assert window[0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]


def test_speed_moves_the_pitch() -> None:
    changed = effects.change_speed(tones(16), 0.5, generator())
    peaks = torch.fft.rfft(changed).abs().argmax(1) / 1000  # one bin is a hertz
    assert (peaks >= 2**-0.51).all()
    assert (peaks <= 2**0.51).all()
    assert peaks.std() > 0.1


def test_a_room_rings_for_the_time_it_should() -> None:
    click = torch.zeros(1, 2 * RATE)
    click[0, 100] = 1
    heard = effects.reverberate(click, (0.8, 0.8), generator())[0].numpy()
    assert heard[100] == pytest.approx(1, abs=1e-4)
    assert np.abs(heard[:100]).max() < 1e-4
    tail = heard[100 + RATE // 20 : 100 + RATE * 6 // 10] ** 2
    energy = 10 * np.log10(np.convolve(tail, np.ones(1000) / 1000, "valid"))
    slope = np.polyfit(np.arange(len(energy)) / RATE, energy, 1)[0]
    assert slope == pytest.approx(-60 / 0.8, rel=0.1)


def test_reverberation_is_a_convolution() -> None:
    room = effects.reverberate(torch.eye(1, 3000), (0.05, 0.05), generator(5))
    sound = noise(1, 3000)
    heard = effects.reverberate(sound, (0.05, 0.05), generator(5))[0]
    np.testing.assert_allclose(heard, signal.convolve(sound[0].numpy(), room[0].numpy())[:3000], atol=1e-5)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_colours_of_noise(power: float) -> None:
    made = effects.coloured_noise(8 * RATE, torch.full((4, 1), power), generator())
    torch.testing.assert_close(rms(made), torch.ones(4))
    hertz, density = signal.welch(made.numpy(), RATE, nperseg=4096)
    inside = (hertz > 200) & (hertz < 8000)
    slope = np.polyfit(np.log(hertz[inside]), np.log(density.mean(0)[inside]), 1)[0]
    assert slope == pytest.approx(-power, abs=0.1)


def test_noise_lies_so_far_below() -> None:
    sound = tones()
    added = effects.add_noise(sound, (20.0, 20.0), generator()) - sound
    torch.testing.assert_close(20 * torch.log10(rms(sound) / rms(added)), torch.full((4,), 20.0), atol=1e-3, rtol=0)


def test_background_is_another_row() -> None:
    sounds = noise(3)
    added = effects.add_background(sounds, sounds.roll(1, 0), (-12.0, -12.0), generator()) - sounds
    expected = sounds.roll(1, 0) * (rms(sounds) / rms(sounds.roll(1, 0)))[:, None] * 10 ** (-12 / 20)
    torch.testing.assert_close(added, expected, atol=1e-6, rtol=1e-4)


def test_equaliser_is_smooth_and_bounded() -> None:
    click = torch.eye(1, RATE).expand(6, -1)
    response = 20 * torch.log10(torch.fft.rfft(effects.equalise(click, 12.0, generator())).abs())
    assert (response.abs() <= 12.1).all()
    assert response.std(1).min() > 1
    assert response.diff(dim=1).abs().max() < 1.5  # dB from one hertz to the next, even at 50 Hz


def test_overdrive_cuts_peaks_only() -> None:
    sound = noise()
    changed = effects.overdrive(sound, 12.0, generator())
    peaks, limits = sound.abs().amax(1), changed.abs().amax(1)
    assert (limits <= peaks + 1e-6).all()
    assert (limits >= peaks * 10 ** (-12 / 20) - 1e-6).all()
    untouched = sound.abs() < limits[:, None]
    torch.testing.assert_close(changed[untouched], sound[untouched])


def test_codec_takes_the_treble_and_bits() -> None:
    changed = effects.degrade(noise(), (3000.0, 3000.0), (16.0, 16.0), generator())
    spectrum = torch.fft.rfft(changed).abs().mean(0)  # one bin is a hertz
    assert spectrum[4000:].mean() < 0.02 * spectrum[500:2500].mean()
    coarse = effects.degrade(noise(), (9000.0, 9000.0), (4.0, 4.0), generator())
    assert all(len(row.unique()) <= 17 for row in coarse)


def test_a_single_sound_and_none_at_all() -> None:
    assert augment(noise(1), Augmentation(), generator()).shape == (1, RATE)
    assert augment(noise(0), Augmentation(), generator()).shape == (0, RATE)


def test_the_input_is_left_alone() -> None:
    sounds = noise()
    augment(sounds, Augmentation(), generator())
    torch.testing.assert_close(sounds, noise(), rtol=0, atol=0)
