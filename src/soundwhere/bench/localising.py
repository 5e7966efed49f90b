"""How fast a clip is localised: against a plain loop, by part, and beside the clip's own length, in one run."""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

import av
import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from soundwhere.constants import CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.data.synthetic import World
from soundwhere.errors import MediaError
from soundwhere.inference.ahead import spread
from soundwhere.inference.chunks import chunks
from soundwhere.inference.overlays import drawn_heat
from soundwhere.media.audio import read_audio, window
from soundwhere.media.blend import HeatBlender
from soundwhere.media.image import network_size, normalise, resize
from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from torch import Tensor

    from soundwhere.inference.chunks import Chunk
    from soundwhere.inference.footage import Footage
    from soundwhere.inference.localiser import Localiser
    from soundwhere.inference.result import Result
    from soundwhere.inference.runtimes import Found
    from soundwhere.methods.method import Localises, Network
    from soundwhere.types import Image, Waveform

T = TypeVar("T")

_AT_ONCE = 32  # chunks that are held while their parts are timed
_PEAK_SIZE = 1024  # side of the matrices whose product is taken for the machine's peak
_ROUNDS = 10  # of short measurements; the fastest counts


@dataclass(frozen=True)
class PartTime:
    """What a part of the work on a whole clip took, alone.

    Attributes:
        name: What was done.
        seconds: How long it took.
        flop: Floating-point operations of its convolutions and matrix products; 0 where there are none.
    """

    name: str
    seconds: float
    flop: int = 0


def write_clip(path: Path, seconds: float, size: tuple[int, int] = (720, 1280), fps: int = 25) -> None:
    """Write a clip to measure with: a made-up scene of a height and width that slides by, with its sound."""
    scene = World(seed=0, size=size).scene(0)
    sound = np.resize(scene.mixture, round(seconds * SAMPLE_RATE_HZ))
    with VideoWriter(path, size[1], size[0], fps, waveform=sound) as video:
        for number in range(round(seconds * fps)):
            video.write(np.roll(scene.image, 4 * number, axis=1))


@torch.no_grad()
def plain_loop(model: Network, path: Path, fps: float, hop_s: float) -> Tensor:
    """Localise as one does at first: frame by frame, sound encoded anew for each, in eager torch.

    Returns:
        Heatmaps, shape (T, K, h, w), in [0, 1].
    """
    sound, maps = read_audio(path), []
    for time_s, image in _plain_frames(path, fps):
        height, width, _ = image.shape
        size = network_size(height, width, model.config.frame_px, model.stride_px)
        around = window(sound, int(time_s / hop_s + 0.5) * hop_s)
        spectrogram = model.spectrogram(torch.from_numpy(around)[None])
        picture = normalise(resize(image, size))[None]
        maps.append(model.sharpen(model(picture, spectrogram).similarity, picture).clamp(0, 1))
    return torch.cat(maps)


def _plain_frames(path: Path, fps: float) -> Iterator[tuple[float, Image]]:
    """The frames on display at 0, 1 / fps, ... as PyAV gives them, which does for ordinary files."""
    with av.open(path) as container:
        decoded = container.decode(video=0)
        shown, following = None, next(decoded, None)
        for index in range(math.ceil((container.duration or 0) / av.time_base * fps - 1e-6)):
            while following is not None and (shown is None or (following.time or 0) <= index / fps + 1e-3):
                shown, following = following, next(decoded, None)
            if shown is not None:
                yield index / fps, cast("Image", shown.to_ndarray(format="rgb24"))


def differences(localiser: Localiser, footage: Footage, maps: Tensor) -> Tensor:
    """Largest difference of each frame's maps from those of the plain loop, shape (T,).

    Raises:
        MediaError: The plain loop saw other frames.
    """
    ours = torch.from_numpy(np.concatenate([found.maps for _, _, found in localiser.localisations(footage)]))
    if ours.shape != maps.shape:
        raise MediaError(
            f"A plain loop reads {footage.path} wrongly: {len(maps)} frames instead of {len(ours)}, or not upright.",
            "Measure with an ordinary mp4, or without --clip.",
        )
    return (ours - maps).abs().flatten(1).amax(1)


