import resource
import tracemalloc
from fractions import Fraction

import av
import numpy as np
import pytest

from soundwhere.errors import MediaError, OutputError
from soundwhere.media.audio import read_audio
from soundwhere.media.video import probe, stream_frames
from soundwhere.media.writer import VideoWriter

RATE = 22_050
EVENTS_S = (0.4, 1.2, 2.0, 2.6)  # a flash and a beep at each of these times
SIZE = (48, 64)


def beeps(rate: int, seconds: float = 3.0, events=EVENTS_S) -> np.ndarray:
    t = np.arange(round(seconds * rate)) / rate
    on = sum(((t >= event) & (t < event + 0.1)).astype(float) for event in events)
    return (0.5 * on * np.sin(2 * np.pi * 1000 * t)).astype(np.float32)


def flash(time_s: float) -> np.ndarray:
    return np.full((*SIZE, 3), 230 if any(e - 1e-6 <= time_s < e + 0.1 for e in EVENTS_S) else 20, np.uint8)


def write_all(writer: VideoWriter, images) -> None:
    for image in images:
        writer.write(image)


def write_source(path, codec, form, sound_from_s=0.0, rate=48_000):
    """Flashes at 10 fps, and beeps at the same times in a sound track that begins `sound_from_s` late."""
    with av.open(path, "w") as container:
        video = container.add_stream("libx264", rate=10, width=SIZE[1], height=SIZE[0], pix_fmt="yuv420p")
        audio = container.add_stream(codec, rate=rate, layout="stereo", format=form)
        for index in range(30):
            frame = av.VideoFrame.from_ndarray(flash(index / 10), format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 10)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        sound = beeps(rate)[round(sound_from_s * rate) :]
        stereo = np.stack([sound, sound])
        if not av.AudioFormat(form).is_planar:
            stereo = stereo.T.reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(stereo), format=form, layout="stereo")
        frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), round(sound_from_s * rate)
        container.mux(audio.encode(frame))
        container.mux(audio.encode(None))
    return path


def onsets_of_beeps(path) -> np.ndarray:
    level = np.abs(read_audio(path))
    level = np.convolve(level, np.ones(44) / 44, "same") > 0.1
    starts = np.flatnonzero(level[1:] & ~level[:-1]) / RATE
    return starts[np.diff(starts, prepend=-1) > 0.15]


def onsets_of_flashes(path) -> np.ndarray:
    frames = list(stream_frames(path))
    bright = np.array([False] + [frame.image.mean() > 125 for frame in frames])
    return np.array([frame.time_s for frame in frames])[bright[1:] & ~bright[:-1]]


@pytest.mark.parametrize(
    ("suffix", "codec", "form", "late_s", "start_s"),
    [
        ("mp4", "aac", "fltp", 0.0, 0.0),
        ("mp4", "aac", "fltp", 0.5, 0.0),
        ("mp4", "aac", "fltp", 0.0, 0.9),
        ("mp4", "aac", "fltp", 0.5, 0.3),
        ("mkv", "aac", "fltp", 0.5, 0.0),
        ("mkv", "libmp3lame", "fltp", 0.0, 0.0),
        ("mkv", "libmp3lame", "fltp", 0.5, 0.9),
        ("mkv", "libopus", "flt", 0.0, 0.9),
        ("mkv", "libopus", "flt", 0.5, 0.0),
        ("mkv", "pcm_f32le", "flt", 0.5, 0.3),
        ("ts", "aac", "fltp", 0.0, 0.9),
    ],
)
def test_flashes_and_beeps_stay_together(tmp_path, suffix, codec, form, late_s, start_s):
    source = write_source(tmp_path / f"source.{suffix}", codec, form, late_s)
    with VideoWriter(tmp_path / "out.mp4", 64, 48, 10, audio_from=source, start_s=start_s, end_s=2.9) as writer:
        for frame in stream_frames(source, 10, start_s, 2.9):
            writer.write(frame.image, frame.time_s)
    expected = np.array([event - start_s for event in EVENTS_S if event >= start_s])
    np.testing.assert_allclose(onsets_of_flashes(tmp_path / "out.mp4"), expected, atol=0.1 if suffix == "ts" else 0.01)
    heard = expected[expected + start_s >= late_s]
    np.testing.assert_allclose(onsets_of_beeps(tmp_path / "out.mp4"), heard, atol=0.03 if suffix == "ts" else 0.02)
    info = probe(tmp_path / "out.mp4")
    assert info.duration_s == pytest.approx(2.9 - start_s, abs=0.1)
    with av.open(tmp_path / "out.mp4") as container:
        names = [stream.codec_context.codec.canonical_name for stream in container.streams]
    assert names == ["h264", "mp3" if codec == "libmp3lame" else "aac"]


def test_copied_packets_are_the_same_bytes(tmp_path, clip_path):
    with VideoWriter(tmp_path / "out.mp4", 96, 64, 10, audio_from=clip_path) as writer:
        for frame in stream_frames(clip_path):
            writer.write(frame.image, frame.time_s)

    def packets(path):
        with av.open(path) as container:
            return [(bytes(p), p.pts) for p in container.demux(audio=0) if p.size]

    assert packets(tmp_path / "out.mp4") == packets(clip_path)
    np.testing.assert_array_equal(read_audio(tmp_path / "out.mp4"), read_audio(clip_path))


