"""YAMNet's front end against numpy, window by window."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal

from soundwhere.media.log_mel import log_mel, mel_triangles, resample


def numpy_reference(waveform: np.ndarray) -> np.ndarray:
    """From 16 kHz to (64, T): one window and one triangle at a time."""
    frames = 1 + (len(waveform) - 400) // 160
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    magnitudes = np.stack([np.abs(np.fft.rfft(waveform[160 * t : 160 * t + 400] * hann, 512)) for t in range(frames)])
    mel = 1127 * np.log(1 + np.arange(257) * 16_000 / 512 / 700)
    corners = np.linspace(1127 * np.log(1 + 125 / 700), 1127 * np.log(1 + 7500 / 700), 66)
    bands = np.stack([np.interp(mel, corners[k : k + 3], [0, 1, 0], left=0, right=0) for k in range(64)])
    bands[:, 0] = 0
    return np.log(bands @ magnitudes.T + 0.001)


def sounds() -> np.ndarray:
    rng = np.random.default_rng(0)
    t = np.arange(66_150) / 22_050
    return np.stack([rng.normal(0, 0.1, t.size), 0.5 * np.sin(2 * np.pi * 440 * t), signal.chirp(t, 50, 3, 7_000)])


def test_agrees_with_numpy() -> None:
    batch = sounds()
    ours = log_mel(torch.from_numpy(batch))
    assert ours.shape == (3, 1, 64, 298)
    for row, waveform in zip(ours[:, 0].numpy(), batch, strict=True):
        reference = numpy_reference(signal.resample(waveform, 48_000))
        np.testing.assert_allclose(row, reference, atol=3e-2)  # 8 kHz itself differs, and shows near the floor


def test_numpy_and_torch_give_the_same() -> None:
    batch = sounds().astype(np.float32)
    np.testing.assert_allclose(log_mel(batch), log_mel(torch.from_numpy(batch)).numpy(), atol=2e-2)  # near the floor
    assert log_mel(batch).dtype == np.float32


def test_resampling_is_scipys() -> None:
    for samples in (441, 44_100, 66_150):
        white = np.fft.rfft(np.random.default_rng(samples).normal(size=samples))
        white[samples * 160 // 441 :] = 0  # at 8 kHz itself there is no telling a sine from a cosine
        waveform = np.fft.irfft(white, samples)
        expected = signal.resample(waveform, samples * 320 // 441)
        np.testing.assert_allclose(resample(torch.from_numpy(waveform)).numpy(), expected, atol=1e-6)


def test_a_tone_keeps_its_pitch_and_level() -> None:
    tone = np.sin(2 * np.pi * 1000 * np.arange(22_050) / 22_050)
    expected = np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000)
    np.testing.assert_allclose(resample(torch.from_numpy(tone))[:16_000].numpy(), expected, atol=1e-6)


def test_triangles() -> None:
    bands = mel_triangles()
    assert bands.shape == (257, 64)
    assert not bands[0].any()
    hertz = np.arange(257) * 31.25
    assert not bands[hertz <= 125].any()
    assert not bands[hertz >= 7500].any()
    inside = bands.sum(1)[(hertz > 160) & (hertz < 7100)]
    np.testing.assert_allclose(inside, 1, atol=1e-5)  # linear in mel, so neighbours add up to 1


@pytest.mark.parametrize("samples", [0, 1, 440, 21_000])
def test_short_sounds_are_followed_by_silence(samples: int) -> None:
    assert log_mel(torch.ones(samples)).shape == (1, 64, 96)


@given(samples=st.integers(0, 30_000), value=st.floats(width=32), seed=st.integers(0, 9))
def test_always_finite(samples: int, value: float, seed: int) -> None:
    waveform = torch.rand(samples, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    waveform[::7] = value
    assert log_mel(waveform).isfinite().all()
