from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from soundwhere.cli.main import run
from soundwhere.constants import CLIP_SAMPLES
from soundwhere.data.real_duet import RealDuet
from soundwhere.data.synthetic.data_set import Sizes, write_data_set
from soundwhere.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path

SIZES = Sizes(6, 40, 40, 3)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_set(tmp_path_factory.mktemp("made-up"), SIZES)


def test_it_is_read_as_real_duet_is(root: Path) -> None:
    data = RealDuet(root)
    clips = data.clips("train", labels=True)
    assert len(clips) == 6
    assert clips.sound(0).shape == (CLIP_SAMPLES,)
    assert abs(clips.sound(0)).max() > 0.01
    for split in ("val", "test"):
        for name, frames in (("duets", 2), ("trios", 3)):
            scenes = data.scenes(f"{name}_{split}", frame_px=64)  # type: ignore[arg-type]
            assert len(scenes) == 3
            for scene in scenes:
                assert scene.image.shape == (64, 64 * frames, 3)
                assert len(scene.masks) == 2
                assert len(set(scene.kinds)) == 2
                assert all(mask.any() for mask in scene.masks)
                assert scene.silent_masks is not None
                assert len(scene.silent_masks) == frames - 2


def test_splits_share_nothing_and_the_silent_one_is_anywhere(root: Path) -> None:
    rows = list(csv.DictReader((root / "images.csv").open()))
    contents = {
        split: {(root / row["image"]).read_bytes() for row in rows if row["split"] == split}
        for split in ("train", "val", "test")
    }
    assert [len(contents[split]) for split in ("train", "val", "test")] == [6, 40, 40]
    assert not contents["train"] & contents["test"]
    assert not contents["val"] & contents["test"]


def test_what_is_there_is_kept_and_another_set_refused(root: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (root / "audio").iterdir()}
    write_data_set(root, SIZES)
    assert {path: path.stat().st_mtime_ns for path in (root / "audio").iterdir()} == before
    with pytest.raises(OutputError, match="made with other settings"):
        write_data_set(root, SIZES, seed=1)
    again = write_data_set(tmp_path / "again", SIZES)
    for name in ("clips.csv", "trios_test.csv", "images/test-00003.png", "audio/val-00001.wav"):
        assert (again / name).read_bytes() == (root / name).read_bytes()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["world", "--out", str(tmp_path / "few"), "--clips", "8"]) == 2
    assert "too few for three splits" in capsys.readouterr().err
    assert Sizes.of(960, 100) == Sizes(600, 120, 240, 100)
