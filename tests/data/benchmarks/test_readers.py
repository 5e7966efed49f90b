"""Each reader on miniature media."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from soundwhere.constants import CLIP_SAMPLES
from soundwhere.data.benchmarks.catalogue import Options, open_benchmark
from soundwhere.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pathlib import Path

DOG, DRUM, CHOIR, SPEECH = "dogdogdogdo_000001", "drumdrumdru_000002", "choirchoirc_000003", "speechspeec_000004"


def test_vgg_ss(media: Path, annotations: Path) -> None:
    benchmark = open_benchmark("vgg-ss", media, annotations)
    assert benchmark.order == (DOG, DRUM, SPEECH)
    assert [scene.name for scene in benchmark.scenes] == list(benchmark.order)
    assert [(item.scene, item.reason) for item in benchmark.missing] == [
        (CHOIR, f"no picture {CHOIR}, no sound {CHOIR}")
    ]
    dog, drum, speech = benchmark.scenes
    assert dog.image.shape == speech.image.shape == (224, 224, 3)
    assert abs(int(dog.image.mean()) - 60) < 3
    assert dog.sounds.shape == drum.sounds.shape == (1, CLIP_SAMPLES)
    assert dog.kinds == ("dog barking",)
    expected = np.zeros((224, 224), bool)
    expected[:112, :112] = expected[56:, 56:112] = True
    np.testing.assert_array_equal(dog.masks[0], expected)
    assert drum.masks.sum() == 112 * 112
    # 1 s of sound is repeated to 3 s
    np.testing.assert_array_equal(drum.sounds[0, :22050], drum.sounds[0, 22050:44100])
    assert "1 boxes are empty" not in benchmark.describe()
    assert "2 boxes are empty, clipped or not: dropped" in benchmark.describe()
    assert not benchmark.truths[2].masks.any()


@pytest.mark.parametrize(("subset", "names"), [("heard", (DOG, DRUM)), ("unheard", (SPEECH,))])
def test_heard_and_unheard(media: Path, annotations: Path, subset, names) -> None:
    benchmark = open_benchmark("vgg-ss", media, annotations, Options(subset=subset))
    assert benchmark.order == names
    assert benchmark.choices["subset"] == subset
    assert not benchmark.missing


def test_missing_scenes_are_told_listed_and_never_dropped_in_silence(media: Path, annotations: Path, tmp_path) -> None:
    benchmark = open_benchmark("vggsound-duet", media, annotations)
    assert benchmark.usable() == "3 of 4 scenes usable"
    with pytest.raises(DataError, match="3 of 4 scenes usable") as caught:
        benchmark.require()
    assert "--allow-missing" in caught.value.remedy
    benchmark.require(allow_missing=True)
    benchmark.write_missing(tmp_path / "missing.csv")
    lines = (tmp_path / "missing.csv").read_text().splitlines()
    assert lines[0] == "scene,reason"
    assert len(lines) == 2
    assert lines[1].startswith(f"{CHOIR}+{CHOIR},")
    nothing = open_benchmark("vggsound-duet", None, annotations)
    with pytest.raises(DataError, match="0 of 4 scenes usable"):
        nothing.require(allow_missing=True)
    assert len(nothing.truths) == 4


def test_vggsound_duet(media: Path, annotations: Path) -> None:
    benchmark = open_benchmark("vggsound-duet", media, annotations)
    assert benchmark.grid == (1, 2)
    scene = benchmark.scenes[1]  # drum on the left, dog on the right
    solos = {scene.name: scene for scene in open_benchmark("vgg-ss", media, annotations).scenes}
    np.testing.assert_array_equal(scene.image, np.hstack([solos[DRUM].image, solos[DOG].image]))
    np.testing.assert_array_equal(scene.sounds, np.vstack([solos[DRUM].sounds, solos[DOG].sounds]))
    np.testing.assert_array_equal(scene.mixture, solos[DRUM].mixture + solos[DOG].mixture)
    empty = np.zeros((224, 224), bool)
    np.testing.assert_array_equal(scene.masks[0], np.hstack([solos[DRUM].masks[0], empty]))
    np.testing.assert_array_equal(scene.masks[1], np.hstack([empty, solos[DOG].masks[0]]))
    assert scene.kinds == ("playing drum", "dog barking")
    assert [part.name for part in benchmark.scenes[1:]] == list(benchmark.order[1:])
    assert "1 pairs are of one class: kept" in benchmark.describe()


def test_levels(media: Path, annotations: Path) -> None:
    recorded = open_benchmark("vggsound-duet", media, annotations).scenes[1].sounds
    equal = open_benchmark("vggsound-duet", media, annotations, Options(level="equal-rms")).scenes[1].sounds
    rms = np.sqrt(np.mean(recorded**2, axis=1))
    assert rms[1] / rms[0] == pytest.approx(4, rel=0.05)  # 0.4 against 0.1
    np.testing.assert_allclose(np.sqrt(np.mean(equal**2, axis=1)), 0.1, rtol=1e-3)


def test_pairings(media: Path, annotations: Path, tmp_path: Path) -> None:
    accessible = open_benchmark("vggsound-duet", media, annotations, Options(pairing="accessible"))
    accessible.require()
    assert accessible.total == 3
    random = open_benchmark("vggsound-duet", media, annotations, Options(pairing="random", seed=5))
    random.require()
    assert {name.split("+")[0] for name in random.order} == {DOG, DRUM, SPEECH}
    assert random.choices["pairing"] == "random, seed 5"
    random.write_list(tmp_path / "pairs.csv")
    again = open_benchmark("vggsound-duet", media, annotations, Options(pairing=str(tmp_path / "pairs.csv")))
    assert again.order == random.order
    with pytest.raises(ConfigError, match="seed of the pairs is -1"):
        open_benchmark("vggsound-duet", media, annotations, Options(pairing="random", seed=-1))
    with pytest.raises(ConfigError, match="no pairing 'best'") as caught:
        open_benchmark("vggsound-duet", media, annotations, Options(pairing="best"))
    assert "published, accessible, random" in caught.value.remedy
    with pytest.raises(DataError, match="No pair"):
        open_benchmark("vggsound-duet", annotations, annotations, Options(pairing="accessible"))


def test_a_saved_list_has_the_form_of_the_published_one(media: Path, annotations: Path, tmp_path: Path) -> None:
    open_benchmark("vggsound-duet", media, annotations).write_list(tmp_path / "list.csv")
    published = (annotations / "avgn/vggsound_duet_test.csv").read_text().splitlines()
    assert (tmp_path / "list.csv").read_text().splitlines() == published[:3]


def test_vggsound_duet_mask(media: Path, annotations: Path, masks: Path) -> None:
    benchmark = open_benchmark("vggsound-duet-mask", media, annotations, Options(masks=masks))
    assert (benchmark.truth, benchmark.order) == ("masks", (f"{DOG}+{SPEECH}",))
    assert [item.reason for item in benchmark.missing if item.scene.startswith(SPEECH)] == [f"no mask {DRUM}"]
    expected = np.zeros((2, 224, 448), bool)
    expected[0, :112, :112] = expected[1, :112, 224:336] = True
    np.testing.assert_array_equal(benchmark.scenes[0].masks, expected)
    assert len(benchmark.truths) == 1
    shutil.copytree(masks, media / "masks")
    assert open_benchmark("vggsound-duet-mask", media, annotations).order == benchmark.order


def test_masks_must_be_given(media: Path, annotations: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        open_benchmark("vggsound-duet-mask", media, annotations)
    assert "--masks" in caught.value.remedy
    for name in ("vggsound-duet-mask", "vggsound-instruments"):
        with pytest.raises(DataError, match="not a folder"):
            open_benchmark(name, media, annotations, Options(masks=media / "absent"))


def test_instruments(tmp_path: Path, annotations: Path, masks: Path, still) -> None:
    for number in range(2):
        still(tmp_path / "m", f"sample000{number}", 50 + 100 * number)
    single = open_benchmark("vggsound-instruments", tmp_path / "m", annotations, Options(masks=masks))
    pair = open_benchmark("vggsound-instruments-duet", tmp_path / "m", annotations, Options(masks=masks))
    single.require()
    pair.require()
    assert (single.grid, pair.grid) == ((1, 1), (1, 2))
    assert [scene.kinds for scene in single.scenes] == [("banjo",), ("steel guitar",)]
    assert pair.scenes[0].image.shape == (224, 448, 3)
    assert pair.scenes[0].kinds == ("banjo", "steel guitar")
    assert pair.scenes[0].masks.sum(axis=(1, 2)).tolist() == [112 * 112] * 2
    without = open_benchmark("vggsound-instruments", tmp_path / "m", annotations)
    assert [item.reason for item in without.missing] == ["no mask sample0000", "no mask sample0001"]


@pytest.mark.parametrize("name", ["music-duet", "music-duet-avgn"])
@pytest.mark.parametrize("clip", ["HnUOaSfTA6c_001_00030", "HnUOaSfTA6c_0_1000/frame_001/00030", "video"])
def test_music_duet(tmp_path: Path, annotations: Path, clip_path: Path, still, name: str, clip: str) -> None:
    media = tmp_path / "m"
    if clip == "video":
        media.mkdir()
        shutil.copy(clip_path, media / "HnUOaSfTA6c.mp4")
    else:
        still(media, clip, 80)
    benchmark = open_benchmark(name, media, annotations)
    benchmark.require()
    assert benchmark.order == ("HnUOaSfTA6c_001_00030",)
    scene = benchmark.scenes[0]
    assert (scene.image.shape, benchmark.grid) == ((224, 224, 3), (1, 1))
    assert scene.kinds == ("cello", "acoustic guitar")
    assert scene.sounds.shape == (1, CLIP_SAMPLES)  # a native mixture
    assert scene.masks.shape == (2, 224, 224)
    expected = np.zeros((224, 224), bool)
    expected[22:134, 22:134] = True
    np.testing.assert_array_equal(scene.masks[0], expected)
    width = 112 if name == "music-duet" else 89  # 0.5 to 1.0, or to 0.9
    assert scene.masks[1].sum() == 112 * width


@pytest.mark.parametrize("name", ["music-solo", "music-solo-avgn"])
def test_music_solo(tmp_path: Path, annotations: Path, still, name: str) -> None:
    still(tmp_path / "m", "HnUOaSfTA6c_002_00060", 80)
    benchmark = open_benchmark(name, tmp_path / "m", annotations)
    benchmark.require()
    assert benchmark.scenes[0].masks.shape == (1, 224, 224)


def test_frames_of_one_player_are_set_aside_and_told(annotations: Path) -> None:
    told = open_benchmark("music-duet", None, annotations).describe()
    assert "3 frames, 2 with boxes, 1 that count" in told
    assert "1 frames show one class of two: set aside" in told
    assert "1 frames have no box: set aside" in told


def test_boxes_that_disagree_are_told(annotations: Path) -> None:
    path = annotations / "dsol/duettest.json"
    frames = json.loads(path.read_text())
    frames["HnUOaSfTA6c_0_1000/frame_001/00030.jpg"]["bbox"][0]["box"] = [0, 0, 10, 10]
    path.write_text(json.dumps(frames))
    assert "1 boxes differ in pixels and in shares" in open_benchmark("music-duet", None, annotations).describe()


def test_music_synthetic(tmp_path: Path, still) -> None:
    still(tmp_path, "one", 80)
    (tmp_path / "box").mkdir()
    rows = [[0, 0, 0.5, 0.5, 3], [0.5, 0.5, 0.5, 0.5, 8], [0.5, 0, 0.25, 0.25, 8]]
    np.save(tmp_path / "box" / "one.npy", np.array(rows))
    np.save(tmp_path / "box" / "two.npy", np.array(rows[:1]))
    benchmark = open_benchmark("music-synthetic", tmp_path)
    assert benchmark.order == ("one",)
    assert [item.scene for item in benchmark.missing] == ["two"]
    assert benchmark.scenes[0].masks.sum(axis=(1, 2)).tolist() == [112 * 112, 112 * 112 + 56 * 56]
    np.save(tmp_path / "box" / "bad.npy", np.zeros((2, 4)))
    with pytest.raises(DataError, match=r"bad\.npy has the shape"):
        open_benchmark("music-synthetic", tmp_path)
    with pytest.raises(DataError, match="no boxes"):
        open_benchmark("music-synthetic", tmp_path / "frames")


def test_silent_negatives(media: Path, annotations: Path) -> None:
    benchmark = open_benchmark("silent-negatives", media, annotations)
    assert benchmark.usable() == "1 of 2 scenes usable"
    scene = benchmark.scenes[0]
    solos = {scene.name: scene for scene in open_benchmark("vgg-ss", media, annotations).scenes}
    np.testing.assert_array_equal(scene.image, solos[DOG].image)
    np.testing.assert_array_equal(scene.sounds, solos[DRUM].sounds)
    assert scene.masks.shape == (0, 224, 224)
    assert benchmark.truth == "none"


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        ("vgg-ss", "lvs/vggss.json", '[{"file": "a"}]', "entry 1: there is no `bbox`"),
        ("vgg-ss", "lvs/vggss.json", '[{"file": "a", "class": 3, "bbox": []}]', "entry 1: `class` is 3"),
        ("vgg-ss", "lvs/vggss.json", '[{"file": "a", "class": "b", "bbox": [[1]]}]', "entry 1: .* not a box"),
        ("vgg-ss", "lvs/vggss.json", '[{"file": "a",\n', "line 2"),
        ("vgg-ss", "lvs/vggss.json", "{}", "not a list of clips"),
        ("vggsound-duet", "avgn/vggsound_duet_test.csv", "a,b,c\n", "line 1: 3 cells"),
        ("vggsound-duet", "avgn/vggsound_duet_test.csv", "a,b,c,d\n", "line 1: no truth is known for a"),
        ("vggsound-duet", "avgn/vggsound_duet_test.csv", f"{DOG},cat,{DRUM},playing_drum\n", "line 1: .*'dog barking'"),
        ("vggsound-instruments", "avgn/vgginstruments_test.csv", "s,a\ns,a\n", "s appears twice"),
        ("music-duet", "dsol/duettest.json", '{"x.jpg": {}}', "x.jpg: the frame is not called"),
        ("music-duet", "dsol/duettest.json", "[]", "not a table"),
        ("music-duet-avgn", "avgn/music_duet.json", '[{"file": "x"}]', "entry 1: 'x' is not called"),
        ("silent-negatives", "slavc/vggss_test_plus_silent.csv", "video,audio\na,b\n", "no column 'label'"),
        ("silent-negatives", "slavc/vggss_test_plus_silent.csv", "video,audio,label\na,b,loud\n", "line 2: .*'loud'"),
    ],
)
def test_malformed_files_are_errors_with_their_place(annotations: Path, name, file, text, message) -> None:
    (annotations / file).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        open_benchmark(name, None, annotations)
    assert (annotations / file).name in str(caught.value)


def test_an_unknown_category_is_an_error(annotations: Path) -> None:
    path = annotations / "dsol/solotest.json"
    path.write_text(path.read_text().replace('"category_id": 1', '"category_id": 99'))
    with pytest.raises(DataError, match="category 99"):
        open_benchmark("music-solo", None, annotations)


def test_a_clip_of_a_list_that_vgg_ss_does_not_know(media: Path, annotations: Path) -> None:
    (annotations / "ez-vsl/vggss_heard_test.csv").write_text(f"{DOG}\nstranger\n")
    with pytest.raises(DataError, match="line 2: stranger is not in VGG-SS"):
        open_benchmark("vgg-ss", media, annotations, Options(subset="heard"))
