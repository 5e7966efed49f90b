"""From settings to scenes: what a stage asks for decides what is drawn and what is kept."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from soundwhere.config import DataConfig
from soundwhere.data.features import Eye
from soundwhere.data.training_scenes import FramePairs, FrameTarget, Needs, make_clips, make_draws
from soundwhere.errors import ConfigError, DataError
from soundwhere.media.image import normalise

ONE, TWO = Needs(sounds=1), Needs(sounds=2)


def make_eye() -> Eye:
    """A frozen encoder of stride 32 with five channels."""
    torch.manual_seed(0)
    return Eye("toy", nn.Conv2d(3, 5, 32, stride=32), 32)


def brightness(images: torch.Tensor, eye: Eye) -> torch.Tensor:
    """A target for each cell, shape (B, 1, h, w), in [0, 1]."""
    features = eye.encode(images)
    return (
        images.mean(1, keepdim=True)
        .sigmoid()[..., :: eye.stride_px, :: eye.stride_px]
        .expand(-1, -1, *features.shape[-2:])
    )


BRIGHTNESS = FrameTarget("brightness", brightness)


def settings(root, **changes) -> DataConfig:
    return DataConfig(**{"source": "real-duet", "root": root, **changes})


def draw_from(data: DataConfig, needs: Needs, **more: Any):
    return make_draws(data, needs, batch_size=4, seed=0, frame_px=64, **more)


def test_frozen_encoders_get_cached_features(mini_root, tmp_path):
    steps = []
    data = settings(mini_root, cache=tmp_path)
    draws = draw_from(data, TWO, eye=make_eye(), progress=lambda done, total: steps.append((done, total)))
    example = draws.draw(0)
    assert len(draws) == 6
    assert example.features.shape == (5, 2, 4)
    assert example.sounds.shape[0] == 2
    assert steps == [(6, 6)]
    draw_from(data, ONE, eye=make_eye(), progress=lambda done, total: steps.append((done, total)))
    assert steps == [(6, 6)]
    image = draws.draw(0, pictures=True).image
    assert image.shape == (64, 128, 3)


def test_features_are_those_of_the_encoder(mini_root, tmp_path):
    eye = make_eye()
    draws = draw_from(settings(mini_root, cache=tmp_path), ONE, eye=eye)
    picture = normalise(draws.draw(3, pictures=True).image[None])
    with torch.no_grad():
        expected = eye.encode(picture)[0]
    assert torch.allclose(torch.from_numpy(draws.draw(3).features.astype(np.float32)), expected, atol=2e-3)


def test_encoders_that_train_get_pictures(mini_root, tmp_path):
    data = settings(mini_root, cache=tmp_path / "unused", silent=2, layouts=("grid",))
    example = draw_from(data, TWO).draw(0)
    assert example.features is None
    assert example.image.shape == (128, 128, 3)
    assert not (tmp_path / "unused").exists()


def test_single_clips_are_one_frame_whatever_the_layout(mini_root):
    example = draw_from(settings(mini_root, silent=2, layouts=("grid",)), ONE).draw(0)
    assert example.image.shape == (64, 64, 3)
    assert example.sounds.shape[0] == 1


def test_only_what_is_taught_has_targets_and_absent_sounds(mini_root, tmp_path):
    data = settings(mini_root, cache=tmp_path, absent=1.0)
    untaught = draw_from(data, TWO, eye=make_eye()).draw(0)
    taught = draw_from(data, Needs(sounds=2, separate=True, target=BRIGHTNESS), eye=make_eye()).draw(0)
    plain = draw_from(settings(mini_root, cache=tmp_path), TWO, eye=make_eye()).draw(0)
    assert untaught.targets is None
    assert np.array_equal(untaught.sounds, plain.sounds)
    assert not taught.targets[-1].any()
    assert not np.array_equal(taught.sounds, plain.sounds)
    # a single clip has nothing to be told apart from
    single = draw_from(data, Needs(sounds=1, target=BRIGHTNESS), eye=make_eye()).draw(0)
    assert single.targets is None


def test_targets_are_made_by_a_frozen_encoder(mini_root):
    with pytest.raises(ConfigError, match="frozen visual encoder") as caught:
        draw_from(settings(mini_root), Needs(sounds=2, target=BRIGHTNESS))
    assert "--freeze-visual" in caught.value.remedy


def test_frames_with_their_targets(mini_root, tmp_path):
    steps = []
    data, eye = settings(mini_root, cache=tmp_path), make_eye()
    pairs = FramePairs(data, eye, 64, BRIGHTNESS, lambda done, total: steps.append((done, total)))
    assert len(pairs) == 6
    assert steps == [(6, 6), (6, 6)]  # features, and targets
    clips = make_clips(data)
    keys = sorted(clips.key(index) for index in range(6))
    for number, (features, target) in enumerate(pairs[index] for index in range(6)):
        assert (features.shape, features.dtype) == ((5, 2, 2), np.float16)
        assert (target.shape, target.dtype) == ((1, 2, 2), np.float16)
        picture = clips.image(next(index for index in range(6) if clips.key(index) == keys[number]))
        whole = normalise(np.asarray(picture)[None])
        expected = whole.mean(1, keepdim=True).sigmoid().mean((-2, -1))
        assert np.allclose(target, float(expected), atol=2e-3)  # the pictures have one colour
    FramePairs(data, eye, 64, FrameTarget("another", brightness), lambda *place: steps.append(place))
    assert steps == [(6, 6)] * 3  # features are kept, another target is not taken for this one


def test_native_videos(tmp_path, clip_path):
    shutil.copy(clip_path, tmp_path / "a.mp4")
    (tmp_path / "broken.mp4").write_text("no video")
    with pytest.warns(UserWarning, match=r"1 files cannot be used\.\n.*broken\.mp4"):
        draws = draw_from(settings(tmp_path, mixtures="native", source="folder"), TWO)
    assert draws.native
    assert draws.draw(0).sounds.shape[0] == 1
    assert draws.draw(0).image.shape == (64, 64, 3)


def test_the_made_up_world_draws_as_many_sounds_as_are_needed():
    data = DataConfig(scenes=3, silent=1)
    assert {needs.sounds: draw_from(data, needs).draw(0).sounds.shape[0] for needs in (ONE, TWO)} == {1: 1, 2: 2}
    assert draw_from(data, TWO).draw(0).image.shape == (64, 64, 3)


def test_contradictions(mini_root, tmp_path):
    with pytest.raises(ConfigError, match="'real-duet' needs a folder"):
        make_clips(DataConfig(source="real-duet"))
    with pytest.raises(ConfigError, match="no native mixtures"):
        make_clips(DataConfig(source="real-duet", root=mini_root, mixtures="native"))
    with pytest.raises(DataError, match="is not a folder"):
        make_clips(DataConfig(source="folder", root=tmp_path / "none"))
