"""Clips out of shards: any at any time, the same for every process; opening costs the same for any number of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

from soundwhere.config import DataConfig
from soundwhere.constants import CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.data.draws import batches
from soundwhere.data.mixtures import Mixtures
from soundwhere.data.shard_cache import RemoteFiles, remote_address
from soundwhere.data.shard_index import RECORD, read_index, shard_name, write_index
from soundwhere.data.shards import ShardClips, frame_times
from soundwhere.data.training_scenes import Needs, make_draws
from soundwhere.errors import ConfigError, DataError
from soundwhere.media.audio import write_wav
from soundwhere.media.encoded import decode_sound
from soundwhere.methods.files import load_model
from soundwhere.preparation.lists import Listing
from soundwhere.preparation.prepare import prepare
from soundwhere.preparation.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 9


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine photos, each of its own grey, beside sounds of 8 s that rise from 0 to 1."""
    folder = tmp_path_factory.mktemp("films")
    for number in range(COUNT):
        Image.new("RGB", (64, 64), (20 * number,) * 3).save(folder / f"{number}.png")
        write_wav(folder / f"{number}.wav", np.linspace(0, 0.9, 8 * SAMPLE_RATE_HZ).astype(np.float32))
    return folder


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory, films: Path) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    prepare(folder, Listing([films]), Recipe(short_px=64), clips_per_shard=4, workers=1)
    return folder


