import wave
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.errors import MediaError, OutputError
from soundwhere.media.audio import (
    _Run,
    centre_clip,
    read_audio,
    scale_to_rms,
    timeline,
    window,
    write_wav,
)

RATE = 22_050


def bumps(seconds: float, rate: int, times=(0.25, 1.0)) -> np.ndarray:
    """Smooth clicks at known times: what resampling must keep in place."""
    t = np.arange(round(seconds * rate)) / rate
    return sum(0.5 * np.exp(-(((t - time) / 0.002) ** 2)) for time in times)


def write_sound(
    path: Path, samples: np.ndarray, rate: int, codec: str, form: str, layout: str, starts_s=(0.0,), picture_s=None
) -> Path:
    """Write channels (C, N), cut into parts that begin at `starts_s`; a picture, if any, begins at `picture_s`."""
    with av.open(path, "w") as container:
        if picture_s is not None:
            video = container.add_stream("mpeg4", rate=10, width=32, height=32, pix_fmt="yuv420p")
        stream = container.add_stream(codec, rate=rate, layout=layout, format=form)
        if picture_s is not None:
            for index in range(30):
                frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
                frame.pts, frame.time_base = index + round(picture_s * 10), Fraction(1, 10)
                container.mux(video.encode(frame))
            container.mux(video.encode(None))
        for part, start_s in zip(np.array_split(samples, len(starts_s), axis=1), starts_s, strict=True):
            for begin in range(0, part.shape[1], 1024):
                block = np.ascontiguousarray(part[:, begin : begin + 1024])
                if not av.AudioFormat(form).is_planar:
                    block = np.ascontiguousarray(block.T.reshape(1, -1))
                frame = av.AudioFrame.from_ndarray(block, format=form, layout=layout)
                frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
                frame.pts = round(start_s * rate) + begin
                container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_pcm(path: Path, samples: np.ndarray, rate: int) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(len(samples))
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples.T * 32767).astype("<i2").tobytes())
    return path


@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 44_056])
def test_every_rate_keeps_events_in_place(tmp_path, rate):
    path = write_pcm(tmp_path / "a.wav", bumps(1.5, rate)[None], rate)
    waveform = read_audio(path)
    assert waveform.dtype == np.float32
    assert abs(len(waveform) - 1.5 * RATE) <= 1
    np.testing.assert_allclose(waveform[:33_000], bumps(1.5, RATE)[:33_000], atol=2e-3)


@pytest.mark.parametrize("channels", [1, 2, 3, 6, 8, 10])
def test_channels_are_averaged(tmp_path, channels):
    gains = np.linspace(0.1, 1, channels)
    path = write_pcm(tmp_path / "a.wav", gains[:, None] * bumps(1.2, RATE), RATE)
    np.testing.assert_allclose(read_audio(path), gains.mean() * bumps(1.2, RATE), atol=1e-4)


@pytest.mark.parametrize(
    ("suffix", "codec", "form", "tolerance"),
    [
        ("wav", "pcm_u8", "u8", 0.02),
        ("wav", "pcm_s32le", "s32", 1e-4),
        ("wav", "pcm_f32le", "flt", 1e-4),
        ("wav", "pcm_f64le", "dbl", 1e-4),
        ("flac", "flac", "s16", 1e-4),
        ("ogg", "libopus", "flt", 0.05),
        ("mp3", "libmp3lame", "fltp", 0.05),
        ("m4a", "aac", "fltp", 0.05),
        ("mka", "libopus", "flt", 0.05),
    ],
)
def test_formats_packed_and_planar(tmp_path, suffix, codec, form, tolerance):
    sound = np.stack([bumps(1.5, 48_000), bumps(1.5, 48_000)])
    scales = {"u8": (127, 128, np.uint8), "s16": (32767, 0, np.int16), "s32": (2**31 - 1000, 0, np.int32)}
    scale, offset, dtype = scales.get(form, (1, 0, np.float64 if form == "dbl" else np.float32))
    path = tmp_path / f"a.{suffix}"
    write_sound(path, (sound * scale + offset).astype(dtype), 48_000, codec, form, "stereo")
    waveform = read_audio(path)[: round(1.4 * RATE)]
    np.testing.assert_allclose(waveform, bumps(1.5, RATE)[: len(waveform)], atol=tolerance)


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "mov"])
def test_sound_that_starts_late_is_padded(tmp_path, suffix):
    sound = bumps(1.5, 44_100)[None].astype(np.float32)
    path = write_sound(tmp_path / f"a.{suffix}", sound, 44_100, "aac", "fltp", "mono", starts_s=[0.5], picture_s=0.0)
    waveform = read_audio(path)
    assert np.abs(waveform[: round(0.6 * RATE)]).max() < 0.02
    for time in (0.75, 1.5):
        peak = np.argmax(waveform[round((time - 0.2) * RATE) : round((time + 0.2) * RATE)]) / RATE + time - 0.2
        assert abs(peak - time) < 0.002


