"""Everything a camera, a phone or a bad disk can do to a clip, from the file to the answer and its overlay."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
from PIL import Image

from soundwhere.errors import MediaError
from soundwhere.inference.browser_video import browser_video
from soundwhere.inference.localiser import Localiser
from soundwhere.inference.writers import to_json
from soundwhere.media.audio import read_audio
from soundwhere.media.video import probe, read_frames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from soundwhere.inference.result import Result

SECONDS = 2.0
EVEN = tuple(index / 10 for index in range(20))


def scene(height: int, width: int) -> np.ndarray:
    """White, with the left quarter red at the top half and the right quarter blue at the bottom half."""
    image = np.full((height, width, 3), 255, np.uint8)
    image[: height // 2, : width // 4] = (255, 0, 0)
    image[height // 2 :, -(width // 4) :] = (0, 0, 255)
    return image


def write_scene(
    path: Path,
    codec: str = "libx264",
    form: str = "yuv444p",
    sound: str = "aac",
    rate: int = 16_000,
    layout: str = "mono",
    size: tuple[int, int] = (96, 192),
    times_s: Sequence[float] = EVEN,
    sound_s: tuple[float, float] = (0.0, SECONDS),
    pixel: Fraction = Fraction(0),
    **options: str,
) -> Path:
    """Write the scene with a tone of RMS 0.2 from sound_s[0] to sound_s[1]."""
    height, width = size
    with av.open(path, "w") as container:
        video = container.add_stream(codec, rate=10, width=width, height=height, pix_fmt=form, options=options)
        video.codec_context.time_base = video.time_base = Fraction(1, 1000)
        video.codec_context.sample_aspect_ratio = pixel  # 0: not told
        audio = container.add_stream(sound, rate=rate, layout=layout)
        for time_s in times_s:
            frame = av.VideoFrame.from_ndarray(scene(height, width), format="rgb24").reformat(format=form)
            frame.pts, frame.time_base = round(1000 * time_s), Fraction(1, 1000)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        tone = 0.2 * 2**0.5 * np.sin(2 * np.pi * 440 / rate * np.arange(round((sound_s[1] - sound_s[0]) * rate)))
        channels = av.AudioLayout(layout).nb_channels
        samples = np.repeat(tone.astype(np.float32), channels)[None]
        block = av.AudioFrame.from_ndarray(samples, "flt", layout)
        block.sample_rate, block.pts, block.time_base = rate, round(sound_s[0] * rate), Fraction(1, rate)
        context = audio.codec_context
        fit = av.AudioResampler(context.format, layout, rate, context.frame_size or 0)
        for piece in [*fit.resample(block), *fit.resample(None)]:
            container.mux(audio.encode(piece))
        container.mux(audio.encode(None))
    return path


def check_scene(
    result: Result, red: tuple[float, float] = (0.125, 0.25), blue: tuple[float, float] = (0.875, 0.75)
) -> None:
    """The sources are the red and the blue part, at these shares of the width and height, while something sounds."""
    heard = result.sounding.all(1)
    assert heard.any()
    places = result.peaks[heard].mean(0) / result.size[::-1]
    order = (0, 1) if np.abs(places[0] - red).sum() < np.abs(places[1] - red).sum() else (1, 0)
    np.testing.assert_allclose(places[list(order)], [red, blue], atol=0.2)


@pytest.fixture
def localiser(red_and_blue: Any) -> Localiser:
    return Localiser(red_and_blue, "cpu", fps=5)


@pytest.mark.parametrize(
    ("name", "codec", "form", "sound", "rate", "layout"),
    [
        ("vp8.webm", "libvpx", "yuv420p", "libopus", 48_000, "stereo"),
        ("vp9.webm", "libvpx-vp9", "yuva420p", "libopus", 48_000, "mono"),
        ("h264.mkv", "libx264", "yuv420p", "flac", 44_100, "stereo"),
        ("apple.mov", "mpeg4", "yuv420p", "pcm_s16le", 22_050, "mono"),
        ("alpha.mov", "qtrle", "argb", "pcm_s16le", 22_050, "mono"),
        ("old.avi", "mjpeg", "yuvj420p", "pcm_s16le", 11_025, "mono"),
        ("tv.ts", "libx264", "yuv420p", "mp2", 32_000, "mono"),
        ("ten-bits.mp4", "libx264", "yuv420p10le", "aac", 44_100, "mono"),
        ("prores.mov", "prores_ks", "yuv422p10le", "pcm_s16le", 48_000, "mono"),
        ("grown-up.mkv", "ffv1", "yuv420p16le", "flac", 96_000, "mono"),
        ("telephone.mp4", "libx264", "yuv420p", "aac", 8_000, "mono"),
        ("cinema.mkv", "libx264", "yuv420p", "flac", 48_000, "7.1"),
    ],
)
def test_every_kind_of_file(
    localiser: Localiser, tmp_path: Path, name: str, codec: str, form: str, sound: str, rate: int, layout: str
) -> None:
    path = write_scene(tmp_path / name, codec, form, sound, rate, layout)
    result = localiser.localise(path)
    assert len(result.times) == pytest.approx(10, abs=1)
    check_scene(result)
    assert result.levels_db[4] == pytest.approx(20 * np.log10(0.2), abs=1)  # whatever the rate and channels
    result.save(tmp_path / "out", ["mp4"])
    overlay = probe(tmp_path / "out" / "overlay.mp4")
    assert (overlay.height, overlay.width) == (96, 192)
    assert overlay.duration_s == pytest.approx(SECONDS, abs=0.25)
    assert np.std(read_audio(tmp_path / "out" / "overlay.mp4")[8_000:30_000]) == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize("size", [(65, 127), (2, 2), (33, 300), (300, 34)])
def test_odd_sizes(localiser: Localiser, tmp_path: Path, size: tuple[int, int]) -> None:
    path = write_scene(tmp_path / "a.mkv", "ffv1", "yuv444p", size=size)
    result = localiser.localise(path, end_s=0.5)
    assert result.size == size
    assert result.heatmap(0.2).shape == (2, *size)
    result.save(tmp_path / "out", ["mp4", "png", "coco", "html"])
    assert (probe(tmp_path / "out" / "overlay.mp4").height - size[0]) in (0, 1)  # the codec knows only even sizes


@pytest.mark.parametrize(("turn", "matrix"), [(90, (0, 1, -1, 0)), (180, (-1, 0, 0, -1)), (270, (0, -1, 1, 0))])
def test_a_turned_telephone(localiser: Localiser, tmp_path: Path, turn: int, matrix: tuple[int, ...]) -> None:
    """Clockwise by `turn`: what is stored at the left is shown at the top, the right or the bottom."""
    path = write_scene(tmp_path / "a.mp4")
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # the matrix of the picture's track header
    a, b, c, d = (value * 0x10000 for value in matrix)
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 0x4000_0000)
    path.write_bytes(data)
    result = localiser.localise(path)
    places = {
        90: ((0.75, 0.125), (0.25, 0.875)),
        180: ((0.875, 0.75), (0.125, 0.25)),
        270: ((0.25, 0.875), (0.75, 0.125)),
    }
    assert result.size == ((96, 192) if turn == 180 else (192, 96))
    check_scene(result, *places[turn])
    result.save(tmp_path / "out", ["mp4"])
    shown, drawn = (read_frames(p, [1.0])[0].image for p in (path, tmp_path / "out" / "overlay.mp4"))
    assert shown.shape == drawn.shape  # turned once, not twice


def test_pixels_that_are_not_square(localiser: Localiser, tmp_path: Path) -> None:
    """As on a disc: everything is in the picture as displayed, and the overlay and the page's clip have its shape."""
    path = write_scene(tmp_path / "disc.mp4", form="yuv420p", size=(96, 120), pixel=Fraction(64, 45))
    result = localiser.localise(path)
    assert result.size == (96, 171)  # 16:9
    assert result.maps.shape[-2:] == (4, 7)
    check_scene(result)
    result.save(tmp_path / "out", ["mp4", "json", "html"])
    assert (to_json(result)["width"], to_json(result)["height"]) == (171, 96)
    plain = browser_video(result.footage, tmp_path)
    assert plain.path != path
    for written in (tmp_path / "out" / "overlay.mp4", plain.path):
        with av.open(written) as container:
            stream = container.streams.video[0]
            assert (stream.width, stream.height) == (172, 96)
            assert stream.sample_aspect_ratio in (None, 1)
    picture = read_frames(tmp_path / "out" / "overlay.mp4", [1.0])[0].image
    assert picture[80, 10].min() > 220  # white below the red part ...
    assert picture[80, 140, 2] > picture[80, 140, 0] + 40  # ... and blue in the right quarter


