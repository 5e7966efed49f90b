import struct
import tracemalloc
from fractions import Fraction

import av
import numpy as np
import pytest
from PIL import Image as Pillow

from soundwhere.errors import ConfigError, MediaError
from soundwhere.media.container import decoded
from soundwhere.media.video import clock, clock_span, decoders, probe, read_frames, require_streams, stream_frames


def write_video(
    path, times_s, codec="libx264", form="yuv420p", size=(48, 64), sound_s=None, muxer=None, pixel=0, **options
):
    """Frame i is of grey 10 + 5 * i with a red upper left corner, shown from times_s[i]; sound_s=(start, end) hums."""
    height, width = size
    with av.open(path, "w", options=muxer or {}) as container:
        video = container.add_stream(codec, rate=10, width=width, height=height, pix_fmt=form)
        video.options = options
        video.codec_context.sample_aspect_ratio = Fraction(pixel)  # 0: not told
        video.codec_context.time_base = video.time_base = Fraction(1, 100 if codec == "gif" else 1000)
        audio = container.add_stream("aac", rate=16_000, layout="mono") if sound_s else None
        for index, time_s in enumerate(times_s):
            picture = np.full((height, width, 3), 10 + 5 * index % 240, np.uint8)
            picture[: height // 4, : width // 4] = (255, 0, 0)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.time_base = video.codec_context.time_base
            frame.pts = round(time_s / frame.time_base)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if audio is not None:
            start_s, end_s = sound_s
            hum = np.sin(np.arange(round((end_s - start_s) * 16_000)) / 10).astype(np.float32)[None] / 4
            sound = av.AudioFrame.from_ndarray(hum, format="fltp", layout="mono")
            sound.sample_rate, sound.pts, sound.time_base = 16_000, round(start_s * 16_000), Fraction(1, 16_000)
            container.mux(audio.encode(sound))
            container.mux(audio.encode(None))
    return path


def index_of(frame) -> int:
    """Which frame of `write_video` this is, told by its grey."""
    return round((float(frame.image[-10:, -10:].mean()) - 10) / 5)


EVEN = [i / 10 for i in range(30)]
UNEVEN = [0.0, 0.1, 0.2, 0.9, 1.0, 2.5, 2.6]


@pytest.mark.parametrize(
    ("suffix", "codec", "form"),
    [
        ("mp4", "libx264", "yuv420p"),
        ("mov", "mjpeg", "yuvj420p"),
        ("mkv", "ffv1", "yuv420p10le"),
        ("mp4", "libx265", "yuv420p10le"),
        ("webm", "libvpx-vp9", "yuv420p"),
        ("webm", "libvpx-vp9", "yuva420p"),
        ("mov", "qtrle", "argb"),
        ("gif", "gif", "rgb8"),
        ("avi", "mjpeg", "yuvj420p"),
        ("ts", "mpeg2video", "yuv420p"),
    ],
)
def test_every_frame_of_every_format(tmp_path, suffix, codec, form):
    times = [i / 25 for i in range(10)] if codec == "mpeg2video" else EVEN[:10]
    options = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    if suffix in ("avi", "ts"):
        path = tmp_path / f"a.{suffix}"
        with av.open(path, "w") as container:
            stream = container.add_stream(codec, rate=round(1 / times[1]), width=64, height=48, pix_fmt=form)
            for index in range(10):
                picture = np.full((48, 64, 3), 10 + 5 * index % 240, np.uint8)
                picture[:12, :16] = (255, 0, 0)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode(None))
    else:
        path = write_video(tmp_path / f"a.{suffix}", times, codec, form, **options)
    frames = list(stream_frames(path))
    np.testing.assert_allclose([frame.time_s for frame in frames], times, atol=0.011)
    assert {frame.image.shape for frame in frames} == {(48, 64, 3)}
    assert {frame.image.dtype for frame in frames} == {np.dtype(np.uint8)}
    red, green, _ = frames[4].image[4, 4]
    assert red > 200 > 60 > green
    if codec != "gif":  # whose palette is too coarse
        assert [index_of(frame) for frame in frames] == list(range(10))


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize("times", [EVEN, UNEVEN])
@pytest.mark.parametrize(("fps", "start_s", "end_s"), [(10, 0, 2.7), (4, 0, 2.7), (7, 1.3, 2.7), (25, 0.35, 4.0)])
def test_the_frame_on_display(tmp_path, suffix, times, fps, start_s, end_s):
    path = write_video(tmp_path / f"a.{suffix}", times)
    frames = list(stream_frames(path, fps, start_s, end_s))
    assert len(frames) == int(np.ceil((end_s - start_s) * fps - 1e-6))
    for k, frame in enumerate(frames):
        assert frame.time_s == pytest.approx(start_s + k / fps)
        expected = max(i for i, time in enumerate(times) if time <= frame.time_s + 1e-3)
        assert index_of(frame) == expected


