"""Sound that comes in pieces, against the whole of it resampled at once by an independent resampler."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import resample_poly

from soundwhere.errors import MediaError
from soundwhere.inference.live import RollingSound

N = 66_150


def wave(rate_hz: int, seconds: float) -> np.ndarray:
    time_s = np.arange(round(rate_hz * seconds)) / rate_hz
    return (0.3 * np.sin(2 * np.pi * 330 * time_s) + 0.1 * np.sin(2 * np.pi * 1200 * time_s)).astype(np.float32)


@pytest.mark.parametrize("rate_hz", [22_050, 44_100, 48_000, 16_000])
def test_pieces_of_any_length_are_the_last_three_seconds_of_the_whole(rate_hz: int) -> None:
    whole, rng, sound, start = wave(rate_hz, 5.0), np.random.default_rng(0), RollingSound(), 0
    while start < len(whole):
        step = int(rng.integers(1, 5000))
        sound.push(whole[start : start + step], rate_hz)
        start += step
    expected = resample_poly(whole, 22_050, rate_hz).astype(np.float32)
    late = max(
        range(80), key=lambda lag: float(sound.latest[200:-200] @ expected[len(expected) - N - lag :][200 : N - 200])
    )
    assert late < 60  # samples that the filter still holds: 2.7 ms
    inner = slice(500, N - 500)
    assert np.abs(sound.latest[inner] - expected[len(expected) - N - late :][:N][inner]).max() < 0.02
    assert sound.latest.shape == (N,)
    assert sound.latest.dtype == np.float32


def test_before_the_beginning_there_is_silence_and_channels_are_averaged() -> None:
    sound = RollingSound()
    left = wave(22_050, 1.0)
    sound.push(np.stack([left, -left + 0.2], axis=1), 22_050)
    assert (sound.latest[: N - 22_050] == 0).all()
    assert np.allclose(sound.latest[N - 22_050 :], 0.1)


def test_what_is_not_finite_is_silence_and_nothing_is_nothing() -> None:
    sound = RollingSound()
    sound.push(np.array([np.nan, np.inf, -np.inf, 0.5], np.float64), 22_050)
    assert sound.latest[-4:].tolist() == [0, 0, 0, 0.5]
    before = sound.latest
    sound.push(np.zeros(0, np.float32), 48_000)
    assert sound.latest is before


def test_a_rate_that_changes_goes_on() -> None:
    sound = RollingSound()
    sound.push(wave(48_000, 2.0), 48_000)
    sound.push(wave(44_100, 2.0), 44_100)
    assert np.sqrt(np.mean(sound.latest**2)) == pytest.approx(np.sqrt(0.05), rel=0.05)


@pytest.mark.parametrize(
    ("samples", "rate_hz"),
    [(np.zeros(5, np.int16), 48_000), (np.zeros((2, 2, 2)), 48_000), (np.zeros(5), 0), (np.float64(1), 48_000)],
)
def test_what_is_not_sound_is_refused(samples: np.ndarray, rate_hz: int) -> None:
    with pytest.raises(MediaError, match="is not sound"):
        RollingSound().push(samples, rate_hz)
