from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from soundwhere.constants import CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.data.benchmarks.media import ClipName, MediaFolder
from soundwhere.errors import DataError, MediaError
from soundwhere.media.audio import read_audio, write_wav

if TYPE_CHECKING:
    from pathlib import Path


def test_a_video_gives_its_middle(tmp_path: Path, clip_path: Path) -> None:
    shutil.copy(clip_path, tmp_path / "a.mp4")
    folder = MediaFolder(tmp_path)
    picture, sound = folder.picture(ClipName("a")), folder.sound(ClipName("a"))
    assert picture is not None
    assert sound is not None
    row = picture.picture()[32, :, 0].astype(int)
    assert 36 <= np.flatnonzero(row > 200).min() <= 48  # the white square is at 40 in the tenth of twenty frames
    assert sound.sound().shape == (CLIP_SAMPLES,)


def test_pictures_and_sounds_go_before_videos_and_empty_files_do_not_count(tmp_path: Path, clip_path, still) -> None:
    shutil.copy(clip_path, tmp_path / "a.mp4")
    still(tmp_path, "a", 90)
    (tmp_path / "frames" / "b.png").touch()
    (tmp_path / "c.mp4").touch()
    folder = MediaFolder(tmp_path)
    found = folder.picture(ClipName("a"))
    assert found is not None
    assert found.path.name == "a.jpg"
    assert folder.picture(ClipName("b")) is None
    assert not folder.has(ClipName("c"))
    assert folder.has(ClipName("nothing", aliases=("a",)))


def test_a_moment_of_a_longer_recording(tmp_path: Path, clip_path: Path) -> None:
    ramp = np.linspace(0, 0.9, 10 * SAMPLE_RATE_HZ, dtype=np.float32)
    (tmp_path / "audio").mkdir()
    write_wav(tmp_path / "audio" / "long.wav", ramp)
    shutil.copy(clip_path, tmp_path / "long.mp4")
    folder = MediaFolder(tmp_path)
    whole = read_audio(tmp_path / "audio" / "long.wav")
    for time_s, start_s in ((5.0, 3.5), (0.2, 0.0), (9.9, 7.0)):
        found = folder.sound(ClipName("frame", recordings=("absent", "long"), time_s=time_s))
        assert found is not None
        begin = round(start_s * SAMPLE_RATE_HZ)
        np.testing.assert_allclose(found.sound(), whole[begin : begin + CLIP_SAMPLES], atol=2e-4)
    for time_s, left in ((0.05, 0), (1.55, 60)):
        found = folder.picture(ClipName("frame", recordings=("long",), time_s=time_s))
        assert found is not None
        assert abs(np.flatnonzero(found.picture()[32, :, 0] > 200).min() - left) <= 3


def test_a_damaged_file_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"no video")
    found = MediaFolder(tmp_path).sound(ClipName("a"))
    assert found is not None
    for read in (found.sound, found.picture):
        with pytest.raises(MediaError) as caught:
            read()
        assert "--allow-missing" in caught.value.remedy


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        MediaFolder(tmp_path / "absent")
