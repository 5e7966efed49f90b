from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from PIL import Image

from soundwhere.constants import CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.data.folder import FolderClips
from soundwhere.errors import DataError
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from pathlib import Path


def make_video(path: Path, seconds: int, sound: bool = True) -> None:
    """A picture whose red is 8 t, 2 frames a second, with a tone of 200 + 100 t Hz that changes every second."""
    with av.open(path, "w") as container:
        video = container.add_stream("mpeg4", rate=2, width=32, height=32, pix_fmt="yuv420p")
        video.bit_rate = 2_000_000
        audio = container.add_stream("pcm_s16le", rate=SAMPLE_RATE_HZ, layout="mono") if sound else None
        for index in range(2 * seconds):
            picture = np.zeros((32, 32, 3), np.uint8)
            picture[..., 0] = 4 * index
            container.mux(video.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(video.encode(None))
        if audio is not None:
            time_s = np.arange(seconds * SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ
            tone = 8000 * np.sin(2 * np.pi * (200 + 100 * np.floor(time_s)) * time_s)
            frame = av.AudioFrame.from_ndarray(tone.astype(np.int16)[None], format="s16", layout="mono")
            frame.sample_rate = SAMPLE_RATE_HZ
            container.mux(audio.encode(frame))
            container.mux(audio.encode(None))


def seconds_heard(sound: np.ndarray) -> list[int]:
    """Which second of the video each third of a clip comes from, by its pitch."""
    pitches = [np.abs(np.fft.rfft(part)).argmax() * SAMPLE_RATE_HZ / len(part) for part in np.split(sound, 3)]
    return [round((pitch - 200) / 100) for pitch in pitches]


def test_a_video_gives_its_middle(tmp_path):
    make_video(tmp_path / "a.mkv", 9)
    clips = FolderClips(tmp_path)
    assert len(clips) == 1
    assert clips.problems == []
    assert clips.image(0).shape == (32, 32, 3)
    assert abs(int(clips.image(0)[16, 16, 0]) - 36) <= 4
    assert clips.sound(0).shape == (CLIP_SAMPLES,)
    assert seconds_heard(clips.sound(0)) == [3, 4, 5]


def test_in_training_any_part_that_includes_the_frame(tmp_path):
    make_video(tmp_path / "a.mkv", 9)
    clips = FolderClips(tmp_path)
    parts = [clips.sound(0, np.random.default_rng(seed)) for seed in range(20)]
    assert all(part.shape == (CLIP_SAMPLES,) for part in parts)
    first = {seconds_heard(part)[0] for part in parts}
    assert first <= {1, 2, 3, 4}
    assert len(first) >= 3


def test_a_long_video_gives_several_clips(tmp_path):
    make_video(tmp_path / "a.mkv", 31)
    clips = FolderClips(tmp_path)
    assert len(clips) == 3
    assert len({clips.key(i) for i in range(3)}) == 3
    reds = [int(clips.image(i)[16, 16, 0]) for i in range(3)]
    assert np.allclose(reds, [8 * 31 * (2 * i + 1) / 6 for i in range(3)], atol=8)
    assert [seconds_heard(clips.sound(i))[1] for i in range(3)] == [5, 15, 25]


def test_a_short_video_is_repeated(clip_path, tmp_path):
    shutil.copy(clip_path, tmp_path / "short.mp4")
    sound = FolderClips(tmp_path).sound(0)
    assert sound.shape == (CLIP_SAMPLES,)
    assert np.abs(sound[-SAMPLE_RATE_HZ // 2 :]).max() > 0.1


def test_a_sound_track_that_ends_early_is_followed_by_silence(tmp_path):
    make_video(tmp_path / "picture.mkv", 9, sound=False)
    with av.open(tmp_path / "picture.mkv") as source, av.open(tmp_path / "both.mkv", "w") as target:
        video = target.add_stream_from_template(source.streams.video[0])
        audio = target.add_stream("pcm_s16le", rate=SAMPLE_RATE_HZ, layout="mono")
        tone = np.full((1, 4 * SAMPLE_RATE_HZ), 5000, np.int16)
        frame = av.AudioFrame.from_ndarray(tone, format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE_HZ
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = video
                target.mux(packet)
        target.mux(audio.encode(frame))
        target.mux(audio.encode(None))
    (tmp_path / "picture.mkv").unlink()
    sound = FolderClips(tmp_path).sound(0)
    assert np.abs(sound[: SAMPLE_RATE_HZ - 100]).min() > 0.1
    assert np.abs(sound[SAMPLE_RATE_HZ + 100 :]).max() == 0


def test_pictures_beside_sounds(tmp_path):
    (tmp_path / "sub").mkdir()
    Image.new("RGB", (20, 10), (1, 2, 3)).save(tmp_path / "sub/dog.PNG")
    recording = np.linspace(-0.5, 0.5, 5 * SAMPLE_RATE_HZ, dtype=np.float32)
    write_wav(tmp_path / "sub/dog.wav", recording)
    clips = FolderClips(tmp_path)
    assert len(clips) == 1
    assert clips.image(0).shape == (10, 20, 3)
    assert np.allclose(clips.sound(0), recording[SAMPLE_RATE_HZ : 4 * SAMPLE_RATE_HZ], atol=1e-3)


def test_what_cannot_be_used_is_told_and_the_rest_is_used(tmp_path, clip_path):
    shutil.copy(clip_path, tmp_path / "good.mp4")
    make_video(tmp_path / "mute.mkv", 1, sound=False)
    (tmp_path / "text.mp4").write_text("not a video")
    (tmp_path / "cut.mp4").write_bytes(clip_path.read_bytes()[:3000])
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "._good.mp4").write_text("resource fork")
    (tmp_path / "notes.txt").write_text("not looked at")
    Image.new("RGB", (8, 8)).save(tmp_path / "alone.png")
    write_wav(tmp_path / "lonely.wav", np.zeros(100, np.float32))
    Image.new("RGB", (8, 8)).save(tmp_path / "pair.png")
    (tmp_path / "pair.wav").write_text("not a sound")
    clips = FolderClips(tmp_path)
    assert len(clips) == 1
    assert [path.name for path, _ in clips.problems] == [
        "alone.png",
        "cut.mp4",
        "empty.mp4",
        "mute.mkv",
        "pair.png",
        "text.mp4",
        "lonely.wav",
    ]
    reasons = {path.name: reason for path, reason in clips.problems}
    assert "no sound track" in reasons["mute.mkv"]
    assert "no sound file of the same name" in reasons["alone.png"]
    assert "pair.wav" in reasons["pair.png"]
    words = clips.describe_problems()
    assert words.startswith("7 files cannot be used.")
    assert words.endswith("and 2 more")


def test_a_result_beside_its_clip_is_not_trained_on(tmp_path):
    """Its overlay has the answer painted on it."""
    make_video(tmp_path / "a.mkv", 3)
    (tmp_path / "a.soundwhere" / "heatmaps").mkdir(parents=True)
    make_video(tmp_path / "a.soundwhere" / "overlay.mkv", 3)
    (tmp_path / "a.soundwhere" / "heatmaps" / "source-1.png").touch()
    clips = FolderClips(tmp_path)
    assert len(clips) == 1
    assert clips.problems == []


def test_nothing_to_use(tmp_path):
    with pytest.raises(DataError, match="no video, no picture, no sound"):
        FolderClips(tmp_path)
    make_video(tmp_path / "mute.mkv", 1, sound=False)
    with pytest.raises(DataError, match="1 files cannot be used") as caught:
        FolderClips(tmp_path)
    assert "no sound track" in caught.value.message
    assert caught.value.remedy
    with pytest.raises(DataError, match="is not a folder"):
        FolderClips(tmp_path / "none")


def test_real_clips(shared):
    clips = FolderClips(shared / "data/clips")
    assert [path.name for path, _ in clips.problems] == ["no-sound-track.mp4"]
    assert len(clips) >= 4
    for index in range(len(clips)):
        assert clips.sound(index, np.random.default_rng(0)).shape == (CLIP_SAMPLES,)
        assert clips.image(index).ndim == 3