def test_gaps_become_silence(tmp_path):
    sound = bumps(2.0, 48_000, times=(0.5, 1.5))[None].astype(np.float32)
    path = write_sound(
        tmp_path / "a.mkv", sound, 48_000, "pcm_f32le", "flt", "mono", starts_s=[0.0, 1.7], picture_s=0.0
    )
    waveform = read_audio(path)
    np.testing.assert_allclose(waveform, bumps(2.7, RATE, times=(0.5, 2.2)), atol=3e-3)


def test_a_transport_stream_starts_at_zero(tmp_path):
    sound = bumps(1.5, 48_000)[None].astype(np.float32)
    path = write_sound(tmp_path / "a.ts", sound, 48_000, "aac", "fltp", "mono", starts_s=[1.4], picture_s=1.4)
    with av.open(path) as container:
        assert container.start_time > 1_000_000
    assert abs(np.argmax(read_audio(path)[RATE // 2 : RATE * 3 // 2]) / RATE + 0.5 - 1.0) < 0.03


def test_nan_becomes_silence(tmp_path):
    sound = bumps(1.5, 48_000).astype(np.float32)
    sound[:4000] = np.nan
    sound[4000:5000] = np.inf
    path = write_sound(tmp_path / "a.wav", sound[None], 48_000, "pcm_f32le", "flt", "mono")
    waveform = read_audio(path)
    assert np.isfinite(waveform).all()
    np.testing.assert_allclose(waveform[4000:], bumps(1.5, RATE)[4000:], atol=2e-3)


@pytest.mark.parametrize("name", ["a.wav", "a.mp4", "a.mp3", "a.flac"])
def test_a_part_equals_the_part_of_the_whole(tmp_path, name):
    rng = np.random.default_rng(0)
    noise = np.cumsum(rng.normal(0, 0.02, 48_000 * 6)) % 1 - 0.5
    smooth = np.convolve(noise, np.hanning(64) / 32, "same").astype(np.float32)[None]
    codec = {".wav": "pcm_f32le", ".mp4": "aac", ".mp3": "libmp3lame", ".flac": "flac"}[name[1:]]
    form = {"pcm_f32le": "flt", "flac": "s16"}.get(codec, "fltp")
    samples = (smooth * 32767).astype(np.int16) if form == "s16" else smooth
    path = write_sound(tmp_path / name, samples, 48_000, codec, form, "mono")
    whole = read_audio(path)
    part = read_audio(path, 3.2, 4.45)
    assert len(part) == round(1.25 * RATE)
    np.testing.assert_allclose(part, whole[round(3.2 * RATE) :][: len(part)], atol=2e-3)
    np.testing.assert_allclose(read_audio(path, -0.5, 0.5)[RATE // 2 :], whole[: RATE // 2], atol=1e-6)
    assert (read_audio(path, -0.5, 0.5)[: RATE // 2] == 0).all()
    assert len(read_audio(path, 60.0)) == len(read_audio(path, 2.0, 1.0)) == 0
    assert len(read_audio(path, 5.0, 60.0)) == len(whole) - 5 * RATE


def test_a_part_of_a_matroska_file_is_right_to_its_millisecond(tmp_path):
    sound = bumps(6.0, 48_000, times=(4.0,))[None].astype(np.float32)
    path = write_sound(tmp_path / "a.mkv", sound, 48_000, "libopus", "flt", "mono")
    assert abs(np.argmax(read_audio(path, 3.2, 5.0)) / RATE + 3.2 - 4.0) < 0.0015


@pytest.mark.parametrize("size", [64, 1024, 5000])
def test_the_size_of_frames_does_not_matter_nor_does_a_change_of_form(tmp_path, size):
    """Frames of any size, in the middle from packed stereo integers to planar mono floats, against one frame."""
    rate, total = 44_100, 60_000
    tone = (np.sin(np.arange(total) / 9) * 20_000).astype(np.int16)
    cut = size * (total // size // 2)

    def frame(start, stop, floats):
        part = tone[None, start:stop]
        data = (part / 32_768).astype(np.float32) if floats else part.repeat(2, axis=1)
        made = av.AudioFrame.from_ndarray(
            data, format="fltp" if floats else "s16", layout="mono" if floats else "stereo"
        )
        made.sample_rate = rate
        return made

    def resampled(frames):
        run = _Run(0.013, rate, RATE, 1)
        blocks = [*(block for frame in frames for block in run.add(frame)), *run.end()]
        ends = np.cumsum([block.shape[1] for _, block in blocks])
        np.testing.assert_array_equal(np.diff([index for index, _ in blocks]), np.diff([0, *ends[:-1]]))
        return np.concatenate([block for _, block in blocks], axis=1)

    whole = resampled([frame(0, total, floats=True)])
    parts = [frame(at, min(at + size, total), floats=at >= cut) for at in range(0, total, size)]
    np.testing.assert_array_equal(resampled(parts), whole)


def test_stereo_stays_stereo_on_request(tmp_path):
    sound = np.stack([bumps(1.5, 44_100), -bumps(1.5, 44_100)])
    left, right = np.concatenate(list(timeline(write_pcm(tmp_path / "a.wav", sound, 44_100), 48_000, 2)), axis=1)
    np.testing.assert_allclose(left, -right, atol=1e-4)
    assert abs(np.argmax(left[24_000:]) / 48_000 + 0.5 - 1.0) < 1e-3


def test_a_damaged_middle_is_stepped_over(tmp_path):
    tone = np.sin(np.arange(48_000 * 4) / 20).astype(np.float32)[None] / 2
    path = write_sound(tmp_path / "a.mp3", tone, 48_000, "libmp3lame", "fltp", "mono")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 2000] = bytes(2000)
    path.write_bytes(data)
    waveform = read_audio(path)
    assert np.isfinite(waveform).all()
    assert len(waveform) > 3 * RATE


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "does not exist"),
        (b"", "is empty"),
        (b"just some words\n" * 50, "not a media file"),
        (b"\0\0\0\x18ftypisom" + bytes(500), "cut short or damaged"),
    ],
)
def test_unreadable_files(tmp_path, content, words):
    path = tmp_path / "a:b %d.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MediaError, match=words) as caught:
        read_audio(path)
    assert "\n" not in caught.value.message
    assert caught.value.remedy


def test_folder_and_text(tmp_path):
    with pytest.raises(MediaError, match="is a folder"):
        read_audio(tmp_path)
    (tmp_path / "a.txt").write_text("words " * 100)
    with pytest.raises(MediaError, match=r"text file|not a media file"):
        read_audio(tmp_path / "a.txt")


def test_names_that_look_like_addresses_are_read(tmp_path):
    path = write_pcm(tmp_path / "http:a b%d.wav", bumps(1.0, RATE)[None], RATE)
    assert len(read_audio(path)) == RATE


def test_real_clips(shared):
    clips = shared / "data" / "clips"
    assert abs(len(read_audio(clips / "dog-barking.mp4")) / RATE - 10) < 0.05
    with pytest.raises(
        MediaError, match="has a picture but no sound track \\(streams: video h264 596x336\\)"
    ) as caught:
        read_audio(clips / "no-sound-track.mp4")
    assert "--audio" in caught.value.remedy


@given(samples=st.integers(0, 3000), centre_s=st.floats(-1, 1), length_s=st.floats(0, 0.2))
def test_window_agrees_with_a_plain_loop(samples, centre_s, length_s):
    waveform = np.arange(1, samples + 1, dtype=np.float32)
    part = window(waveform, centre_s, length_s)
    assert len(part) == round(length_s * RATE)
    start = round(centre_s * RATE) - len(part) // 2
    expected = [waveform[i] if 0 <= i < samples else 0 for i in range(start, start + len(part))]
    np.testing.assert_array_equal(part, expected)


@given(samples=st.integers(1, 300), size=st.integers(0, 600))
def test_centre_clip(samples, size):
    waveform = np.arange(samples, dtype=np.float32)
    clip = centre_clip(waveform, size / RATE)
    assert len(clip) == size
    if samples >= size > 0:
        assert abs(clip.mean() - waveform.mean()) <= 0.5
        np.testing.assert_array_equal(np.diff(clip), 1)
    else:
        np.testing.assert_array_equal(clip, np.arange(size) % samples)
    assert (centre_clip(waveform[:0], size / RATE) == 0).all()


@given(st.floats(1e-3, 10), st.floats(0.01, 1))
def test_scale_to_rms(loudness, rms):
    waveform = (np.random.default_rng(0).normal(0, loudness, 1000)).astype(np.float32)
    scaled = scale_to_rms(waveform, rms)
    assert scaled.dtype == np.float32
    assert np.sqrt((scaled.astype(float) ** 2).mean()) == pytest.approx(rms, rel=1e-4)


def test_silence_stays_silence():
    assert (scale_to_rms(np.zeros(100, np.float32)) == 0).all()
    assert len(scale_to_rms(np.zeros(0, np.float32))) == 0
    assert np.abs(scale_to_rms(np.full(100, 1e-7, np.float32))).max() < 1e-6


def test_wav_round_trip(tmp_path):
    waveform = np.random.default_rng(0).uniform(-1.2, 1.2, 5000).astype(np.float32)
    waveform[7] = np.nan
    write_wav(tmp_path / "new" / "a.wav", waveform)
    read = read_audio(tmp_path / "new" / "a.wav")
    np.testing.assert_allclose(read, np.clip(np.nan_to_num(waveform), -1, 1), atol=1e-4)
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.wav"]


def test_wav_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        write_wav(tmp_path / "file" / "a.wav", np.zeros(10, np.float32))
