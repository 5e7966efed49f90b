"""Shards: the same bytes whoever makes them, in a layout others read; nothing is lost, nothing starts over."""

from __future__ import annotations

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from soundwhere.data.shard_index import read_index
from soundwhere.data.shards import ShardClips
from soundwhere.errors import ConfigError, OutputError
from soundwhere.files import lock
from soundwhere.media.audio import read_audio, write_wav
from soundwhere.media.video import read_frames
from soundwhere.preparation.lists import Entry, Listing
from soundwhere.preparation.plan import read_plan
from soundwhere.preparation.prepare import prepare
from soundwhere.preparation.recipe import Recipe
from soundwhere.preparation.shard import LOCKS, ShardMaker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = Recipe(short_px=32)


def make(folder: Path, videos: Path, recipe: Recipe = SMALL, **keywords: Any) -> Any:
    return prepare(folder, Listing([videos]), recipe, **{"clips_per_shard": 3, "workers": 1, **keywords})


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "soundwhere", "prepare", *map(str, arguments)]


@pytest.fixture(scope="module")
def peace(tmp_path_factory: pytest.TempPathFactory, videos: Path) -> Path:
    """A set made by one worker, in order."""
    folder = tmp_path_factory.mktemp("peace")
    report = make(folder, videos)
    assert report.complete
    return folder


def test_a_set_holds_what_the_videos_show_and_sound_like(peace: Path, videos: Path) -> None:
    clips = ShardClips(peace)
    assert len(clips) == 13
    facts = [clips.facts(index) for index in range(len(clips))]
    assert [fact["id"] for fact in facts] == [entry.name for entry in Listing([videos]).entries()][1:]
    for index in (0, 1, 5):
        fact = facts[index]
        middle_s = (fact["start_s"] + fact["end_s"]) / 2
        assert fact["frame_times_s"][0] == pytest.approx(middle_s)
        for frame, time_s in enumerate(fact["frame_times_s"]):
            shown = clips.image(index + frame * len(clips)).astype(int)
            original = read_frames(videos / fact["file"], [time_s])[0].image
            assert shown.shape == (32, 43, 3)
            assert abs(shown.mean() - original.mean()) < 3
        whole = read_audio(videos / fact["file"], fact["start_s"], fact["end_s"])
        heard = clips.sound(index)
        start = (len(whole) - len(heard)) // 2
        np.testing.assert_allclose(heard, whole[start : start + len(heard)], atol=2e-5)


