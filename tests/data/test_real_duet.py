from __future__ import annotations

import collections
import csv
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.constants import CLIP_SAMPLES, MIXING_RMS, SAMPLE_RATE_HZ
from soundwhere.data.real_duet import RealDuet
from soundwhere.errors import DataError
from soundwhere.media.audio import read_audio

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("split", "count"), [("train", 6), ("val", 3), ("train+val", 9)])
def test_splits(mini_root, split, count):
    assert len(RealDuet(mini_root).clips(split)) == count


def test_a_clip_keeps_its_own_sound(mini_root, mini_clips):
    for number in range(9):
        assert mini_clips.image(number)[0, 0, 0] == 20 + 20 * number
        spectrum = np.abs(np.fft.rfft(mini_clips.sound(number)))
        assert abs(spectrum.argmax() / 3 - (200 + 50 * number)) < 1
    expected = read_audio(mini_root / "audio/3.wav")[SAMPLE_RATE_HZ : 4 * SAMPLE_RATE_HZ]
    assert np.allclose(mini_clips.sound(3), expected, atol=2e-4)


def test_a_random_part_is_3_s_of_the_recording(mini_root, mini_clips):
    whole = read_audio(mini_root / "audio/1.wav").astype(np.float16).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(whole, CLIP_SAMPLES)
    starts = set()
    for seed in range(8):
        part = mini_clips.sound(1, np.random.default_rng(seed))
        found = [start for start in np.flatnonzero(windows[:, 0] == part[0]) if np.array_equal(windows[start], part)]
        assert part.shape == (CLIP_SAMPLES,)
        assert len(found) == 1
        starts.add(found[0])
    assert len(starts) == 8


def test_training_never_opens_a_label(own_root):
    """Clips work without the class column, without images.csv and audios.csv, and are the same with them."""
    before = RealDuet(own_root).clips("train")
    rows = list(csv.DictReader((own_root / "clips.csv").open()))
    lines = ["split,image,audio", *(f"{row['split']},{row['image']},{row['audio']}" for row in rows)]
    (own_root / "clips.csv").write_text("\n".join(lines) + "\n")
    (own_root / "images.csv").unlink()
    clips = RealDuet(own_root).clips("train")
    assert [clips.key(i) for i in range(len(clips))] == [before.key(i) for i in range(len(before))]
    assert not any(kind in repr(vars(clips)) for kind in ("bell", "drum", "horn"))


def test_a_duet(mini_root):
    scenes = RealDuet(mini_root).scenes("duets_val", frame_px=64)
    (scene,) = scenes
    assert scene.image.shape == (64, 128, 3)
    assert (scene.image[:, :64, 0] == 60).all()
    assert (scene.image[:, 64:, 0] == 100).all()
    assert scene.kinds == ("bell", "drum")
    assert scenes.mask_kinds(0) == ("human", "derived")
    assert scene.silent_masks is not None
    assert len(scene.silent_masks) == 0
    for place, number in enumerate((2, 4)):
        assert not scene.masks[place, :, 64 * (1 - place) : 64 * (2 - place)].any()
        part = scene.masks[place, :, 64 * place : 64 * (place + 1)]
        rows, columns = np.nonzero(part)
        assert (rows.min(), rows.max()) == (16, 47)
        width = 40 + number
        assert abs(columns.min() - 64 * 10 / width) <= 1
        assert abs(columns.max() + 1 - 64 * (20 + number) / width) <= 1
        whole = read_audio(mini_root / f"audio/{number}.wav").astype(np.float64)
        expected = (whole * MIXING_RMS / np.sqrt(np.mean(whole**2)))[SAMPLE_RATE_HZ : 4 * SAMPLE_RATE_HZ]
        assert np.allclose(scene.sounds[place], expected, atol=1e-6)