B_FRAMES = [
    ("mp4", "libx264", {"x264-params": "bframes=5:b-adapt=0:b-pyramid=normal"}),
    ("mkv", "libx264", {"x264-params": "bframes=16:b-adapt=0:b-pyramid=strict:ref=16"}),
    ("mp4", "libx265", {"x265-params": "bframes=8:b-pyramid=1:log-level=none"}),
    ("ts", "libx264", {"x264-params": "bframes=3:b-adapt=0:b-pyramid=none"}),
    ("avi", "mpeg4", {"bf": "2"}),
    ("webm", "libvpx-vp9", {"auto-alt-ref": "1", "lag-in-frames": "16"}),
]
"""Ways to write pictures in another order than they are seen in, some of which no other picture refers to."""


@pytest.mark.parametrize(("suffix", "codec", "options"), B_FRAMES, ids=[f"{s}-{c}" for s, c, _ in B_FRAMES])
@pytest.mark.parametrize("uneven", [False, True])
def test_pictures_that_nobody_sees_are_skipped_and_no_others(tmp_path, suffix, codec, options, uneven):
    rng = np.random.default_rng(3)
    steps = rng.choice([1, 1, 2, 5], 45) if uneven and suffix != "avi" else np.ones(45)  # avi has one rate
    times = [round(float(time_s), 2) for time_s in np.concatenate([[0], np.cumsum(steps) / 10])]
    path = write_video(tmp_path / f"a.{suffix}", times, codec, **options)
    every = list(stream_frames(path))
    assert len(every) >= 45

    def check(frame):
        begun = [one for one in every if one.time_s <= frame.time_s + 1e-3] or every[:1]
        np.testing.assert_array_equal(frame.image, begun[-1].image)

    for fps, start_s in [(5, 0.0), (0.7, 0.0), (2, 1.35), (3.3, 2.0), (40, 0.0)]:
        for frame in stream_frames(path, fps, start_s, end_s=times[-1]):
            check(frame)
    for frame in read_frames(path, [0.0, 1.7, 1.75, 3.0, times[-1]]):
        check(frame)


def test_decoders_skip_what_they_may(tmp_path):
    path = write_video(tmp_path / "a.mp4", EVEN, **{"x264-params": "bframes=3:b-adapt=0:b-pyramid=none:scenecut=0"})
    counts = []
    for due in (None, lambda *_: True, lambda begin, end: begin <= 1.5 < end, lambda *_: False):
        with av.open(path) as container:
            counts.append(sum(1 for _ in decoded(container, container.streams.video[0], due)))
    assert counts[0] == counts[1] == 30
    assert counts[3] + 1 == counts[2] <= 12  # one in four, and the one that is seen


