from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

import soundwhere
from soundwhere.errors import ConfigError
from soundwhere.inference.localiser import Localiser
from soundwhere.media.audio import read_audio, window, write_wav
from soundwhere.media.image import network_size, normalise, resize
from soundwhere.media.video import read_frames

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.methods.scav.model import SCAV


def test_the_answer_is_that_of_a_plain_loop(tiny: SCAV, squares_path: Path) -> None:
    """Sharing windows and batching change nothing: one frame at a time, its window encoded for it alone."""
    result = Localiser(tiny, "cpu", fps=4, hop_s=0.5, batch=3, smooth=False).localise(squares_path, end_s=1.5)
    sound = read_audio(squares_path)
    assert result.times.tolist() == [i / 4 for i in range(6)]
    for row, time_s in enumerate(result.times):
        image = resize(read_frames(squares_path, [time_s])[0].image, network_size(128, 256, 128))
        around = window(sound, int(time_s / 0.5 + 0.5) * 0.5)
        with torch.inference_mode():
            found = tiny(normalise(image)[None], tiny.spectrogram(torch.from_numpy(around)[None]))
        maps = found.heatmaps()[0].numpy()
        same = [np.abs(maps[list(order)] - result.maps[row]).max() for order in ((0, 1), (1, 0))]
        assert min(same) < 2e-3


@pytest.mark.parametrize("batch", [1, 4, 64])
def test_batching_changes_nothing(red_and_blue: Any, squares_path: Path, batch: int) -> None:
    result = Localiser(red_and_blue, "cpu", batch=batch).localise(squares_path)
    red_and_blue.located = 0
    reference = Localiser(red_and_blue, "cpu").localise(squares_path)
    np.testing.assert_allclose(result.maps, reference.maps, atol=1e-3)


def test_a_window_is_encoded_once(red_and_blue: Any, squares_path: Path) -> None:
    Localiser(red_and_blue, "cpu", fps=10, hop_s=0.5, batch=4).localise(squares_path)
    assert red_and_blue.encoded == 11  # 0, 0.5 ... 5 s for 50 frames


def test_sources_keep_their_place_and_silence_is_silence(red_and_blue: Any, squares_path: Path) -> None:
    result = Localiser(red_and_blue, "cpu").localise(squares_path)
    early = result.times < 2
    red = int(result.peaks[0, 0, 0] > 128)  # which source is red
    assert (result.peaks[early, red, 0] < 64).all()
    assert (result.peaks[early, 1 - red, 0] > 192).all()
    assert result.sounding[early].all()
    assert not result.sounding[result.times > 2.8].any()
    assert result.levels_db[-1] < -60
    assert result.where(1 - red) == "right, low"
    assert result.spans(red)[0] == pytest.approx((0.0, 2.4), abs=0.25)
    assert len(result.spans(red)) == 1


def test_smoothing_is_light_and_can_be_left_out(red_and_blue: Any, squares_path: Path) -> None:
    plain = Localiser(red_and_blue, "cpu", smooth=False).localise(squares_path)
    red_and_blue.located = 0
    smooth = Localiser(red_and_blue, "cpu").localise(squares_path)
    assert not np.allclose(plain.maps[3], smooth.maps[3], atol=1e-3)
    assert np.abs(np.float32(plain.maps[:10]) - smooth.maps[:10]).mean() < 0.1


def test_frames_stream_as_they_come(red_and_blue: Any, squares_path: Path) -> None:
    localiser = Localiser(red_and_blue, "cpu", batch=4)
    whole = localiser.localise(squares_path)
    red_and_blue.located = 0
    stream = localiser.stream(squares_path)
    first = next(stream)
    assert red_and_blue.located <= 4 * (localiser.workers + 1)  # not all of the clip was looked at
    assert first.heatmaps().shape == (2, 128, 256)
    answers = [first, *stream]
    np.testing.assert_allclose([answer.time_s for answer in answers], whole.times)
    np.testing.assert_allclose(answers[3].peaks, whole.peaks[3], atol=1)
    np.testing.assert_allclose(answers[3].boxes, whole.boxes[3], atol=8)


def test_the_shape_of_the_picture_is_kept_unless_squashed(tiny: SCAV, clip_path: Path) -> None:
    assert Localiser(tiny, "cpu").localise(clip_path).maps.shape == (10, 2, 8, 12)
    assert Localiser(tiny, "cpu", squash=True).localise(clip_path).maps.shape == (10, 2, 8, 8)


def test_a_photo_with_a_recording(red_and_blue: Any, tmp_path: Path, noise_path: Path) -> None:
    picture = np.full((100, 200, 3), 255, np.uint8)
    picture[30:70, 20:60] = (255, 0, 0)
    Image.fromarray(picture).save(tmp_path / "photo.png")
    result = Localiser(red_and_blue, "cpu").localise(tmp_path / "photo.png", audio=noise_path)
    assert result.times.tolist() == [0, 0.5, 1, 1.5]
    assert "left, centre" in {result.where(0), result.where(1)}


def test_another_recording_replaces_the_sound(red_and_blue: Any, squares_path: Path, tmp_path: Path) -> None:
    write_wav(tmp_path / "silence.wav", np.zeros(22_050, np.float32))
    result = soundwhere.localise(squares_path, audio=tmp_path / "silence.wav", model=red_and_blue, device="cpu")
    assert not result.sounding.any()
    assert np.isneginf(result.levels_db).all()
    assert result.where(0) == ""


def test_a_part_is_the_part_of_the_whole(red_and_blue: Any, squares_path: Path) -> None:
    localiser = Localiser(red_and_blue, "cpu", smooth=False)
    part, whole = localiser.localise(squares_path, start_s=1.0, end_s=2.0), localiser.localise(squares_path)
    assert part.times.tolist() == pytest.approx([1.0, 1.2, 1.4, 1.6, 1.8])
    np.testing.assert_allclose(part.maps.max(1), whole.maps[5:10].max(1), atol=2e-3)
    np.testing.assert_array_equal(part.sounding, whole.sounding[5:10])


def test_a_model_without_stage_two_gives_one_source(tiny: SCAV, clip_path: Path) -> None:
    result = Localiser(tiny.without_stage_two(), "cpu").localise(clip_path)
    assert result.sources == 1


@pytest.mark.parametrize("sources", [1, 3])
def test_any_number_of_sources(tiny: SCAV, clip_path: Path, sources: int) -> None:
    result = Localiser(tiny, "cpu", sources=sources).localise(clip_path)
    assert result.sources == result.settings.sources == sources
    assert result.maps.shape == (10, sources, 8, 12)


@pytest.mark.parametrize(
    "options",
    [{"sources": 0}, {"sources": 8}, {"fps": 0}, {"fps": float("nan")}, {"hop_s": 0}, {"hop_s": 4}, {"device": "tpu"}],
)
def test_settings_that_make_no_sense(tiny: SCAV, options: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Localiser(tiny, **options)
