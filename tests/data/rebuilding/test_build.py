"""The set that comes out is the one that went in, or what is wrong is said by name and nothing is written half."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import tarfile
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.cli.main import run
from soundwhere.data.real_duet import RealDuet
from soundwhere.data.rebuilding import build as building
from soundwhere.data.rebuilding.build import build
from soundwhere.data.rebuilding.lists import read_lists
from soundwhere.errors import ConfigError, DataError
from soundwhere.media.audio import read_audio
from soundwhere.media.image import read_image

if TYPE_CHECKING:
    from pathlib import Path

FILES = ("voc", "caltech101", "esc50", "urbansound8k", "animals10", "instruments30", "popular-animals", "hibafourati")
ALL = (*FILES, "yashnita", "philharmonia", "tonejs", "videos")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def rebuild(mini, out: Path, *keys: str):
    return build(read_lists(str(mini.lists)), mini.given(*keys), out)


@pytest.fixture(scope="module")
def rebuilt(miniature, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("rebuilt") / "set"
    report = rebuild(miniature, out, *ALL)
    assert report.problems == []
    return out


def test_photos_masks_and_sounds_are_those_of_the_set(rebuilt, miniature) -> None:
    made = rows(rebuilt / "images.csv")
    assert {row["class"] for row in made} == {"dog", "cow", "guitar", "lion", "chicken", "harp"}  # accordion: no sounds
    for row in made:
        was, now = (read_image(root / row["image"]).astype(int) for root in (miniature.original, rebuilt))
        assert was.shape == now.shape
        assert np.abs(was - now).mean() < 6  # another filter and JPEG
        if row["mask"]:
            one, other = (np.asarray(Image.open(root / row["mask"])) for root in (miniature.original, rebuilt))
            assert (one == other).all()
    heard = [row for row in rows(rebuilt / "audios.csv") if not row["prep"].startswith(("phrase", "synth"))]
    assert {row["prep"] for row in heard} == {"as is", "looped 1.30s", "cut", "looped or cut"}
    for row in heard:
        was, now = (read_audio(root / row["audio"]) for root in (miniature.original, rebuilt))
        assert len(now) == 5 * 22_050
        lag = best_lag(was, now)
        assert abs(lag) <= 220  # found within 10 ms
        assert np.corrcoef(np.roll(now, lag)[:110_000], was[:110_000])[0, 1] > 0.95


def best_lag(was: np.ndarray, now: np.ndarray) -> int:
    size = min(len(was), len(now))
    products = np.fft.irfft(np.fft.rfft(was[:size]) * np.conj(np.fft.rfft(now[:size])), size)
    lag = int(np.argmax(products))
    return lag if lag < size // 2 else lag - size


def test_phrases_are_made_anew_and_said_to_be(rebuilt, miniature, tmp_path) -> None:
    manifest = json.loads((rebuilt / "manifest.json").read_text())
    assert manifest["state"] == "rebuilt in part, phrases differ"
    assert manifest["classes_with_other_phrases"] == ["guitar", "harp"]
    assert manifest["classes_lost"] == {"accordion": "sounds"}
    assert "phrases differ" in (rebuilt / "README.md").read_text()
    listed = {row["audio"]: float(row["rms_db"]) for row in rows(rebuilt / "audios.csv")}
    phrases = {name: read_audio(rebuilt / name) for name in listed if "notes_" in name}
    assert len(phrases) == 6
    for name, phrase in phrases.items():
        assert 10 * np.log10(np.mean(np.square(phrase))) == pytest.approx(listed[name], abs=0.1)
    rebuild(miniature, tmp_path / "again", *ALL)  # the same rule, the same sounds
    for name, phrase in phrases.items():
        assert (read_audio(tmp_path / "again" / name) == phrase).all()
    assert len({phrase.tobytes() for phrase in phrases.values()}) == 6


def test_the_set_is_read_by_training_and_scoring(rebuilt, miniature) -> None:
    assert len(RealDuet(rebuilt).clips("train", labels=True)) == 6
    for name in ("duets_val", "trios_test"):
        was, now = (RealDuet(root).scenes(name) for root in (miniature.original, rebuilt))
        kept = [k for k, scene in enumerate(was.names) if scene in now.names]
        assert 0 < len(kept) < len(was)  # those with the accordion are gone
        for k, scene in zip(kept, now, strict=True):
            assert (scene.masks == was[k].masks).all()
            assert scene.kinds == was[k].kinds
    [video] = RealDuet(rebuilt).videos("val")
    assert len(read_audio(video.path)) == pytest.approx(4 * 22_050, abs=1_100)


def test_a_subset_of_sources_keeps_the_classes_it_can(miniature, tmp_path, capsys) -> None:
    arguments = ["--voc", str(miniature.folder("voc")), "--esc50", str(miniature.folder("esc50")), "--out"]
    code = run(["benchmark", "build", str(miniature.lists), *arguments, str(tmp_path / "set")])
    told = capsys.readouterr()
    assert code == 0
    assert "mini-duet: rebuilt in part" in told.out
    assert "2 classes: cow, dog" in told.out
    assert "chicken (no photos)" in told.out
    assert "not given: --urbansound8k, for 1 more files" in told.err
    assert {row["class"] for row in rows(tmp_path / "set" / "images.csv")} == {"cow", "dog"}
    assert len(rows(tmp_path / "set" / "clips.csv")) == 5  # the dog of the train split barks in UrbanSound8K
    assert len(rows(tmp_path / "set" / "duets_val.csv")) == 1
    assert not (tmp_path / "set" / "trios_val.csv").exists()
    assert run(["benchmark", "build", str(miniature.lists), "--strict", *arguments, str(tmp_path / "set")]) == 1


def test_a_second_run_keeps_what_is_there_and_adds_what_is_given(miniature, tmp_path) -> None:
    first = rebuild(miniature, tmp_path / "set", "voc", "esc50")
    photo = tmp_path / "set" / "images/dog/voc_2008_000001.jpg"
    written = photo.stat().st_mtime_ns
    second = rebuild(miniature, tmp_path / "set", "animals10")
    assert second.kept["images"] == first.made["images"]
    assert second.made["images"] == 3
    assert photo.stat().st_mtime_ns == written
    assert second.subset.classes == ("chicken", "cow", "dog")


def test_an_interrupted_run_leaves_no_half_files_and_no_tables(miniature, tmp_path, monkeypatch) -> None:
    out, make_sound, calls = tmp_path / "set", building.sounds.make_sound, []

    def stop(*arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return make_sound(*arguments)

    monkeypatch.setattr(building.sounds, "make_sound", stop)
    with pytest.raises(KeyboardInterrupt):
        rebuild(miniature, out, *ALL)
    assert not list(out.glob("*.csv"))
    assert not [path for path in out.rglob("*") if "partial" in path.name]
    monkeypatch.undo()
    report = rebuild(miniature, out, *ALL)
    assert report.kept["images"] == 21
    assert report.kept["audios"] == 3
    assert report.problems == []


def test_a_file_that_was_damaged_since_is_made_again(own, tmp_path) -> None:
    rebuild(own, tmp_path / "set", "voc", "esc50")
    photo, sound = tmp_path / "set/images/dog/voc_2008_000001.jpg", tmp_path / "set/audio/cow/esc50_1-103-A-3.ogg"
    photo.write_bytes(photo.read_bytes()[:400])
    sound.write_bytes(sound.read_bytes()[:4000])
    report = rebuild(own, tmp_path / "set", "voc", "esc50")
    assert (report.made["images"], report.made["audios"], report.problems) == (1, 1, [])


@pytest.mark.parametrize(
    ("key", "place", "spoil", "said"),
    [
        ("esc50", "ESC-50-master/audio/2-100-A-0.wav", "remove", "lacks audio/2-100-A-0.wav"),
        ("voc", "VOCdevkit/VOC2012/JPEGImages/2008_000001.jpg", "remove", "lacks JPEGImages/2008_000001.jpg"),
        ("voc", "VOCdevkit/VOC2012/JPEGImages/2008_000001.jpg", "cut", "2008_000001.jpg is cut short or damaged"),
        ("voc", "VOCdevkit/VOC2012/JPEGImages/2008_000001.jpg", "empty", "2008_000001.jpg is empty (0 bytes)"),
        ("voc", "VOCdevkit/VOC2012/JPEGImages/2008_000001.jpg", "other", "another version of PASCAL VOC2012"),
        ("voc", "VOCdevkit/VOC2012/SegmentationClass/2008_000001.png", "remove", "2008_000001.png is missing"),
        ("voc", "VOCdevkit/VOC2012/SegmentationClass/2008_000001.png", "cut", "2008_000001.png is cut short"),
        ("voc", "VOCdevkit/VOC2012/SegmentationClass/2008_000001.png", "other", "not classes"),
        ("esc50", "ESC-50-master/audio/2-100-A-0.wav", "cut", "2-100-A-0.wav is cut short"),
        ("esc50", "ESC-50-master/audio/2-100-A-0.wav", "other", "another version of ESC-50"),
    ],
)
def test_a_spoilt_file_is_said_by_name_and_left_out(own, tmp_path, key, place, spoil, said) -> None:
    path = own.folder(key) / place
    other = path.with_name(path.name.replace("00001", "00002").replace("2-100", "3-100"))
    data = path.read_bytes()
    if spoil == "remove":
        path.unlink()
    elif spoil == "other" and "Segmentation" in place:
        Image.open(path).convert("RGB").save(path)
    else:
        path.write_bytes({"cut": data[: len(data) // 3], "empty": b"", "other": other.read_bytes()}[spoil])
    out = tmp_path / "set"
    report = rebuild(own, out, "voc", "esc50", "urbansound8k")
    assert len(report.problems) == 1
    assert said in report.problems[0].reason
    assert report.subset.classes == ("cow", "dog")
    assert not (out / report.problems[0].file).exists()
    assert len(rows(out / "clips.csv")) == 5
    assert rows(out / "problems.csv")[0]["file"] == report.problems[0].file
    assert len(RealDuet(out).scenes("duets_test")) == 1  # the other split is whole


@pytest.mark.parametrize(
    ("given", "said", "remedy"),
    [
        ("nowhere", "does not exist", "Get ESC-50"),
        ("empty", "none of 8 files of ESC-50 is there", "It is empty"),
        ("urbansound8k/UrbanSound8K", "none of 8 files of ESC-50 is there", "give it with --urbansound8k"),
        ("esc50/ESC-50-master/audio", "none of 8 files", "part of the folder that is wanted: give"),
        ("esc50/ESC-50-master/LICENSE", "is not a folder", "Give the folder of ESC-50"),
        ("half", "none of 8 files", "a download that was not finished"),
        ("packed", "none of 8 files", "unzip"),
        ("ESC-50.zip", "is an archive", "unzip"),
        ("ESC-50.tar.gz", "is an archive", "tar -xf"),
        ("cut.zip", "is cut short or damaged", "Download it again"),
        ("cut.tar.gz", "is cut short or damaged", "Download it again"),
    ],
)
def test_a_wrong_folder_is_told_what_to_give(own, tmp_path, given, said, remedy) -> None:
    downloads = own.folder(".")
    for name in ("empty", "half", "packed"):
        (downloads / name).mkdir()
    with zipfile.ZipFile(downloads / "ESC-50.zip", "w") as file:
        file.write(own.folder("esc50") / "ESC-50-master/audio/2-100-A-0.wav", "a.wav")
    with tarfile.open(downloads / "ESC-50.tar.gz", "w:gz") as file:
        file.add(own.folder("esc50") / "ESC-50-master/audio", "audio")
    for name in ("zip", "tar.gz"):
        whole = (downloads / f"ESC-50.{name}").read_bytes()
        (downloads / f"cut.{name}").write_bytes(whole[: len(whole) // 2])
    (downloads / "half" / "ESC-50-master.zip.part").write_bytes(b"PK")
    shutil.copy(downloads / "ESC-50.zip", downloads / "packed")
    with pytest.raises((ConfigError, DataError)) as caught:
        build(read_lists(str(own.lists)), {"voc": own.folder("voc"), "esc50": downloads / given}, tmp_path / "set")
    assert said in caught.value.message
    assert remedy in caught.value.remedy
    assert not (tmp_path / "set").exists()


def test_without_sources_it_says_where_to_get_them(miniature, tmp_path) -> None:
    with pytest.raises(ConfigError) as caught:
        build(read_lists(str(miniature.lists)), {}, tmp_path / "set")
    assert all(option in caught.value.remedy for option in ("--voc", "--esc50", "--soundfont", "--videos"))
    with pytest.raises(DataError, match="No class of mini-duet has both photos and sounds") as caught_too:
        rebuild(miniature, tmp_path / "set", "voc")
    assert "--esc50" in caught_too.value.remedy
    with pytest.raises(ConfigError, match="nor a folder of lists"):
        read_lists("no-duet")


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("images", "images/dog/voc_2008_000001.jpg", "../dog.jpg"),
        ("images", "masks/dog/voc_2008_000001.png", "/tmp/dog.png"),
        ("audios", "audio/cow/esc50_1-103-A-3.ogg", "..\\cow.ogg"),
        ("images", "PASCAL VOC2012 2008_000001", "PASCAL VOC2012 ../../2008_000001"),
    ],
)
def test_lists_do_not_leave_their_folders(own, tmp_path, table, old, new) -> None:
    path = own.lists / f"{table}.csv.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    assert old in text
    path.write_bytes(gzip.compress(text.replace(old, new).encode()))
    with pytest.raises(DataError, match="outside the data set's folder"):
        rebuild(own, tmp_path / "set", "voc", "esc50")
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match="cannot be read as CSV"):
        read_lists(str(own.lists))