def test_sound_shorter_than_the_picture(localiser: Localiser, tmp_path: Path) -> None:
    path = write_scene(tmp_path / "a.mp4", sound_s=(0.0, 0.6))
    result = localiser.localise(path)
    assert result.times[-1] == pytest.approx(1.8)
    assert result.sounding[0].all()
    assert not result.sounding[-2:].any()
    result.save(tmp_path / "out", ["mp4"])
    assert probe(tmp_path / "out" / "overlay.mp4").duration_s == pytest.approx(SECONDS, abs=0.2)


def test_sound_longer_than_the_picture(localiser: Localiser, tmp_path: Path) -> None:
    path = write_scene(tmp_path / "a.mp4", times_s=EVEN[:5], sound_s=(0.0, 3.0))
    result = localiser.localise(path)
    assert result.times[-1] == pytest.approx(2.8)  # the last picture stays while there is sound
    check_scene(result)
    result.save(tmp_path / "out", ["mp4"])
    assert probe(tmp_path / "out" / "overlay.mp4").duration_s == pytest.approx(3.0, abs=0.2)


def test_sound_that_starts_late(localiser: Localiser, tmp_path: Path) -> None:
    path = write_scene(tmp_path / "a.mkv", times_s=[i / 10 for i in range(40)], sound_s=(2.0, 4.0))
    result = localiser.localise(path)
    assert not result.sounding[result.times < 1.1].any()
    assert result.sounding[result.times > 2.2].all()
    result.save(tmp_path / "out", ["mp4"])
    heard = np.flatnonzero(np.abs(read_audio(tmp_path / "out" / "overlay.mp4")) > 0.05)
    assert heard[0] / 22_050 == pytest.approx(2.0, abs=0.06)


