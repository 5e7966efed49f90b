"""Scenes as files: complete, readable by others, resumable."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image as Pillow
from scipy.io import wavfile

from soundwhere.data.synthetic import World, boxes, files
from soundwhere.errors import OutputError

WORLD = World(4, (64, 80), seconds=0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    files.write_scenes(WORLD, folder, 4, gain_db=12)
    return folder


@pytest.fixture
def rows(folder):
    with (folder / "scenes.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_files_hold_what_the_world_made(folder, rows):
    assert len(rows) == 4
    for index, row in enumerate(rows):
        scene = WORLD.scene(index, gain_db=12)
        assert row["id"] == scene.name
        assert np.array_equal(np.asarray(Pillow.open(folder / row["image"])), scene.image)
        assert row["kinds"].split("|") == list(scene.kinds)
        for column, masks in (("masks", scene.masks), ("silent_masks", scene.silent_masks)):
            stored = [np.asarray(Pillow.open(folder / name)) for name in row[column].split("|")]
            assert np.array_equal(stored, masks)
        assert json.loads(row["boxes"]) == boxes(scene.masks).tolist()


def test_separate_sounds_add_up_to_the_mixture(folder, rows):
    for index, row in enumerate(rows):
        rate, mixture = wavfile.read(folder / row["audio"])
        sounds = np.stack([wavfile.read(folder / name)[1] for name in row["sounds"].split("|")])
        assert rate == 22_050
        assert np.abs(sounds.sum(0, dtype=np.int64) - mixture).max() <= 2  # rounding
        original = WORLD.scene(index, gain_db=12).sounds
        softer = sounds.std() / original.std()
        assert np.abs(sounds - softer * original).max() < 0.002 * 32_767


def test_too_loud_a_scene_is_softened_as_a_whole(folder, rows):
    loudest = [np.abs(wavfile.read(folder / row["audio"])[1]).max() for row in rows]
    originals = [np.abs(WORLD.scene(index, gain_db=12).mixture).max() for index in range(4)]
    assert max(originals) > 1  # or this test shows nothing
    for stored, original in zip(loudest, originals, strict=True):
        assert stored / 32_767 <= min(1, original) + 1e-3


def test_it_goes_on_where_it_stopped(tmp_path, monkeypatch):
    written = []
    write = files.write_wav

    def interrupt(path, waveform):
        if len(written) == 5:  # in the middle of the second scene
            raise KeyboardInterrupt
        written.append(path)
        write(path, waveform)

    monkeypatch.setattr(files, "write_wav", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_scenes(WORLD, tmp_path, 3)
    assert not (tmp_path / "scenes.csv").exists()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["made-up-4-0"]
    before = (tmp_path / "made-up-4-0" / "image.png").stat().st_mtime_ns

    monkeypatch.undo()
    manifest = files.write_scenes(WORLD, tmp_path, 3)
    assert (tmp_path / "made-up-4-0" / "image.png").stat().st_mtime_ns == before
    assert len(manifest.read_text(encoding="utf-8").splitlines()) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "made-up-4-0",
        "made-up-4-1",
        "made-up-4-2",
        "scenes.csv",
        "world.json",
    ]


def test_scenes_of_different_settings_are_not_mixed(folder):
    with pytest.raises(OutputError, match="other settings") as caught:
        files.write_scenes(WORLD, folder, 4, gain_db=0)
    assert "choose another" in caught.value.remedy
    (folder / "world.json").write_text("{", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot be read"):
        files.write_scenes(WORLD, folder, 4, gain_db=12)
