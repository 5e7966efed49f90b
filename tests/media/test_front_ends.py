"""The published front ends against what the published code gave, and as a network uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from soundwhere.errors import ConfigError
from soundwhere.media.front_ends import FRONT_ENDS, check_front_end, hear_as, spectrogram_of, to_length
from soundwhere.media.image import normalise, resize
from soundwhere.media.resample import resample
from soundwhere.media.spectrogram import log_spectrogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

# of the recorded array: front end, waveform, what 1.0 is in 16 bits, seconds it is tiled to
RECORDED: dict[str, tuple[str, str, float, float]] = {
    "lvs": ("lvs", "wave_22050", 32_768, 10),
    "ez_vsl": ("ez_vsl", "wave_22050", 32_767, 3),
    "noprior": ("ez_vsl", "wave_22050", 32_767, 3),
    "ots": ("ots", "wave_48000", 32_768, 1),
    "jsa": ("jsa", "wave_16000", 32_768, 5),
    "dsol": ("dsol", "wave_16000", 32_768, 1),
    "coarse_to_fine": ("coarse_to_fine", "wave_22050", 32_768, 1),
    "ssl_tie": ("ssl_tie", "wave_22050", 32_768, 10),
    "dmc": ("dmc", "wave_16000", 32_768, 1),
}


def agrees(recording: Any, name: str, found: Tensor) -> None:
    assert tuple(found.shape) == tuple(recording[f"{name}_shape"].tolist())
    statistics = torch.stack([found.mean(), found.std(correction=0)])
    recording.agree(1e-5, **{name: found[:, recording[f"{name}_frames"]], f"{name}_mean_std": statistics})


@pytest.mark.parametrize("name", RECORDED)
def test_agrees_with_the_published_code(oracle: Callable[[str], Any], name: str) -> None:
    recording = oracle("audio_frontends")
    front_end, wave, full_scale, seconds = RECORDED[name]
    form = FRONT_ENDS[front_end]
    waveform = to_length(recording[wave].double() / full_scale, round(seconds * form.rate_hz))
    agrees(recording, name, spectrogram_of(waveform, form))


def test_mixtures_agree_with_the_published_code(oracle: Callable[[str], Any]) -> None:
    recording = oracle("audio_frontends")
    both = (recording["wave_22050"].double() + recording["wave_22050_b"].double()) / 32_767
    agrees(recording, "avgn_mixture", spectrogram_of(to_length(both, 66_150), FRONT_ENDS["ez_vsl"]))
    form = FRONT_ENDS["mix_and_localize"]
    parts = [recording[f"wave_16000{part}"].double()[: form.samples] / 32_768 for part in ("", "_b")]
    mean = sum(part * 0.1 / part.square().mean().sqrt() for part in parts) / 2
    agrees(recording, "mix_and_localize_mixture", spectrogram_of(mean, form))


def test_pictures_differ_from_the_published_ones_by_interpolation_alone(oracle: Callable[[str], Any]) -> None:
    """Releases resize bicubically, this package bilinearly, which docs/rivals.md says; the rest is equal."""
    recording = oracle("audio_frontends")
    picture = recording["image_uint8"].numpy()
    squashed, published = (224, 224), recording["ez_vsl_image_probe"]

    def probe(pixels: Any) -> Tensor:
        return normalise(np.array(pixels))[:, 8::16, 8::16].double()

    assert torch.equal(probe(Image.fromarray(picture).resize(squashed, Image.Resampling.BICUBIC)), published)
    short_side = Image.fromarray(picture).resize((336, 224), Image.Resampling.BICUBIC)
    assert torch.equal(probe(short_side.crop((56, 0, 280, 224))), recording["lvs_image_probe"])
    assert (probe(resize(picture, squashed)) - published).abs().mean() < 0.02 * published.std()


@pytest.mark.parametrize("name", FRONT_ENDS)
@settings(max_examples=10)
@given(samples=st.integers(0, 3000), value=st.floats(width=32))
def test_any_sound_gives_a_finite_picture_of_one_shape(name: str, samples: int, value: float) -> None:
    waveform = torch.linspace(-1, 1, samples)
    waveform[::7] = value  # NaN, infinities and absurd loudness among them
    found = hear_as(waveform, name)
    assert found.shape == hear_as(torch.zeros(100), name).shape
    assert found.isfinite().all()


def test_a_batch_is_heard_row_by_row() -> None:
    sounds = torch.randn(2, 2, 66_150, generator=torch.Generator().manual_seed(0)) / 10
    for name in FRONT_ENDS:
        torch.testing.assert_close(hear_as(sounds, name)[1, 0], hear_as(sounds[1, 0], name), atol=1e-3, rtol=1e-4)


def test_time_lies_where_the_network_expects_it() -> None:
    sound = torch.randn(66_150, generator=torch.Generator().manual_seed(0)) / 10
    assert hear_as(sound, "dsol").shape == (1, 201, 64)
    assert hear_as(sound, "ots").shape == (1, 257, 200)
    assert hear_as(sound, "lvs").shape == (1, 257, 925)
    assert hear_as(sound, "mel").shape == log_spectrogram(sound, "mel").shape


def test_the_peers_preset_is_the_front_end_of_ez_vsl() -> None:
    sound = torch.randn(3, 66_150, generator=torch.Generator().manual_seed(0)) / 10
    torch.testing.assert_close(hear_as(sound, "ez_vsl"), log_spectrogram(sound, "peers"), atol=1e-5, rtol=0)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'bark'") as caught:
        check_front_end("bark")
    assert "mel" in caught.value.remedy
    assert "ssl_tie" in caught.value.remedy


@pytest.mark.parametrize("to_hz", [16_000, 48_000, 22_050, 8_000])
def test_a_tone_keeps_its_pitch_and_level_at_another_rate(to_hz: int) -> None:
    before = torch.sin(2 * torch.pi * 1000 * torch.arange(22_050, dtype=torch.float64) / 22_050)
    after = resample(before, 22_050, to_hz)
    assert after.shape == (to_hz,)
    expected = torch.sin(2 * torch.pi * 1000 * torch.arange(to_hz, dtype=torch.float64) / to_hz)
    torch.testing.assert_close(after[500:-500], expected[500:-500], atol=2e-3, rtol=0)


def test_what_the_lower_rate_cannot_hold_is_gone() -> None:
    high = torch.sin(2 * torch.pi * 9500 * torch.arange(22_050) / 22_050)
    assert resample(high, 22_050, 16_000)[500:-500].abs().max() < 1e-2