def test_the_layout_is_webdatasets(peace: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    samples = list(webdataset.WebDataset([str(path) for path in sorted(peace.glob("*.tar"))], shardshuffle=False))
    clips = ShardClips(peace)
    assert len(samples) == len(clips)
    for index, sample in enumerate(samples):
        assert {"0.jpg", "1.jpg", "2.jpg", "flac", "json"} <= set(sample)
        assert json.loads(sample["json"]) == clips.facts(index)


def test_the_bytes_do_not_depend_on_who_makes_them(peace: Path, videos: Path, tmp_path: Path, hashes: Any) -> None:
    backwards = tmp_path / "backwards"
    for shard in reversed(range(read_plan(peace).shards)):
        make(backwards, videos, shard_range=(shard, shard + 1))
    several = tmp_path / "several"
    make(several, videos, workers=3)
    assert hashes(peace) == hashes(backwards) == hashes(several)


def test_tar_headers_say_nothing_of_who_and_when(peace: Path) -> None:
    with tarfile.open(peace / "shard-000001.tar") as tar:
        members = tar.getmembers()
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {(0, 0, 0, "", "", 0o644)}
    assert [m.name.split(".")[0] for m in members] == sorted(m.name.split(".")[0] for m in members)


def test_a_bad_clip_leaves_a_gap_and_moves_nothing(peace: Path, videos: Path) -> None:
    with (peace / "problems.csv").open(newline="") as file:
        problems = list(csv.DictReader(file))
    assert [(row["number"], row["id"]) for row in problems] == [("0", "bad.mp4")]
    assert "not a media file" in problems[0]["reason"]
    _, records = read_index(peace / "shard-000000.index")
    assert records["number"].tolist() == [1, 2]
    _, records = read_index(peace / "shard-000001.index")
    assert records["number"].tolist() == [3, 4, 5]


def test_finished_shards_are_kept(peace: Path, videos: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in peace.glob("*.tar")}
    report = make(peace, videos)
    assert (report.made, report.kept, report.complete) == (0, 5, True)
    assert {path.name: path.stat().st_mtime_ns for path in peace.glob("*.tar")} == before


def test_a_shard_that_was_cut_short_is_made_again(videos: Path, tmp_path: Path, peace: Path, hashes: Any) -> None:
    make(tmp_path, videos)
    tar = tmp_path / "shard-000002.tar"
    tar.write_bytes(tar.read_bytes()[:1000])
    (tmp_path / ".shard-000002.dead.partial.tar").write_bytes(b"left by one who was killed")
    report = make(tmp_path, videos)
    assert (report.made, report.kept) == (1, 4)
    assert hashes(tmp_path) == hashes(peace)
    assert not list(tmp_path.glob("*.partial*")) + list(tmp_path.glob(".*.partial*"))


def test_other_options_and_other_lists_are_refused(peace: Path, videos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"other options: --quality 90 \(now 50\)"):
        make(peace, videos, Recipe(short_px=32, quality=50))
    with pytest.raises(ConfigError, match="shards of 3 clips, not 4"):
        make(peace, videos, clips_per_shard=4)
    (tmp_path / "x.mp4").write_bytes((videos / "long.mp4").read_bytes())
    with pytest.raises(ConfigError, match="another list"):
        make(peace, tmp_path)
    with pytest.raises(ConfigError, match="5: holds none of the 5 shards"):
        make(peace, videos, shard_range=(5, None))


def test_a_shard_another_run_is_at_is_left_to_it(videos: Path, tmp_path: Path, peace: Path, hashes: Any) -> None:
    with lock(tmp_path / LOCKS / "000001") as free:
        assert free
        report = make(tmp_path, videos)
        assert (report.made, report.busy, report.complete) == (4, 1, False)
    assert make(tmp_path, videos).complete
    assert hashes(tmp_path) == hashes(peace)


def test_two_runs_at_once_share_the_work_or_agree(videos: Path, tmp_path: Path, peace: Path, hashes: Any) -> None:
    arguments = command(videos, "--out", tmp_path, "--short-px", "32", "--clips-per-shard", "3", "--workers", "1")
    runs = [subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for run in runs:
        said = run.communicate(timeout=120)
        assert run.returncode == 0, said
    assert make(tmp_path, videos).complete
    assert hashes(tmp_path) == hashes(peace)


def test_reasons_name_what_is_wrong(tmp_path: Path, make_video: Callable[..., Path]) -> None:
    make_video(tmp_path / "mute.mp4", 1, 2.0, sound=False)
    make_video(tmp_path / "blind.mp4", 1, 2.0, picture=False)
    make_video(tmp_path / "good.mp4", 1, 2.0)
    (tmp_path / "cut.mp4").write_bytes((tmp_path / "good.mp4").read_bytes()[:900])
    (tmp_path / "empty.mp4").touch()
    rows = [f"{name}.mp4,0,2" for name in ("mute", "blind", "cut", "empty", "gone", "good")]
    rows += ["good.mp4,1,9", "good.mp4,5,6"]
    table = tmp_path / "list.csv"
    table.write_text("file,start,end\n" + "\n".join(rows) + "\n")
    report = prepare(tmp_path / "out", Listing([table]), SMALL, workers=1)
    reasons = {problem.name.split("@")[0] + problem.name[-6:]: problem.reason for problem in report.problems}
    assert report.clips == 1
    assert len(reasons) == 7
    for name, words in {
        "mute.mp4-2.000": "no sound",
        "blind.mp4-2.000": "no picture",
        "cut.mp4-2.000": "cut short or damaged",
        "empty.mp4-2.000": "is empty",
        "gone.mp4-2.000": "is not in",
        "good.mp4-9.000": "lasts 2.0 s, so 1 to 9 s is outside of it",
        "good.mp4-6.000": "lasts 2.0 s, so 5 to 6 s is outside of it",
    }.items():
        assert words in reasons[name]


def test_photos_with_recordings_become_clips(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (80, 60), (200, 10, 10)).save(tmp_path / "a.png")
    write_wav(tmp_path / "a.wav", np.sin(np.arange(5 * 22_050) / 20).astype(np.float32) / 2)
    Image.new("RGB", (80, 60)).save(tmp_path / "alone.png")
    report = prepare(tmp_path / "out", Listing([tmp_path]), SMALL, workers=1)
    assert [problem.name for problem in report.problems] == ["alone.png"]
    clips = ShardClips(tmp_path / "out")
    assert clips.image(0).shape == (32, 43, 3)
    np.testing.assert_array_equal(clips.image(0), clips.image(len(clips)))  # there is no second frame
    np.testing.assert_allclose(clips.sound(0), read_audio(tmp_path / "a.wav", 1.0, 4.0), atol=2e-5)


def test_opus_and_another_rate(tmp_path: Path, make_video: Callable[..., Path]) -> None:
    make_video(tmp_path / "a.mp4", 3, 4.0)
    prepare(tmp_path / "out", Listing([tmp_path]), Recipe(sound="opus", rate_hz=16_000), workers=1)
    heard = ShardClips(tmp_path / "out").sound(0)
    spectrum = np.abs(np.fft.rfft(heard))
    assert np.argmax(spectrum) / 3 == pytest.approx(290, abs=1)
    with pytest.raises(ConfigError, match="rate_hz is 22050"):
        Recipe(sound="opus")


def test_clips_per_shard_is_estimated_once(tmp_path: Path, videos: Path) -> None:
    report = prepare(tmp_path, Listing([videos]), SMALL, shard_bytes=200_000, workers=1)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["clips_per_shard"] == 200_000 // manifest["estimated_clip_bytes"]
    assert report.size / report.clips == pytest.approx(manifest["estimated_clip_bytes"], rel=0.5)
    again = prepare(tmp_path, Listing([videos]), SMALL, shard_bytes=900_000, workers=1)
    assert again.made == 0  # what was decided stays


def test_a_crash_in_a_decoder_costs_its_clip(tmp_path: Path, videos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, videos, shard_range=(0, 1))  # makes the plan
    (tmp_path / LOCKS / "000001.at").write_text("4")  # a worker ended at that clip
    from soundwhere.preparation import shard

    tried: list[str] = []

    def crash(entry: Entry, *_: object) -> int:
        tried.append(entry.name)
        return -int(signal.SIGSEGV)

    monkeypatch.setattr(shard, "try_alone", crash)
    outcome = ShardMaker(read_plan(tmp_path), Listing([videos]), SMALL).make(1)
    assert tried == ["0/clip03.mp4"]
    assert [(p.number, "SIGSEGV" in p.reason) for p in outcome.problems] == [(4, True)]
    assert not (tmp_path / LOCKS / "000001.at").exists()


def test_a_clip_at_which_a_worker_was_killed_is_not_blamed(tmp_path: Path, videos: Path, peace: Path) -> None:
    make(tmp_path, videos, shard_range=(0, 1))
    (tmp_path / LOCKS / "000001.at").write_text("4")
    make(tmp_path, videos, shard_range=(1, 2))  # the real trial
    name = "shard-000001.tar"
    assert (tmp_path / name).read_bytes() == (peace / name).read_bytes()


def test_a_file_that_may_grow_no_further_is_reported(tmp_path: Path, videos: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    arguments = command(videos, "--out", tmp_path, "--clips-per-shard", "3", "--workers", "1")
    run = subprocess.run(arguments, preexec_fn=limit, capture_output=True, text=True, timeout=120)
    assert run.returncode == 2
    assert "cannot be written: File too large" in run.stderr
    assert "Traceback" not in run.stderr
    assert not list(tmp_path.glob(".*.partial*"))
    assert make(tmp_path, videos, Recipe()).complete  # with room, it goes on


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_is_reported_and_costs_nothing(
    tmp_path: Path, videos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from soundwhere.cli.main import run

    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk]).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        code = run(["prepare", str(videos), "--out", str(disk), "--clips-per-shard", "3", "--workers", "1"])
        said = capsys.readouterr().err
        assert code == 2
        assert "cannot be written: No space left on device.\nFree some space" in said
        whole = sorted(path.name for path in disk.glob("*.tar"))
        assert whole
        assert sorted(path.with_suffix(".tar").name for path in disk.glob("shard-*.index")) == whole
        subprocess.run(["mount", "-o", "remount,size=10m", disk], check=True)
        report = make(disk, videos, Recipe())
        assert report.complete
        assert report.kept == len(whole)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_strict_and_dry_run(tmp_path: Path, videos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from soundwhere.cli.main import run

    arguments = ["prepare", str(videos), "--out", str(tmp_path / "out"), "--workers", "1"]
    assert run([*arguments, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "14 clips in 1 shards" in said
    assert "a sample of 8 clips: 1 cannot be used" in said
    assert "bad.mp4 is not a media file" in said
    assert not (tmp_path / "out").exists()
    assert run(arguments) == 0
    assert run([*arguments, "--strict"]) == 1
    assert "problems.csv" in capsys.readouterr().err
    assert run([*arguments, "--shard-range", "x"]) == 2
    assert run([*arguments, "--workers", "0"]) == 2


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, videos: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        make(tmp_path / "file" / "out", videos)
