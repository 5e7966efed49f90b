"""Damaged files, by the hundred: an answer or one of our errors, never a crash, a hang or a claim of years."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest

from soundwhere.errors import SoundwhereError
from soundwhere.inference.localiser import Localiser
from soundwhere.media.audio import read_audio
from soundwhere.media.video import probe, stream_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soundwhere.methods.scav.model import SCAV

MUTATIONS = 50  # of each kind of file through the media layer
WHOLE = 5  # of each kind through the localiser and its writers
MOST_CPU_S = 10.0  # for one file; a hang would take for ever
KINDS = {
    "mp4": ("libx264", "yuv420p", "aac", 16_000),
    "webm": ("libvpx", "yuv420p", "libopus", 48_000),
    "mkv": ("mpeg4", "yuv420p", "flac", 8_000),
    "avi": ("mjpeg", "yuvj420p", "pcm_s16le", 8_000),
    "wav": (None, "", "pcm_s16le", 8_000),
    "gif": ("gif", "rgb8", None, 0),
}
EXTREMES = (b"\xff" * 8, b"\x7f" + b"\xff" * 7, bytes(8), b"\0\0\0\1\0\0\0\1", b"\1\0\0\0\1\0\0\0", b"\0\xff\xff\0" * 2)


@pytest.fixture(scope="session")
def sound_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A very small file of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    return {kind: write(folder / f"a.{kind}", *what).read_bytes() for kind, what in KINDS.items()}


def write(path: Path, codec: str | None, form: str, sound: str | None, rate: int) -> Path:
    """6 frames of 48 x 32, and 0.6 s of a tone."""
    with av.open(path, "w") as container:
        video = container.add_stream(codec, rate=10, width=48, height=32, pix_fmt=form) if codec else None
        audio = container.add_stream(sound, rate=rate, layout="mono") if sound else None
        if video is not None:
            for index in range(6):
                picture = np.full((32, 48, 3), 60, np.uint8)
                picture[8:24, 6 * index : 6 * index + 10] = (255, 40, 40)
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                frame.pts, frame.time_base = index, Fraction(1, 10)
                container.mux(video.encode(frame))
            container.mux(video.encode(None))
        if audio is not None:
            tone = (0.3 * np.sin(np.arange(rate * 6 // 10) / 5)).astype(np.float32)[None]
            block = av.AudioFrame.from_ndarray(tone, format="fltp", layout="mono")
            block.sample_rate, block.pts, block.time_base = rate, 0, Fraction(1, rate)
            context = audio.codec_context
            fit = av.AudioResampler(context.format, "mono", rate, context.frame_size or 0)
            for piece in [*fit.resample(block), *fit.resample(None)]:
                container.mux(audio.encode(piece))
            container.mux(audio.encode(None))
    return path


def damage(content: bytes, seed: int) -> bytes:
    """Flip, cut out, insert, blank or overwrite with extreme numbers, one to three times, headers more often."""
    rng = np.random.default_rng(seed)
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        size, length = len(data), int(rng.integers(1, 64))
        if size < 16:
            break
        headers = (
            int(rng.integers(size)),
            int(rng.integers(min(size, 1200))),
            size - 1 - int(rng.integers(min(size, 2000))),
        )
        at = headers[rng.integers(3)]
        match int(rng.integers(7)):
            case 0:
                for place in rng.integers(size, size=length):
                    data[place] ^= 1 << int(rng.integers(8))
            case 1:
                del data[int(rng.integers(16, size)) :]
            case 2:
                del data[at : at + length]
            case 3:
                data[at:at] = rng.bytes(length)
            case 4:
                data[at : at + length] = bytes(min(length, size - at))
            case _:
                width = (2, 4, 8)[rng.integers(3)]
                data[at : at + width] = EXTREMES[rng.integers(len(EXTREMES))][:width]
    return bytes(data)


def survives(action: Callable[[], object]) -> bool:
    """Whether an action succeeds; it may fail with one of our errors, and must not take long."""
    began, refusal = time.process_time(), None
    try:
        action()
    except SoundwhereError as error:
        refusal = error
    assert time.process_time() - began < MOST_CPU_S
    assert refusal is None or (refusal.message and refusal.remedy)
    return refusal is None


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_or_refused(sound_files: dict[str, bytes], tmp_path: Path, kind: str) -> None:
    content, path = sound_files[kind], tmp_path / f"damaged.{kind}"

    def look() -> None:
        assert probe(path).duration_s < 60 + path.stat().st_size / 20 + 1

    def watch() -> None:
        for frame in stream_frames(path, fps=2.0):
            assert frame.image.dtype == np.uint8
            assert frame.image.ndim == 3

    def listen() -> None:
        assert np.isfinite(read_audio(path)).all()

    read = 0
    for seed in range(MUTATIONS):
        path.unlink(missing_ok=True)  # to write over a file waits for the disk
        path.write_bytes(damage(content, seed))
        read += sum([survives(look), survives(watch), survives(listen)])
    # damage is stepped over where that is possible, and some of it destroys everything
    assert 0 < read < 3 * MUTATIONS


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_localised_or_refused(
    tiny: SCAV, sound_files: dict[str, bytes], tmp_path: Path, noise_path: Path, kind: str
) -> None:
    localiser = Localiser(tiny, "cpu", fps=1, squash=True)
    path, out = tmp_path / f"damaged.{kind}", tmp_path / "out"
    photo = tmp_path / "whole.gif"
    photo.write_bytes(sound_files["gif"])

    def localise() -> None:
        clip, audio = {"wav": (photo, path), "gif": (path, noise_path)}.get(kind, (path, None))
        result = localiser.localise(clip, audio, end_s=5.0)
        files = result.save(out, ["mp4", "json", "csv", "coco"], overwrite=True)
        assert all(file.stat().st_size > 0 for file in files)

    path.write_bytes(sound_files[kind])
    assert survives(localise)
    for seed in range(1000, 1000 + WHOLE):
        path.write_bytes(damage(sound_files[kind], seed))
        survives(localise)
        assert not list(tmp_path.glob(".*"))  # nothing half-written stays