def test_a_picture_that_starts_late(localiser: Localiser, tmp_path: Path) -> None:
    result = localiser.localise(write_scene(tmp_path / "a.mkv", times_s=[1 + i / 10 for i in range(10)]))
    assert result.times[0] == 0  # with the first picture, for there is none before
    check_scene(result)


def test_uneven_frames(localiser: Localiser, tmp_path: Path) -> None:
    times = [0.0, 0.05, 0.1, 0.9, 0.95, 1.0, 1.9]
    result = localiser.localise(write_scene(tmp_path / "a.mkv", times_s=times))
    np.testing.assert_allclose(result.times, np.arange(len(result.times)) / 5)
    assert len(result.times) == pytest.approx(10, abs=1)
    check_scene(result)


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm", "avi"])
def test_a_single_frame(localiser: Localiser, tmp_path: Path, suffix: str) -> None:
    codec, sound = ("libvpx", "libopus") if suffix == "webm" else ("mpeg4", "pcm_s16le" if suffix == "avi" else "aac")
    rate = 48_000 if suffix == "webm" else 16_000
    path = write_scene(tmp_path / f"a.{suffix}", codec, "yuv420p", sound, rate, times_s=[0.0], sound_s=(0.0, 1.0))
    result = localiser.localise(path)
    assert len(result.times) >= 1
    check_scene(result)
    assert result.save(tmp_path / "out", ["mp4", "html"])