def test_a_waveform_is_written(tmp_path):
    with VideoWriter(tmp_path / "out.mp4", 64, 48, 10, waveform=beeps(RATE), start_s=0.3, end_s=2.5) as writer:
        for index in range(22):
            writer.write(flash(0.3 + index / 10))
    np.testing.assert_allclose(onsets_of_beeps(tmp_path / "out.mp4"), [0.1, 0.9, 1.7], atol=0.02)
    np.testing.assert_allclose(onsets_of_flashes(tmp_path / "out.mp4"), [0.1, 0.9, 1.7], atol=0.01)


def test_frames_keep_their_own_times(tmp_path):
    times = [0.0, 0.04, 0.5, 0.55, 1.9]
    with VideoWriter(tmp_path / "out.mp4", 64, 48, 25) as writer:
        for time_s in times:
            writer.write(flash(time_s), time_s)
    assert [frame.time_s for frame in stream_frames(tmp_path / "out.mp4")] == pytest.approx(times, abs=1e-3)
    assert not probe(tmp_path / "out.mp4").has_audio


@pytest.mark.parametrize("fps", [23.976, 29.97, 12.5, 60])
def test_frame_rates(tmp_path, fps):
    with VideoWriter(tmp_path / "out.mp4", 64, 48, fps) as writer:
        for _ in range(30):
            writer.write(flash(0))
    frames = list(stream_frames(tmp_path / "out.mp4"))
    assert [frame.time_s for frame in frames] == pytest.approx([i / fps for i in range(30)], abs=1e-3)
    assert probe(tmp_path / "out.mp4").duration_s == pytest.approx(30 / fps, abs=2e-3)


def test_odd_sizes_are_extended_and_colours_kept(tmp_path):
    image = np.zeros((47, 63, 3), np.uint8)
    image[:, :32], image[:, 32:] = (200, 40, 90), (20, 180, 220)
    with VideoWriter(tmp_path / "out.mp4", 63, 47, 10, crf=10) as writer:
        for _ in range(3):
            writer.write(image)
    frame = next(stream_frames(tmp_path / "out.mp4"))
    assert frame.image.shape == (48, 64, 3)
    np.testing.assert_allclose(frame.image[20, 10], (200, 40, 90), atol=4)
    np.testing.assert_allclose(frame.image[47, 63], (20, 180, 220), atol=4)


def test_a_silent_source_gives_a_silent_video(tmp_path):
    with VideoWriter(tmp_path / "silent.mp4", 64, 48, 10) as writer:
        writer.write(flash(0))
    with VideoWriter(tmp_path / "out.mp4", 64, 48, 10, audio_from=tmp_path / "silent.mp4") as writer:
        writer.write(flash(0))
    assert not probe(tmp_path / "out.mp4").has_audio


def test_nothing_is_left_after_an_error(tmp_path, clip_path):
    (tmp_path / "out.mp4").write_text("as it was")
    frames = {0: flash(0)}
    with pytest.raises(KeyError), VideoWriter(tmp_path / "out.mp4", 64, 48, 10, audio_from=clip_path) as writer:
        write_all(writer, (frames[index] for index in range(2)))
    with pytest.raises(FileNotFoundError), VideoWriter(tmp_path / "out.mp4", 64, 48, 10) as writer:
        raise FileNotFoundError  # not the writer's: it stays what it is
    with (
        pytest.raises(MediaError),
        VideoWriter(tmp_path / "out.mp4", 64, 48, 10, audio_from=tmp_path / "none") as writer,
    ):
        pass
    with pytest.raises(ValueError, match="shape"), VideoWriter(tmp_path / "out.mp4", 64, 48, 10) as writer:
        writer.write(np.zeros((10, 10, 3), np.uint8))
    assert [path.name for path in tmp_path.iterdir()] == ["out.mp4"]
    assert (tmp_path / "out.mp4").read_text() == "as it was"


def test_a_full_disk(tmp_path):
    rng = np.random.default_rng(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))  # the nearest thing to a full disk
    try:
        with pytest.raises(OutputError), VideoWriter(tmp_path / "out.mp4", 320, 240, 10, crf=5) as writer:
            write_all(writer, (rng.integers(0, 255, (240, 320, 3), np.uint8) for _ in range(60)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder.mp4").mkdir()
    for path in (tmp_path / "file" / "out.mp4", tmp_path / "folder.mp4"):
        with pytest.raises(OutputError) as caught, VideoWriter(path, 64, 48, 10) as writer:
            writer.write(flash(0))
        assert caught.value.remedy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.mp4"]


def test_memory_stays_small(tmp_path):
    sound = np.zeros(60 * RATE, np.float32)
    image = np.zeros((*SIZE, 3), np.uint8)
    tracemalloc.start()
    with VideoWriter(tmp_path / "out.mp4", 64, 48, 10, waveform=sound) as writer:
        write_all(writer, (image for _ in range(300)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < sound.nbytes / 4


def test_real_clip(tmp_path, shared):
    source = shared / "data" / "clips" / "violin-and-guitar.mp4"
    info = probe(source)
    with VideoWriter(tmp_path / "out.mp4", info.width, info.height, info.fps, source, start_s=2.0, end_s=4.0) as writer:
        for frame in stream_frames(source, start_s=2.0, end_s=4.0):
            writer.write(frame.image, frame.time_s)
    written, original = read_audio(tmp_path / "out.mp4", 0.2, 1.8), read_audio(source, 2.2, 3.8)
    lags = range(-30, 31)
    scores = [np.dot(written[100:-100], original[100 + lag : len(original) - 100 + lag]) for lag in lags]
    assert abs(lags[int(np.argmax(scores))]) <= 1
