from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from soundwhere.config import Config, DataConfig, TrainConfig
from soundwhere.data.training_scenes import make_clips, make_draws
from soundwhere.errors import ConfigError, DataError
from soundwhere.methods.scav.config import SCAVConfig


class Model(nn.Module):
    """A stand-in: a visual encoder of stride 32 and its configuration."""

    def __init__(self, freeze: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.config = SCAVConfig(visual="tiny", freeze_visual=freeze, frame_px=64)
        self.visual = nn.Conv2d(3, 5, 32, stride=32)


def config(root, **changes) -> Config:
    return Config(data=DataConfig(source="real-duet", root=root, **changes), train=TrainConfig(batch_size=4))


def test_frozen_encoders_get_cached_features(mini_root, tmp_path):
    steps = []
    settings = config(mini_root, cache=tmp_path)
    draws = make_draws(settings, Model(freeze=True), 2, progress=lambda done, total: steps.append((done, total)))
    example = draws.draw(0)
    assert len(draws) == 6
    assert example.features.shape == (5, 2, 4)
    assert example.sounds.shape[0] == 2
    assert steps == [(6, 6)]
    make_draws(settings, Model(freeze=True), 1, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(6, 6)]
    image = draws.draw(0, pictures=True).image
    assert image.shape == (64, 128, 3)


def test_features_are_those_of_the_encoder(mini_root, tmp_path):
    model = Model(freeze=True)
    draws = make_draws(config(mini_root, cache=tmp_path), model, 1)
    from soundwhere.media.image import normalise

    picture = normalise(draws.draw(3, pictures=True).image[None])
    with torch.no_grad():
        expected = model.visual(picture)[0]
    assert torch.allclose(torch.from_numpy(draws.draw(3).features.astype(np.float32)), expected, atol=2e-3)


def test_encoders_that_train_get_pictures(mini_root, tmp_path):
    settings = config(mini_root, cache=tmp_path / "unused", silent=2, layouts=("grid",))
    example = make_draws(settings, Model(freeze=False), 2).draw(0)
    assert example.features is None
    assert example.image.shape == (128, 128, 3)
    assert not (tmp_path / "unused").exists()


def test_single_clips_are_one_frame_whatever_the_layout(mini_root):
    example = make_draws(config(mini_root, silent=2, layouts=("grid",)), Model(freeze=False), 1).draw(0)
    assert example.image.shape == (64, 64, 3)
    assert example.sounds.shape[0] == 1


def test_only_stage_two_has_targets_and_absent_sounds(mini_root, tmp_path):
    settings = replace(config(mini_root, cache=tmp_path, absent=1.0), loss=LossConfig(teacher="strength"))
    drawn = {}
    for stage in ("one", "two"):
        draws = make_draws(replace(settings, train=replace(settings.train, stage=stage)), Model(freeze=True), 2)
        drawn[stage] = draws.draw(0)
    plain = make_draws(config(mini_root, cache=tmp_path), Model(freeze=True), 2).draw(0)
    assert drawn["one"].targets is None
    assert np.array_equal(drawn["one"].sounds, plain.sounds)
    assert not drawn["two"].targets[-1].any()
    assert not np.array_equal(drawn["two"].sounds, plain.sounds)


def test_native_videos(tmp_path, clip_path):
    shutil.copy(clip_path, tmp_path / "a.mp4")
    (tmp_path / "broken.mp4").write_text("no video")
    settings = config(tmp_path, mixtures="native")
    settings = replace(settings, data=replace(settings.data, source="folder"))
    with pytest.warns(UserWarning, match=r"1 files cannot be used\.\n.*broken\.mp4"):
        draws = make_draws(settings, Model(freeze=False), 2)
    assert draws.native
    assert draws.draw(0).sounds.shape[0] == 1
    assert draws.draw(0).image.shape == (64, 64, 3)


def test_contradictions(mini_root, tmp_path):
    with pytest.raises(ConfigError, match="'real-duet' needs a folder"):
        make_clips(DataConfig(source="real-duet"))
    with pytest.raises(ConfigError, match="no native mixtures"):
        make_clips(DataConfig(source="real-duet", root=mini_root, mixtures="native"))
    with pytest.raises(DataError, match="is not a folder"):
        make_clips(DataConfig(source="folder", root=tmp_path / "none"))