def test_a_film_without_sound_and_a_recording(localiser: Localiser, tmp_path: Path, noise_path: Path) -> None:
    frames = [Image.fromarray(scene(96, 192))] * 8
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:], duration=100)
    with pytest.raises(MediaError, match="no sound track"):
        localiser.localise(tmp_path / "a.gif")
    result = localiser.localise(tmp_path / "a.gif", audio=noise_path)
    check_scene(result)
    result.save(tmp_path / "out", ["mp4"])
    assert probe(tmp_path / "out" / "overlay.mp4").has_audio


@pytest.mark.parametrize(("suffix", "hole"), [("mp4", 900), ("mkv", 900), ("ts", 3000), ("avi", 900)])
def test_a_hole_in_the_middle(localiser: Localiser, tmp_path: Path, suffix: str, hole: int) -> None:
    sound = "pcm_s16le" if suffix == "avi" else "aac"
    path = write_scene(tmp_path / f"a.{suffix}", "mpeg4", "yuv420p", sound, g="5")
    data = bytearray(path.read_bytes())
    at = len(data) * 2 // 5
    data[at : at + hole] = np.random.default_rng(0).bytes(hole)
    path.write_bytes(data)
    result = localiser.localise(path)
    assert len(result.times) >= 9
    check_scene(result)
    result.save(tmp_path / "out", ["mp4", "png"])
    assert probe(tmp_path / "out" / "overlay.mp4").duration_s == pytest.approx(SECONDS, abs=0.3)


def test_a_picture_that_changes_its_size(localiser: Localiser, tmp_path: Path) -> None:
    """As recorded calls do: the overlay keeps the size of the beginning."""
    first = write_scene(tmp_path / "a.ts", "libx264", "yuv420p", "mp2", 32_000, size=(96, 192))
    second = write_scene(tmp_path / "b.ts", "libx264", "yuv420p", "mp2", 32_000, size=(48, 96))
    (tmp_path / "c.ts").write_bytes(first.read_bytes() + second.read_bytes())
    result = localiser.localise(tmp_path / "c.ts")
    assert result.size == (96, 192)
    check_scene(result)
    result.save(tmp_path / "out", ["mp4", "png"])
    shapes = {frame.image.shape for frame in read_frames(tmp_path / "c.ts", [0.0, 1.0, 3.0])}
    assert shapes == {(96, 192, 3)}


def test_a_header_that_claims_to_last_for_days(localiser: Localiser, tmp_path: Path) -> None:
    path = write_scene(tmp_path / "a.mp4")
    data = bytearray(path.read_bytes())
    for at in _all(data, b"mvhd"):
        data[at + 20 : at + 24] = (1_000 * 86_400 * 9).to_bytes(4)
    for at in _all(data, b"tkhd"):
        data[at + 24 : at + 28] = (1_000 * 86_400 * 9).to_bytes(4)
    for at in _all(data, b"elst"):
        data[at + 12 : at + 16] = (1_000 * 86_400 * 9).to_bytes(4)
    path.write_bytes(data)
    assert probe(path).duration_s == pytest.approx(SECONDS, abs=0.3)
    check_scene(localiser.localise(path))


def _all(data: bytearray, word: bytes) -> list[int]:
    """Where a word begins, each time."""
    places, at = [], data.find(word)
    while at >= 0:
        places.append(at)
        at = data.find(word, at + 1)
    return places


def test_a_title_in_another_alphabet(localiser: Localiser, tmp_path: Path) -> None:
    """Old programs wrote Latin-1 where UTF-8 is expected."""
    path = tmp_path / "a.mp4"
    write_scene(path)
    with av.open(path) as source, av.open(tmp_path / "b.mkv", "w") as copy:
        copy.metadata["title"] = "CAFE!"
        streams = {stream.index: copy.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = streams[packet.stream.index]
                copy.mux(packet)
    data = (tmp_path / "b.mkv").read_bytes()
    assert b"CAFE!" in data
    (tmp_path / "b.mkv").write_bytes(data.replace(b"CAFE!", "CAFÉ!".encode("latin-1")))
    check_scene(localiser.localise(tmp_path / "b.mkv"))