@pytest.fixture(scope="module")
def video_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One clip of 12 s that grows lighter and louder."""
    import av

    folder = tmp_path_factory.mktemp("video")
    path = folder / "v" / "clip.mp4"
    path.parent.mkdir()
    from fractions import Fraction

    with av.open(path, "w") as container:
        video = container.add_stream("libx264", rate=2, width=64, height=64, pix_fmt="yuv420p")
        audio = container.add_stream("aac", rate=SAMPLE_RATE_HZ, layout="mono")
        for index in range(24):
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 10 * index, np.uint8), format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 2)
            container.mux(video.encode(frame))
        sound = np.linspace(0, 0.5, 12 * SAMPLE_RATE_HZ).astype(np.float32)[None]
        sound *= np.sin(np.arange(sound.shape[1]) / 5).astype(np.float32)
        block = av.AudioFrame.from_ndarray(np.ascontiguousarray(sound), format="fltp", layout="mono")
        block.sample_rate, block.pts, block.time_base = SAMPLE_RATE_HZ, 0, Fraction(1, SAMPLE_RATE_HZ)
        container.mux(audio.encode(block))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))
    prepare(folder / "out", Listing([path.parent]), Recipe(frames=4, window_s=12), workers=1)
    return folder / "out"


def copy(shards: Path, folder: Path) -> Path:
    return shutil.copytree(shards, folder / "copy")


def test_frame_and_window_go_together(video_shards: Path) -> None:
    clips = ShardClips(video_shards)
    times_s = clips.facts(0)["frame_times_s"]
    assert times_s == pytest.approx(frame_times(0, 12, 4)) == [4.5, 7.5, 1.5, 10.5]
    whole = decode_sound(clips._members(clips._records[0])["flac"])
    for frame, time_s in enumerate(times_s):
        shade = clips.image(frame * len(clips)).mean()
        assert shade == pytest.approx(10 * int(time_s * 2), abs=4)
        for seed in range(30):
            heard = clips.sound(frame * len(clips), np.random.default_rng(seed))
            starts = np.flatnonzero(whole[: -CLIP_SAMPLES + 1 or None] == heard[0])
            start = next(s for s in starts if np.array_equal(whole[s : s + CLIP_SAMPLES], heard))
            assert start <= time_s * SAMPLE_RATE_HZ <= start + CLIP_SAMPLES
        quiet = clips.sound(frame * len(clips))
        assert len(quiet) == CLIP_SAMPLES


def test_draws_show_every_frame_and_depend_on_seed_and_number_alone(shards: Path, video_shards: Path) -> None:
    clips = ShardClips(shards)
    assert clips.frames == 3
    scenes = Mixtures(clips, batch_size=4, seed=3, frame_px=32)
    again = Mixtures(ShardClips(shards), batch_size=4, seed=3, frame_px=32)
    drawn = [scenes.draw(number) for number in range(40)]
    for number in reversed(range(40)):  # in another order, by another
        other = again.draw(number)
        np.testing.assert_array_equal(other.image, drawn[number].image)
        np.testing.assert_array_equal(other.sounds, drawn[number].sounds)
    frames = {number // len(clips) for place in range(40) for number in scenes.picture(place).cast}
    assert frames == {0, 1, 2}
    for place in range(40):
        cast = [number % len(clips) for number in scenes.picture(place).cast]
        assert len(set(cast)) == 2


def test_workers_do_not_change_what_a_step_sees(shards: Path) -> None:
    scenes = [Mixtures(ShardClips(shards), batch_size=4, seed=1, frame_px=32) for _ in range(2)]
    alone = list(batches(scenes[0], range(3, 6), 4))
    several = list(batches(scenes[1], range(3, 6), 4, workers=2))
    for one, other in zip(alone, several, strict=True):
        assert torch.equal(one.mixture, other.mixture)
        assert one.image is not None
        assert other.image is not None
        assert torch.equal(one.image, other.image)


def test_settings_lead_to_shards_and_stored_features_are_taken(films: Path, shards: Path, tmp_path: Path) -> None:
    model = load_model("scav-mobile")
    eye, side = model.eye, model.config.frame_px
    assert eye is not None
    prepare(tmp_path / "out", Listing([films]), Recipe(features="scav-mobile", frames=1), workers=1)
    data = DataConfig(source="shards", root=tmp_path / "out")
    draws = make_draws(data, Needs(), batch_size=2, seed=0, frame_px=side, eye=eye)
    example = draws.draw(0)
    assert example.image is None
    assert example.features is not None
    clips = ShardClips(tmp_path / "out")
    from soundwhere.media.image import normalise, resize

    picture = draws.picture(0)  # type: ignore[attr-defined]
    with torch.no_grad():
        expected = [eye.encode(normalise(resize(clips.image(n), (side, side))[None]))[0] for n in picture.cast]
    np.testing.assert_allclose(example.features, torch.cat(expected, 2).numpy(), atol=2e-2)
    # those of another encoder are not: pictures are encoded as they are seen, and nothing is cached
    other = make_draws(replace(data, root=shards), Needs(), batch_size=2, seed=0, frame_px=side, eye=eye).draw(0)
    assert other.features is None
    assert other.image is not None


def test_classes_are_read_only_if_they_are_asked_for(video_shards: Path, tmp_path: Path) -> None:
    shutil.copy(video_shards.parent / "v" / "clip.mp4", tmp_path / "clip.mp4")
    rows = "".join(f"clip.mp4,{start},{start + 3},{kind}\n" for start, kind in ((0, "even"), (3, "odd"), (6, "even")))
    (tmp_path / "list.csv").write_text(f"file,start,end,label\n{rows}")
    prepare(tmp_path / "out", Listing([tmp_path / "list.csv"]), Recipe(), workers=1)
    assert ShardClips(tmp_path / "out").kinds is None
    assert ShardClips(tmp_path / "out", labels=True).kinds == ["even", "odd", "even"]


START = """
import sys, time
from pathlib import Path
from soundwhere.config import DataConfig
from soundwhere.data.training_scenes import Needs, make_draws
from soundwhere.data.draws import batches
def peak_mb():  # not getrusage's, which begins with that of the process that started this one
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
began, before = time.process_time(), peak_mb()  # its own seconds, however busy the machine is
draws = make_draws(DataConfig(source="shards", root=Path(sys.argv[1])), Needs(), batch_size=8, seed=0, frame_px=32)
next(iter(batches(draws, range(1), 8)))
print(time.process_time() - began, peak_mb() - before, len(draws))
"""


def made_index(shards: Path, folder: Path, count: int) -> Path:
    """A set with so many clips in its index, each of them one of those that are there."""
    folder = shutil.copytree(shards, folder)
    header, records = read_index(folder / "index.bin")
    many = np.tile(np.asarray(records), -(-count // len(records)))[:count]
    header["clips"] = count
    write_index(folder / "index.bin", header, many)
    return folder


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux how much memory was taken")
def test_two_million_clips_start_like_a_hundred(shards: Path, tmp_path: Path) -> None:
    few, many = (made_index(shards, tmp_path / str(count), count) for count in (100, 2_000_000))

    def start(folder: Path) -> tuple[float, float]:
        run = subprocess.run([sys.executable, "-c", START, str(folder)], capture_output=True, text=True, check=True)
        seconds, megabytes, length = map(float, run.stdout.split())
        assert length == int(folder.name)
        assert megabytes > 0
        return seconds, megabytes

    usual, found = start(few), start(many)
    assert found[0] - usual[0] < 3.0
    assert found[1] - usual[1] < 150


def test_what_is_not_a_complete_set_is_refused(shards: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a set of shards"):
        ShardClips(tmp_path)
    folder = copy(shards, tmp_path)
    (folder / "index.bin").unlink()
    with pytest.raises(DataError, match="is not complete"):
        ShardClips(folder)
    (folder / "index.bin").write_bytes(b"SWINDEX1 and then nothing that makes sense")
    with pytest.raises(DataError, match="is not an index of shards"):
        ShardClips(folder)
    shutil.copy(shards / "index.bin", folder / "index.bin")
    content = (folder / "index.bin").read_bytes()
    (folder / "index.bin").write_bytes(content[:-20])
    with pytest.raises(DataError, match="bytes instead of"):
        ShardClips(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "index.bin").write_bytes(content)
    (folder / "manifest.json").write_text(json.dumps(manifest | {"recipe": manifest["recipe"] | {"frames": 9}}))
    with pytest.raises(DataError, match="index of another set"):
        ShardClips(folder)
    (folder / "manifest.json").write_text(json.dumps(manifest | {"format": 2}))
    with pytest.raises(DataError, match="is of format 2"):
        ShardClips(folder)


def test_a_truncated_tar_and_one_of_another_set_are_told(shards: Path, tmp_path: Path) -> None:
    folder = copy(shards, tmp_path)
    tar = folder / shard_name(0)
    content = tar.read_bytes()
    tar.write_bytes(content[:5000])
    with pytest.raises(DataError, match="5000 bytes instead of"):
        ShardClips(folder).image(0)
    header, records = read_index(folder / "index.bin")
    tar.write_bytes(content)
    moved = np.array(records)
    moved["number"] += 1  # as in the index of another tar of the same size
    write_index(folder / "index.bin", header, moved)
    with pytest.raises(DataError, match="the index is that of another tar"):
        ShardClips(folder).sound(0)
    write_index(folder / "index.bin", header, np.asarray(records))
    spoilt = bytearray(content)
    begin = int(records[0]["offset"]) + 512
    spoilt[begin : begin + 40] = b"\0" * 40
    tar.write_bytes(spoilt)
    with pytest.raises(DataError, match=r"000000000.0.jpg is missing or damaged"):
        ShardClips(folder).image(0)


def test_a_record_takes_the_same_room_everywhere() -> None:
    assert RECORD.itemsize == 48


def test_roots_elsewhere_are_copied_shard_by_shard(shards: Path, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    address = f"file://{shards}"
    clips = ShardClips(address, cache=tmp_path)
    expected = ShardClips(shards)
    (cache,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert not list(cache.glob("*.tar"))  # nothing before it is asked for
    np.testing.assert_array_equal(clips.image(0), expected.image(0))
    assert [path.name for path in cache.glob("*.tar")] == [shard_name(0)]
    for index in range(len(expected)):
        np.testing.assert_array_equal(clips.sound(index), expected.sound(index))
        assert clips.key(index) == expected.key(index)
    assert len(list(cache.glob("*.tar"))) == 3


def test_the_cache_stays_within_its_bound(shards: Path, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    sizes = [path.stat().st_size for path in shards.glob("*.tar")]
    limit = sum(sizes) - min(sizes) // 2  # all but one
    with pytest.warns(UserWarning, match="larger than the cache"):
        clips = ShardClips(f"file://{shards}", cache=tmp_path, cache_gb=limit / 1e9)
    expected = ShardClips(shards)
    (cache,) = (path for path in tmp_path.iterdir() if path.is_dir())
    for index in (0, 4, 8, 0, 4, 8):
        clips._open.clear()  # as in another process
        np.testing.assert_array_equal(clips.image(index), expected.image(index))
        assert sum(path.stat().st_size for path in cache.glob("*.tar")) <= limit


def test_a_set_made_anew_under_its_address_is_copied_anew(shards: Path, films: Path, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    folder = copy(shards, tmp_path)
    ShardClips(f"file://{folder}", cache=tmp_path / "cache").image(0)
    shutil.rmtree(folder)
    prepare(folder, Listing([films]), Recipe(short_px=32), clips_per_shard=4, workers=1)
    assert ShardClips(f"file://{folder}", cache=tmp_path / "cache").image(0).shape == (32, 32, 3)


def test_a_remote_root_without_access_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(DataError, match="does not exist"):
        ShardClips(f"file://{tmp_path}/nothing", cache=tmp_path)
    from fsspec.implementations.local import LocalFileSystem

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("403 Forbidden")

    monkeypatch.setattr(LocalFileSystem, "cat_file", refuse)
    with pytest.raises(DataError, match="cannot be read: 403 Forbidden") as caught:
        ShardClips(f"file://{tmp_path}", cache=tmp_path)
    assert "permissions" in caught.value.remedy
    with pytest.raises(DataError, match="cannot be opened: Protocol not known") as caught:
        RemoteFiles("nosuchprotocol://host/x", tmp_path, 1)
    assert "s3://" in caught.value.remedy


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if "secret" in self.path:
            self.send_error(403)
        else:
            super().do_GET()


@pytest.fixture
def web(shards: Path) -> Iterator[str]:
    handler = lambda *arguments: Quiet(*arguments, directory=str(shards))  # noqa: E731
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_shards_over_http(web: str, shards: Path, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="fsspec opens http addresses with aiohttp")
    expected = ShardClips(shards)
    sizes = [path.stat().st_size for path in shards.glob("*.tar")]
    limit = sum(sizes) - min(sizes) // 2  # all but one
    with pytest.warns(UserWarning, match="larger than the cache"):
        clips = ShardClips(web, cache=tmp_path, cache_gb=limit / 1e9)
    (cache,) = (path for path in tmp_path.iterdir() if path.is_dir())
    for index in (0, 8, 4, 0):
        clips._open.clear()  # as in another process
        np.testing.assert_array_equal(clips.image(index), expected.image(index))
        np.testing.assert_array_equal(clips.sound(index), expected.sound(index))
        assert 0 < sum(path.stat().st_size for path in cache.glob("*.tar")) <= limit


def test_a_web_server_that_refuses_is_told(web: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("aiohttp", reason="fsspec opens http addresses with aiohttp")
    from soundwhere.cli.main import run

    with pytest.raises(DataError, match=r"secret/manifest.json cannot be read: 403") as caught:
        ShardClips(f"{web}/secret", cache=tmp_path)
    assert "permissions" in caught.value.remedy
    with pytest.raises(DataError, match=r"nothing/manifest.json does not exist") as caught:
        ShardClips(f"{web}/nothing", cache=tmp_path)
    assert "soundwhere prepare" in caught.value.remedy
    nobody = "http://127.0.0.1:9"  # where nothing listens
    with pytest.raises(DataError, match=r"127.0.0.1:9/manifest.json cannot be read: .*[Cc]onnect"):
        ShardClips(nobody, cache=tmp_path)
    flags = [
        "--model",
        "scav-tiny",
        "--source",
        "shards",
        "--shard-cache",
        str(tmp_path),
        "--out",
        str(tmp_path / "run"),
    ]
    assert run(["train", "--root", f"{web}/secret", *flags]) == 2
    assert "secret/manifest.json cannot be read: 403" in capsys.readouterr().err


def test_addresses_and_folders_are_told_apart(tmp_path: Path) -> None:
    assert remote_address(tmp_path) is None
    assert remote_address("C:/shards") is None
    assert remote_address(tmp_path.__class__("file:///a/b")) == remote_address("file:///a/b") == "file:///a/b"
    assert remote_address(tmp_path.__class__("https://host/a/b")) == "https://host/a/b"
    data = DataConfig(source="folder", root=tmp_path.__class__("s3://bucket/x"))
    with pytest.raises(ConfigError, match="is read from folders"):
        make_draws(data, Needs(), batch_size=2, seed=0, frame_px=32)
