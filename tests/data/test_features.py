from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

from soundwhere.data import features as module
from soundwhere.data.clips import file_key
from soundwhere.data.features import FeatureCache, encoder_id
from soundwhere.data.real_duet import RealDuet
from soundwhere.errors import DataError, MediaError


class Counting:
    """An encoder that averages cells of 32 pixels and remembers how many pictures it saw."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
        self.seen += len(pictures)
        return F.avg_pool2d(pictures, 32)


def paths(cache, clips):
    return [cache.path(clips.key(index)) for index in range(len(clips))]


def test_computes_once(tmp_path, mini_clips):
    cache, encode = FeatureCache(tmp_path, "avg", 64), Counting()
    steps = []
    assert cache.fill(mini_clips, encode, batch_size=4, progress=lambda done, total: steps.append((done, total))) == 9
    assert steps == [(4, 9), (8, 9), (9, 9)]
    assert FeatureCache(tmp_path, "avg", 64).fill(mini_clips, encode) == 0
    assert encode.seen == 9


def test_gives_the_features_of_each_picture(tmp_path, mini_clips):
    cache = FeatureCache(tmp_path, "avg", 64)
    cache.fill(mini_clips, Counting(), batch_size=4)
    for index in range(9):
        features = cache.get(mini_clips.key(index))
        assert (features.shape, features.dtype) == ((3, 2, 2), np.float16)
        red = ((20 + 20 * index) / 255 - 0.485) / 0.229
        assert np.allclose(features[0], red, atol=2e-3)


def test_another_encoder_size_or_picture_is_another_entry(tmp_path, own_root):
    encode = Counting()
    clips = RealDuet(own_root).clips("train")
    FeatureCache(tmp_path, "avg", 64).fill(clips, encode)
    assert FeatureCache(tmp_path, "other", 64).fill(clips, encode) == 6
    assert FeatureCache(tmp_path, "avg", 32).fill(clips, encode) == 6
    os.utime(own_root / "images/1.png", ns=(1, 1))
    assert FeatureCache(tmp_path, "avg", 64).fill(RealDuet(own_root).clips("train"), encode) == 0
    Image.new("RGB", (41, 32), (1, 2, 3)).save(own_root / "images/1.png")
    assert FeatureCache(tmp_path, "avg", 64).fill(RealDuet(own_root).clips("train"), encode) == 1


def test_a_picture_of_the_same_size_and_time_is_not_taken_for_another(tmp_path, own_root):
    clips, path = RealDuet(own_root).clips("train"), own_root / "images/1.png"
    cache = FeatureCache(tmp_path, "avg", 64)
    cache.fill(clips, Counting())
    before, status = cache.get(clips.key(1)).copy(), path.stat()
    Image.new("RGB", (41, 32), (200, 0, 254)).save(path)
    path.write_bytes(path.read_bytes().ljust(status.st_size, b"\0"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    again = RealDuet(own_root).clips("train")
    assert cache.fill(again, Counting()) == 1
    assert not np.array_equal(cache.get(again.key(1)), before)


def test_large_files_are_known_by_blocks_from_start_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr("soundwhere.data.clips._BLOCK_BYTES", 10)
    path = tmp_path / "film.mp4"
    whole = np.random.default_rng(0).bytes(5000)
    keys = []
    for place in (None, 0, 2500, 4999):
        changed = bytearray(whole)
        if place is not None:
            for near in range(max(0, place - 80), min(5000, place + 80)):
                changed[near] ^= 1
        path.write_bytes(changed)
        keys.append(file_key(path, tmp_path))
    path.write_bytes(whole)
    assert file_key(path, tmp_path) == keys[0]
    assert len(set(keys)) == 4


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(MediaError, match=r"gone\.png cannot be read: No such file"):
        file_key(tmp_path / "gone.png", tmp_path)


def test_stopped_in_the_middle_it_goes_on(tmp_path, mini_clips):
    def fails_later(pictures: torch.Tensor) -> torch.Tensor:
        fails_later.calls += 1
        if fails_later.calls == 3:
            raise KeyboardInterrupt
        return F.avg_pool2d(pictures, 32)

    fails_later.calls = 0
    cache = FeatureCache(tmp_path, "avg", 64)
    with pytest.raises(KeyboardInterrupt):
        cache.fill(mini_clips, fails_later, batch_size=2)
    assert sum(path.exists() for path in paths(cache, mini_clips)) == 4
    assert cache.fill(mini_clips, Counting()) == 5


@pytest.mark.parametrize("damage", ["empty", "cut short", "garbage", "other type", "removed"])
def test_a_damaged_file_is_computed_anew(tmp_path, mini_clips, damage):
    cache = FeatureCache(tmp_path, "avg", 64)
    cache.fill(mini_clips, Counting())
    path = cache.path(mini_clips.key(3))
    whole = path.read_bytes()
    if damage == "removed":
        path.unlink()
    elif damage == "other type":
        np.save(path, np.zeros((3, 2, 2)))
    else:
        path.write_bytes({"empty": b"", "cut short": whole[:-1], "garbage": b"\x00" * len(whole)}[damage])
    with pytest.raises(DataError, match="missing or damaged"):
        cache.get(mini_clips.key(3))
    assert cache.fill(mini_clips, Counting()) == 1
    assert path.read_bytes() == whole
    assert cache.get(mini_clips.key(3)).shape == (3, 2, 2)


def test_two_at_once_do_no_harm(tmp_path, mini_clips):
    cache = FeatureCache(tmp_path, "avg", 64)
    start = threading.Barrier(2)

    def fill() -> None:
        start.wait()
        cache.fill(mini_clips, Counting(), batch_size=1)

    threads = [threading.Thread(target=fill) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(paths(cache, mini_clips))
    assert cache.fill(mini_clips, Counting()) == 0


def test_processes_share_the_work(tmp_path, mini_clips, monkeypatch):
    cache = FeatureCache(tmp_path, "avg", 64)
    for number in ("world_size", "local_size"):
        monkeypatch.setattr(module, number, lambda: 2)
    done = []
    for rank in (0, 1):
        monkeypatch.setattr(module, "rank", lambda rank=rank: rank)
        done.append(cache.fill(mini_clips, Counting()))
    assert done == [5, 4]
    assert all(path.exists() for path in paths(cache, mini_clips))


def test_clips_that_share_a_picture_are_encoded_once(tmp_path, own_root):
    text = (own_root / "clips.csv").read_text().replace("images/1.png", "images/0.png")
    (own_root / "clips.csv").write_text(text)
    clips = RealDuet(own_root).clips("train")
    assert clips.key(0) == clips.key(1)
    assert FeatureCache(tmp_path / "cache", "avg", 64).fill(clips, Counting()) == 5


def test_an_encoder_is_known_by_weights_and_statistics():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    first = encoder_id("toy", encoder)
    assert first.startswith("toy-")
    assert encoder_id("toy", encoder) == first
    encoder[1].running_mean += 1e-6
    assert encoder_id("toy", encoder) != first


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert FeatureCache(None, "toy", 32).folder.parent == tmp_path / "soundwhere" / "features"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert FeatureCache(None, "toy", 32).folder.parts[-4:-1] == (".cache", "soundwhere", "features")