def time_parts(localiser: Localiser, reference: Network, result: Result, target: Path) -> list[PartTime]:
    """Do each part of the work on a clip by itself.

    Args:
        localiser: Whose runtime and settings are measured.
        reference: The same model in torch, whose operations are counted.
        result: What the localiser found.
        target: Where the overlay is written.
    """
    footage, model = result.footage, localiser.model
    size = network_size(*footage.size, model.config.frame_px, model.stride_px)
    seconds = dict.fromkeys(("decode", "encode audio", "encode image, decouple"), 0.0)

    def timed(name: str, work: Iterable[T]) -> list[T]:
        start = time.perf_counter()
        done = list(work)
        seconds[name] += time.perf_counter() - start
        return done

    def hear(sounds: dict[int, Waveform]) -> Sequence[Any]:
        return model.hear(np.stack(list(sounds.values())))

    def answer(chunk: Chunk) -> Found:
        around = [heard[0][0]] * len(chunk.shown)  # any window takes as long
        return model.localise(chunk.pictures, chunk.shown, around, localiser.sources)

    heard: list[Sequence[Any]] = []
    windows = 0
    frames = footage.undeveloped(result.fps)
    with closing(chunks(footage, frames, result.settings.hop_s, localiser.batch, size, localiser.workers)) as read:
        while some := timed("decode", islice(read, _AT_ONCE)):
            sounds = [chunk.sounds for chunk in some if chunk.sounds]
            windows += sum(map(len, sounds))
            heard = timed("encode audio", map(hear, sounds)) or heard
            timed("encode image, decouple", spread(answer, some, localiser.workers))
    flop = count_flop(reference, size, localiser.sources)
    flop["encode image, decouple"] = flop["encode image"] + flop["decouple"]
    often = {"encode audio": windows, "encode image, decouple": len(result.times)}
    parts = [PartTime(name, passed, flop.get(name, 0) * often.get(name, 0)) for name, passed in seconds.items()]
    return parts + _time_overlay(result, target)


def _time_overlay(result: Result, target: Path) -> list[PartTime]:
    footage, (height, width) = result.footage, result.size
    seconds = {"decode again, at the full rate": 0.0, "draw": 0.0, "write": 0.0}
    fps = footage.own_fps
    blender = HeatBlender()
    with VideoWriter(target, width, height, fps, audio_from=footage.sound) as video:
        times = [time.perf_counter()]
        for time_s, frame in footage.planes(fps):
            times.append(time.perf_counter())
            drawn = blender.blend(frame, *drawn_heat(result, time_s))
            times.append(time.perf_counter())
            video.write(drawn)
            times.append(time.perf_counter())
            for name, passed in zip(seconds, np.diff(times), strict=True):
                seconds[name] += float(passed)
            times = [time.perf_counter()]
    return [PartTime(name, passed) for name, passed in seconds.items()]


@torch.inference_mode()
def count_flop(model: Network, size: tuple[int, int], sources: int) -> dict[str, int]:
    """Floating-point operations of a model's convolutions and matrix products for one picture of a size, by part."""
    counts: dict[str, int] = {}

    def counted(name: str, work: Callable[..., Tensor], *values: Tensor) -> Tensor:
        with FlopCounterMode(display=False) as counter:
            found = work(*values)
        counts[name] = int(counter.get_total_flops())
        return found

    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # the fused layer is not counted
    try:
        heard = counted("encode audio", model.embed, model.spectrogram(torch.randn(1, CLIP_SAMPLES)))
        features = counted("encode image", model.see, torch.randn(1, 3, *size))
        counted("decouple", lambda f, h: model.localise(f, h, sources).similarity, features, heard)
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
    return counts


def peak_flop_per_s() -> float:
    """Floating-point operations per second of a plain matrix product in single precision."""
    matrix = torch.randn(_PEAK_SIZE, _PEAK_SIZE)
    return 2 * _PEAK_SIZE**3 / fastest(lambda: matrix @ matrix)


@torch.inference_mode()
def single_forward_s(model: Localises, reference: Network) -> float:
    """Seconds of one forward pass: one square picture and one sound to maps."""
    side = reference.config.frame_px
    image, sound = torch.randn(1, 3, side, side), 0.1 * torch.randn(1, CLIP_SAMPLES)
    return fastest(lambda: model.localise(model.see(image), model.hear(sound)))


def fastest(work: Callable[[], object]) -> float:
    """Seconds of the fastest of a few rounds of some work, after one that does not count."""
    work()
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
