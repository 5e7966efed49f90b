from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from soundwhere.config import DataConfig
from soundwhere.data.captions import read_captions
from soundwhere.data.training_scenes import Needs, make_clips, make_draws
from soundwhere.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, names: list[str], captions: int = 2, width: int = 4, **changes: np.ndarray) -> Path:
    """A file in which the embeddings of the clip in place n begin with n + 1."""
    numbers = np.arange(1, len(names) + 1, dtype=np.float32)
    arrays = {
        "names": np.array(names),
        "foreground": numbers[:, None, None] + np.zeros((1, captions, width), np.float32),
        "background": -numbers[:, None] + np.zeros((1, width), np.float32),
    }
    np.savez(path, **(arrays | changes))
    return path


def test_they_come_in_the_order_of_the_clips_background_last(tmp_path: Path) -> None:
    path = write(tmp_path / "captions.npz", ["a.jpg", "b/c.mp4"])
    found = read_captions(path, ["b/c.mp4|12|34@0.000-1.000", "a.jpg|5|6", "b/c.mp4|12|34@1.000-2.000"])
    assert found.shape == (3, 3, 4)
    assert found[:, :, 0].tolist() == [[2, 2, -2], [1, 1, -1], [2, 2, -2]]
    assert read_captions(path).shape == (2, 3, 4)


def test_scenes_carry_those_of_the_clips_that_sound(mini_root: Path, tmp_path: Path) -> None:
    data = DataConfig(source="real-duet", root=mini_root)
    clips = make_clips(data)
    names = [clips.key(index).partition("|")[0] for index in range(len(clips))]
    needs = Needs(sounds=2, captions=write(tmp_path / "captions.npz", names))
    draws = make_draws(data, needs, batch_size=2, seed=0, frame_px=32)
    plain = make_draws(data, Needs(sounds=2), batch_size=2, seed=0, frame_px=32)
    for number in range(4):
        example = draws.draw(number)
        assert example.captions is not None
        assert example.captions.shape == (2, 3, 4)
        assert plain.draw(number).captions is None
        cast = {int(clip) for clip in example.captions[:, 0, 0] - 1}
        assert cast <= set(draws.picture(number).cast)
        assert len(cast) == 2


def test_bad_files_are_refused(tmp_path: Path) -> None:
    good = write(tmp_path / "good.npz", ["a.jpg"])
    with pytest.raises(DataError, match=r"has no captions of b\.jpg, c\.jpg, d\.jpg and 1 more"):
        read_captions(good, ["b.jpg|1|1", "c.jpg|1|1", "d.jpg|1|1", "e.jpg|1|1"])
    with pytest.raises(DataError, match="does not exist"):
        read_captions(tmp_path / "none.npz")
    with pytest.raises(DataError, match="is a folder"):
        read_captions(tmp_path)
    with pytest.raises(DataError, match=r"1 names, foreground \(1, 2, 4\), background \(1, 5\)"):
        read_captions(write(tmp_path / "wide.npz", ["a.jpg"], background=np.ones((1, 5))))
    with pytest.raises(DataError, match="zero or not finite"):
        read_captions(write(tmp_path / "nan.npz", ["a.jpg"], background=np.full((1, 4), np.nan)))
    np.savez(tmp_path / "less.npz", names=np.array(["a.jpg"]))
    with pytest.raises(DataError, match="no array 'foreground'"):
        read_captions(tmp_path / "less.npz")
    (tmp_path / "text.npz").write_text("captions")
    with pytest.raises(DataError, match=r"not an \.npz file, or is damaged\.\ndocs/rivals-several\.md"):
        read_captions(tmp_path / "text.npz")
    np.save(tmp_path / "single.npy", np.ones(3))
    with pytest.raises(DataError, match=r"not an \.npz"):
        read_captions(tmp_path / "single.npy")


def test_the_made_up_world_has_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="trains on clips"):
        make_draws(DataConfig(), Needs(captions=tmp_path / "any.npz"), batch_size=2, seed=0, frame_px=32)