def test_without_an_end_the_last_frame_is_held_while_there_is_sound(tmp_path):
    path = write_video(tmp_path / "a.mp4", EVEN[:10], sound_s=(0, 2.0))
    frames = list(stream_frames(path, fps=5))
    assert 10 <= len(frames) <= 11  # the sound fills a packet
    assert [index_of(frame) for frame in frames[:10]] == [0, 2, 4, 6, 8, 9, 9, 9, 9, 9]


def test_a_picture_that_starts_late_is_shown_from_the_beginning(tmp_path):
    path = write_video(tmp_path / "a.mkv", [0.5, 0.6, 0.7], sound_s=(0, 1.0))
    assert [frame.time_s for frame in stream_frames(path)] == pytest.approx([0.5, 0.6, 0.7])
    assert [index_of(frame) for frame in stream_frames(path, 10, end_s=0.8)] == [0, 0, 0, 0, 0, 0, 1, 2]


def test_frames_between_two_times(tmp_path):
    path = write_video(tmp_path / "a.mp4", EVEN, g="5")
    assert [index_of(frame) for frame in stream_frames(path, start_s=2.05, end_s=2.5)] == [21, 22, 23, 24]
    assert list(stream_frames(path, 5, start_s=7.0)) == []


@pytest.mark.parametrize(("suffix", "codec"), [("mp4", "libx264"), ("mkv", "libx264"), ("ts", "libx264")])
def test_frames_at_given_times(tmp_path, suffix, codec):
    times = [i / 5 for i in range(48)]
    path = write_video(tmp_path / f"a.{suffix}", times, codec, g="10")
    asked = [9.1, 0.3, 9.1, 3.21, -5.0, 60.0]
    frames = read_frames(path, asked)
    assert [frame.time_s for frame in frames] == asked
    shift = 1 if suffix == "ts" else 0  # rounding of the time stamps
    for frame, expected in zip(frames, [45, 1, 45, 16, 0, 47], strict=True):
        assert abs(index_of(frame) - expected) <= shift
    assert read_frames(path, []) == []


