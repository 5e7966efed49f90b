import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal

from soundwhere.errors import ConfigError
from soundwhere.media.spectrogram import PRESETS, log_spectrogram


def scipy_reference(waveform: np.ndarray, preset: str) -> np.ndarray:
    if preset == "paper":
        padded = np.pad(waveform, 551)
        density = signal.spectrogram(padded, 22050, window="hann", nperseg=1102, noverlap=551)[2]
    elif preset == "mel":
        padded = np.pad(waveform, 512)
        density = signal.spectrogram(padded, 22050, window="hann", nperseg=1024, noverlap=512)[2]
        corners = 700 * (10 ** (np.linspace(*(2595 * np.log10(1 + np.array([40, 11_000]) / 700)), 66) / 2595) - 1)
        hertz = np.arange(513) * 22050 / 1024
        bands = [np.interp(hertz, corners[k : k + 3], [0, 1, 0], left=0, right=0) for k in range(64)]
        return (np.log(np.array(bands) @ density + 1e-11) + 18) / 4
    else:  # the peers' very call
        density = signal.spectrogram(waveform, 22050, nperseg=512, noverlap=274)[2]
    return np.log(density + 1e-7) / 12


def sounds(seconds: float = 3.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    t = np.arange(round(seconds * 22050)) / 22050
    tone = 0.5 * np.sin(2 * np.pi * 440 * t)
    chirp = 0.9 * signal.chirp(t, 50, seconds, 10_000)
    return np.stack([rng.normal(0, 0.1, t.size), tone, chirp, 0.3 + 0.01 * tone, np.clip(5 * tone, -1, 1)])


@pytest.mark.parametrize("preset", PRESETS)
def test_agrees_with_scipy(preset):
    batch = sounds()
    ours = log_spectrogram(torch.from_numpy(batch).float(), preset)
    for row, waveform in zip(ours.numpy(), batch, strict=True):
        # single precision leaves about 1e-13 of a loud tone's density in every band, near the floor of `mel`
        np.testing.assert_allclose(row[0], scipy_reference(waveform, preset), atol=2e-2 if preset == "mel" else 1e-5)


@pytest.mark.parametrize("preset", PRESETS)
def test_numpy_and_torch_give_the_same(preset):
    batch = sounds().astype(np.float32)
    ours = log_spectrogram(batch, preset)
    assert ours.dtype == np.float32
    # see above for `mel`
    tolerance = 2e-2 if preset == "mel" else 1e-5
    np.testing.assert_allclose(ours, log_spectrogram(torch.from_numpy(batch), preset).numpy(), atol=tolerance)


@pytest.mark.parametrize(("preset", "shape"), [("paper", (552, 121)), ("peers", (257, 276)), ("mel", (64, 130))])
def test_three_seconds_have_the_documented_shape(preset, shape):
    assert log_spectrogram(torch.zeros(66_150), preset).shape == (1, *shape)
    assert log_spectrogram(torch.zeros(4, 66_150), preset).shape == (4, 1, *shape)
    assert log_spectrogram(torch.zeros(2, 3, 66_150), preset).shape == (2, 3, 1, *shape)


@pytest.mark.parametrize("preset", PRESETS)
@given(samples=st.integers(0, 3000), value=st.floats(width=32), seed=st.integers(0, 9))
def test_any_sound_gives_a_finite_map_of_the_announced_shape(preset, samples, value, seed):
    generator = torch.Generator().manual_seed(seed)
    waveform = torch.rand(samples, generator=generator) * 2 - 1
    waveform[::7] = value  # NaN, infinities and absurd loudness among them
    spectrogram = log_spectrogram(waveform, preset)
    form = PRESETS[preset]
    assert spectrogram.shape == (1, form.bins, form.frames(samples))
    assert spectrogram.isfinite().all()


@pytest.mark.parametrize(
    ("preset", "floor"), [("paper", np.log(1e-7) / 12), ("peers", np.log(1e-7) / 12), ("mel", (np.log(1e-11) + 18) / 4)]
)
def test_silence_is_the_floor_everywhere(preset, floor):
    torch.testing.assert_close(
        log_spectrogram(torch.zeros(10_000), preset),
        torch.full((1, PRESETS[preset].bins, PRESETS[preset].frames(10_000)), float(floor)),
    )


def test_samples_that_are_not_finite_count_as_silence():
    clean = torch.rand(5000) - 0.5
    clean[100:110] = 0
    broken = clean.clone()
    broken[100:110] = torch.tensor([float("nan"), float("inf"), -float("inf")]).repeat(4)[:10]
    torch.testing.assert_close(log_spectrogram(broken), log_spectrogram(clean))


def test_a_tone_peaks_in_its_own_bin():
    tone = torch.sin(2 * torch.pi * 2000 * torch.arange(66_150) / 22_050)
    assert (log_spectrogram(tone)[0, :, 5:-5].argmax(0) - round(2000 * 1102 / 22_050)).abs().max() <= 1


def test_gradients_reach_the_waveform():
    waveform = torch.randn(2, 4000, requires_grad=True)
    log_spectrogram(waveform).sum().backward()
    assert waveform.grad is not None
    assert waveform.grad.isfinite().all()


def test_unknown_preset_lists_the_known_ones():
    with pytest.raises(ConfigError, match="paper, peers, mel"):
        log_spectrogram(torch.zeros(10), "bark")