def test_a_trio_has_a_silent_frame(mini_root):
    scenes = RealDuet(mini_root).scenes("trios_val", frame_px=32)
    scene = scenes[0]
    assert scene.image.shape == (32, 96, 3)
    assert scene.kinds == ("bell", "horn")
    assert scene.sounds.shape == (2, CLIP_SAMPLES)
    assert [np.nonzero(mask)[1].min() // 32 for mask in scene.masks] == [0, 2]
    assert [np.nonzero(mask)[1].max() // 32 for mask in scene.silent_masks] == [1]
    assert scenes.mask_kinds(0) == ("human", "human")
    assert len(scenes[:1]) == 1


def spoil(root: Path, table: str, old: str, new: str) -> None:
    text = (root / table).read_text()
    assert old in text
    (root / table).write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("table", "old", "new", "message"),
    [
        ("clips.csv", "images/1.png", "images/none.png", r"clips\.csv, line 3: images/none\.png is missing"),
        ("clips.csv", "audio/1.wav", "../x.wav", "line 3: .* is outside"),
        ("clips.csv", "audio", "sound", "no column 'audio'"),
        ("duets_val.csv", "bell|drum", "bell", r"duets_val\.csv, line 2: 2 images, 1 classes and 2 sounds"),
        ("duets_val.csv", "audio/2.wav|audio/4.wav", "|", "0 sounds"),
        ("duets_val.csv", "images/2.png", "images/0.png", r"no mask for images/0\.png"),
        ("images.csv", "masks/2.png", "masks/none.png", r"images\.csv, line 4: masks/none\.png is missing"),
    ],
)
def test_errors_name_the_line(own_root, table, old, new, message):
    spoil(own_root, table, old, new)
    with pytest.raises(DataError, match=message) as caught:
        _ = RealDuet(own_root).clips("train"), RealDuet(own_root).scenes("duets_val")
    assert caught.value.remedy


def test_missing_folder_split_and_broken_mask(own_root, tmp_path):
    with pytest.raises(DataError, match="is not a folder"):
        RealDuet(tmp_path / "none")
    with pytest.raises(DataError, match="no clips of the split 'test'"):
        RealDuet(own_root).clips("test")
    (own_root / "masks/2.png").write_bytes((own_root / "masks/2.png").read_bytes()[:40])
    with pytest.raises(DataError, match=r"masks/2\.png is not a readable PNG"):
        _ = RealDuet(own_root).scenes("duets_val")[0]


def test_the_real_one(shared):
    data = RealDuet(shared / "data/real-duet")
    clips = {split: data.clips(split) for split in ("train", "val", "test", "train+val")}
    counts = {split: len(part) for split, part in clips.items()}
    assert counts == {"train": 1788, "val": 181, "test": 262, "train+val": 1969}
    photos = {split: {clips[split].key(i) for i in range(counts[split])} for split in ("train", "val", "test")}
    assert {split: len(keys) for split, keys in photos.items()} == {"train": 1756, "val": 180, "test": 261}
    assert not photos["train"] & photos["test"]
    for name, count, derived in (("duets_val", 300, 0), ("duets_test", 500, 237), ("trios_test", 500, 229)):
        scenes = data.scenes(name)
        kinds = collections.Counter(kind for i in range(len(scenes)) for kind in scenes.mask_kinds(i))
        assert len(scenes) == count
        assert kinds == collections.Counter(human=2 * count - derived, derived=derived)


def test_a_real_scene_as_the_readme_scores_it(shared):
    """Against a plain reading of the CSV with Pillow and the mask's share of the photo."""
    root = shared / "data/real-duet"
    row = next(csv.DictReader((root / "trios_test.csv").open()))
    masks = {r["image"]: r for r in csv.DictReader((root / "images.csv").open())}
    scene = RealDuet(root).scenes("trios_test")[0]
    assert scene.image.shape == (224, 672, 3)
    images, audios = row["images"].split("|"), row["audios"].split("|")
    sounding = [place for place, audio in enumerate(audios) if audio]
    for index, place in enumerate(sounding):
        part = scene.masks[index, :, 224 * place : 224 * (place + 1)]
        assert part.sum() == scene.masks[index].sum()
        assert abs(part.mean() - float(masks[images[place]]["mask_frac"])) < 0.01
        whole = read_audio(root / audios[place])
        assert len(whole) == 5 * SAMPLE_RATE_HZ
        ratio = scene.sounds[index] / np.where(whole[22_050:88_200] == 0, 1, whole[22_050:88_200])
        assert np.median(ratio) == pytest.approx(MIXING_RMS / np.sqrt(np.mean(whole.astype(float) ** 2)), rel=1e-3)
    photo = Image.open(root / images[0]).convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
    assert np.abs(np.asarray(photo).astype(int) - scene.image[:, :224]).mean() < 1


def test_scenes_can_be_mirrored_and_stacked(mini_root):
    data = RealDuet(mini_root)
    listed, mirrored, stacked = (
        data.scenes("trios_val", 32, order)[0] for order in ("side-by-side", "mirrored", "stacked")
    )
    assert np.array_equal(mirrored.image, listed.image[:, ::-1])
    assert np.array_equal(mirrored.masks, listed.masks[..., ::-1])
    assert np.array_equal(mirrored.silent_masks, listed.silent_masks[..., ::-1])
    columns = np.split(listed.image, 3, axis=1)
    assert np.array_equal(stacked.image, np.concatenate(columns, axis=0))
    assert np.array_equal(stacked.masks, np.concatenate(np.split(listed.masks, 3, axis=2), axis=1))
    for other in (mirrored, stacked):
        assert np.array_equal(other.sounds, listed.sounds)
        assert other.kinds == listed.kinds