def turn(path, matrix):
    """Have an mp4 say that its picture is turned."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # the matrix of the track header: a b u c d v x y w
    a, b, c, d = (value * 0x10000 for value in matrix)
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 0x4000_0000)
    path.write_bytes(data)


@pytest.mark.parametrize(("degrees", "matrix"), [(-90, (0, 1, -1, 0)), (180, (-1, 0, 0, -1)), (90, (0, -1, 1, 0))])
def test_rotation_is_applied(tmp_path, degrees, matrix):
    path = write_video(tmp_path / "a.mp4", EVEN[:3])
    turn(path, matrix)
    frame = next(stream_frames(path))
    height, width = (48, 64) if degrees == 180 else (64, 48)
    assert frame.image.shape == (height, width, 3)
    corner = {-90: (4, width - 5), 180: (height - 5, width - 5), 90: (height - 5, 4)}[degrees]
    red, green, _ = frame.image[corner]
    assert red > 200 > 60 > green
    assert (probe(path).height, probe(path).width) == (height, width)


@pytest.mark.parametrize(
    ("name", "codec", "size", "pixel", "displayed"),
    [
        ("disc.mkv", "libx264", (576, 720), "16/15", (576, 768)),
        ("camera.dv", "dvvideo", (576, 720), "64/45", (576, 1024)),
        ("american.avi", "mpeg4", (480, 720), "8/9", (540, 720)),
        ("tv.ts", "libx264", (480, 720), "32/27", (480, 853)),
        ("web.mp4", "libx264", (48, 64), "4/3", (48, 85)),
        ("nearly.mkv", "libx264", (48, 64), "640/641", (48, 64)),
        ("absurd.mkv", "libx264", (48, 64), "5/1", (48, 64)),
    ],
)
def test_pixels_that_are_not_square(tmp_path, name, codec, size, pixel, displayed):
    path = write_video(tmp_path / name, [0, 0.04, 0.08], codec, size=size, pixel=pixel)
    with av.open(path) as container:
        assert container.streams.video[0].sample_aspect_ratio == Fraction(pixel)
    assert (probe(path).height, probe(path).width) == displayed
    for frame in stream_frames(path):
        assert frame.image.shape == (*displayed, 3)
        red = (frame.image[..., 0] > 128) & (frame.image[..., 1] < 128)  # a quarter of the width and of the height
        assert (red.any(1).sum() / displayed[0], red.any(0).sum() / displayed[1]) == pytest.approx(
            (0.25, 0.25), abs=0.02
        )


def test_pixels_that_are_not_square_in_a_turned_picture_and_a_palette(tmp_path):
    path = write_video(tmp_path / "a.mp4", EVEN[:3], pixel="3/2")
    turn(path, (0, 1, -1, 0))
    assert next(stream_frames(path)).image.shape == (96, 48, 3)
    path = write_video(tmp_path / "a.gif", EVEN[:3], "gif", "rgb8", pixel=2)
    assert next(stream_frames(path)).image.shape == (48, 128, 3)


def test_odd_sizes(tmp_path):
    path = write_video(tmp_path / "a.mkv", EVEN[:3], "ffv1", "yuv444p", size=(47, 63))
    assert [frame.image.shape for frame in stream_frames(path)] == [(47, 63, 3)] * 3
    assert (probe(path).height, probe(path).width) == (47, 63)


def test_transparent_parts_are_black(tmp_path):
    with av.open(tmp_path / "a.mov", "w") as container:
        stream = container.add_stream("qtrle", rate=10, width=16, height=16, pix_fmt="argb")
        picture = np.full((16, 16, 4), 255, np.uint8)
        picture[:8, :, 0] = 0  # alpha comes first
        container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="argb")))
        container.mux(stream.encode(None))
    image = next(stream_frames(tmp_path / "a.mov")).image
    assert (image[:8] == 0).all()
    assert (image[8:] == 255).all()


def test_damaged_frames_are_skipped(tmp_path):
    path = write_video(tmp_path / "a.mkv", EVEN, "mpeg4", size=(96, 128), g="1")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 600] = bytes(600)
    path.write_bytes(data)
    seen = [index_of(frame) for frame in stream_frames(path)]
    assert 15 <= len(seen) < 30
    assert seen[:10] == list(range(10))
    assert seen[-5:] == list(range(25, 30))
    assert len(list(stream_frames(path, fps=10, end_s=3.0))) == 30


def test_a_video_cut_short_gives_what_it_has(tmp_path):
    path = write_video(tmp_path / "a.mkv", EVEN, g="5")
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    seen = [index_of(frame) for frame in stream_frames(path)]
    assert 5 < len(seen) < 30
    assert seen == list(range(len(seen)))


def test_a_long_video_needs_little_memory(tmp_path):
    path = write_video(tmp_path / "a.mkv", [i / 10 for i in range(100)], "mpeg4", size=(240, 320))
    tracemalloc.start()
    count = sum(1 for _ in stream_frames(path, fps=10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 100
    assert peak < 8 * 240 * 320 * 3


def test_a_photo_is_a_video_of_one_frame(tmp_path):
    photo = np.random.default_rng(0).integers(0, 255, (30, 40, 3), np.uint8)
    Pillow.fromarray(photo).save(tmp_path / "a.png")
    info = probe(tmp_path / "a.png")
    assert (info.has_video, info.has_audio, info.duration_s, info.width, info.height) == (True, False, 0.0, 40, 30)
    for fps in (None, 5.0):
        (frame,) = stream_frames(tmp_path / "a.png", fps)
        assert frame.time_s == 0.0
        np.testing.assert_array_equal(frame.image, photo)
    assert len(list(stream_frames(tmp_path / "a.png", 5.0, end_s=2.0))) == 10


def test_probe(clip_path):
    info = probe(clip_path)
    assert info.describe() == "0:02, 96x64, mono 22.05 kHz"
    assert info.fps == pytest.approx(10)
    assert info.duration_s == pytest.approx(2, abs=0.1)
    require_streams(info)


def test_probe_finds_the_length_of_a_recording_that_does_not_tell(tmp_path):
    write_video(tmp_path / "live.mkv", EVEN, sound_s=(0, 3), muxer={"live": "1"})
    with av.open(tmp_path / "live.mkv") as container:
        assert container.duration is None
    assert probe(tmp_path / "live.mkv").duration_s == pytest.approx(3, abs=0.1)


def test_missing_streams(tmp_path, clip_path):
    silent = write_video(tmp_path / "silent.mp4", EVEN[:3])
    with pytest.raises(MediaError, match=r"has a picture but no sound track \(streams: video h264 64x48\)") as caught:
        require_streams(probe(silent))
    assert "--audio" in caught.value.remedy
    sound = tmp_path / "sound.m4a"
    with av.open(clip_path) as source, av.open(sound, "w") as copy:
        stream = copy.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.dts is not None:
                packet.stream = stream
                copy.mux(packet)
    assert probe(sound).describe() == "0:02, no picture, mono 22.05 kHz"
    for action in (lambda: require_streams(probe(sound)), lambda: next(stream_frames(sound))):
        with pytest.raises(MediaError, match="has no picture"):
            action()


def test_unreadable_files(tmp_path, clip_path):
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(clip_path.read_bytes()[:2000])  # the index comes last
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("no video\n" * 100)
    cases = {"cut.mp4": "cut short", "empty.mp4": "is empty", "text.mp4": "not a media file", "none.mp4": "not exist"}
    for name, words in cases.items():
        for action in (probe, lambda path: next(stream_frames(path)), lambda path: read_frames(path, [0.0])):
            with pytest.raises(MediaError, match=words) as caught:
                action(tmp_path / name)
            assert caught.value.remedy
    with pytest.raises(MediaError, match="is a folder"):
        probe(tmp_path)
    with pytest.raises(ConfigError):
        next(stream_frames(clip_path, fps=0))


def test_real_clips(shared):
    clips = shared / "data" / "clips"
    info = probe(clips / "no-sound-track.mp4")
    assert (info.width, info.height, info.has_audio) == (596, 336, False)
    info = probe(clips / "violin-and-guitar.mp4")
    assert info.describe() == "0:05, 640x360, stereo 44.1 kHz"
    sampled = list(stream_frames(info.path, fps=4, start_s=3.0, end_s=4.0))
    for one, other in zip(sampled, read_frames(info.path, [frame.time_s for frame in sampled]), strict=True):
        np.testing.assert_array_equal(one.image, other.image)


def test_clock():
    assert [clock(t) for t in (0, 59.9, 60, 3600)] == ["0:00", "0:59", "1:00", "1:00:00"]
    assert [clock(t, tenths=True) for t in (0, 0.04, 59.94, 59.96, 3661.25)] == [
        *("0:00.0", "0:00.0", "0:59.9", "1:00.0", "1:01:01.2"),
    ]


def test_short_spans_are_told_to_a_tenth_of_a_second():
    assert clock_span(0.2, 0.4) == "0:00.2-0:00.4"
    assert clock_span(0.0, 1 / 30) == "0:00.0-0:00.1"  # never from a time to the same
    assert clock_span(59.5, 69.4, " to ") == "0:59.5 to 1:09.4"
    assert clock_span(59.5, 69.6) == "0:59-1:10"


def test_one_thread_decodes_up_to_full_hd_and_none_is_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soundwhere.cores.cores", lambda: 3)
    pictures = [(0, 0), (1280, 720), (1920, 1080), (1920, 1088), (2560, 1440), (3840, 2160), (7680, 4320)]
    assert [decoders(width * height) for width, height in pictures] == [1, 1, 1, 1, 2, 3, 3]
