"""How fast a clip is localised: against a plain loop, by part, and beside the clip's own length, in one run."""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar, cast

import av
import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from soundwhere.bench.clock import Clock
from soundwhere.constants import CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.data.synthetic import World
from soundwhere.errors import MediaError
from soundwhere.inference.ahead import spread
from soundwhere.inference.chunks import chunks
from soundwhere.inference.export import TOLERANCE, export_onnx
from soundwhere.inference.footage import Footage
from soundwhere.inference.graphs import has_graphs
from soundwhere.inference.localiser import Localiser
from soundwhere.inference.networks import load_network
from soundwhere.inference.overlays import drawn_heat
from soundwhere.inference.writers import localise_into, write_formats
from soundwhere.media.audio import read_audio, window
from soundwhere.media.blend import HeatBlender
from soundwhere.media.image import network_size, normalise, resize
from soundwhere.media.writer import VideoWriter
from soundwhere.methods.catalogue import NAMES, named_config
from soundwhere.methods.files import SHIPPED, build, load_model, write_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch import Tensor

    from soundwhere.inference.chunks import Chunk
    from soundwhere.inference.result import Result
    from soundwhere.inference.runtimes import Found, Runtime
    from soundwhere.methods.method import Localises, Network
    from soundwhere.types import Image, Waveform

T = TypeVar("T")

_AT_ONCE = 32  # chunks that are held while their parts are timed
_PEAK_SIZE = 1024  # side of the matrices whose product is taken for the machine's peak
_ROUNDS = 10  # of short measurements; the fastest counts
_HOP_S = 0.5
_TURNS = 3  # of everything that is compared, so that a busy moment of the machine does not decide
_PAPER_FPS = 43.2  # of one forward pass on an A100


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


def bench_localise(clip: Path | None, name: str, seconds: float, fps: float) -> dict[str, Any]:
    """Measure and print; returns the figures as JSON values."""
    model = _model(name)
    with TemporaryDirectory() as folder:
        if clip is None:
            clip = Path(folder) / "clip.mp4"
            print("writing a clip ...", file=sys.stderr)
            write_clip(clip, seconds)
        footage = Footage.open(clip)
        files = _files(model, Path(folder))
        localisers = {
            runtime: Localiser(file, "cpu", fps, _HOP_S, smooth=False, runtime=cast("Runtime", runtime))
            for runtime, file in files.items()
        }
        if has_graphs(name):  # what `soundwhere clip.mp4` does
            localisers["built in"] = Localiser(name, "cpu", fps, _HOP_S, smooth=False)
        peak = peak_flop_per_s()
        print(f"{name}: {footage.describe()}, {fps:g} frames a second analysed, {torch.get_num_threads()} threads")
        columns = {"seconds": 9, "frames/s": 10, "x plain": 9, "single forward": 16, "same maps": 12, "median off": 12}
        print("\n" + " " * 12 + "".join(f"{column:>{width}}" for column, width in columns.items()))
        maps, times_s = _take_turns(model, localisers, footage, fps)
        rows = []
        for runtime, passed_s in times_s.items():
            ratio = times_s["plain loop"] / passed_s
            row = {"run": runtime, "seconds": f"{passed_s:.2f}", "rate": f"{len(maps) / passed_s:.1f}"}
            row |= {"ratio": f"{ratio:.1f}", "single": "-", "same": "-", "off": "-"}
            if runtime in localisers:
                row["single"] = _single_forward(model, files.get(runtime), runtime)
                off = differences(localisers[runtime], footage, maps)
                row["same"] = f"{int((off < TOLERANCE).sum())}/{len(off)}"
                row["off"] = f"{float(off.median()):.1e}"
            shown = list(row.values())[1 : None if runtime in localisers else 4]
            cells = zip(shown, columns.values(), strict=False)
            print(f"{runtime:<12}" + "".join(f"{cell:>{width}}" for cell, width in cells))
            rows.append(row)
        runtime = min(localisers, key=times_s.__getitem__)
        localiser = localisers[runtime]
        print(f"same maps: frames whose maps differ by less than {TOLERANCE:g} from the plain loop's")
        print(f"the paper's single forward pass on an A100: {_PAPER_FPS} frames/s")
        result = localiser.localise(clip)
        print(f"\nby part, each alone ({runtime}; a matrix product reaches {peak / 1e9:.0f} Gflop/s):")
        parts = time_parts(localiser, model, result, Path(folder) / "parts.mp4")
        for part in parts:
            speed = f"{part.flop / part.seconds / 1e9:>8.1f} Gflop/s{part.flop / part.seconds / peak:>7.0%}"
            print(f"  {part.name:<32}{part.seconds:>8.2f} s{speed if part.flop else ''}")
        start = time.perf_counter()
        (Path(folder) / "out").mkdir()
        result = localise_into(localiser, footage, Path(folder) / "out", ("mp4",))
        write_formats(result, Path(folder) / "out", ("mp4",))
        passed_s, length_s = time.perf_counter() - start, footage.end_s - footage.start_s
        print(f"\nlocalised and overlay written in {passed_s:.1f} s: {length_s / passed_s:.2f} times real time")
    return {
        "rows": rows,
        "parts": [asdict(part) for part in parts],
        "overlay": {"seconds": passed_s, "clip_s": length_s, "times_real_time": length_s / passed_s},
    }


def _single_forward(model: Network, file: Path | None, runtime: str) -> str:
    """How fast one frame at a time goes, with all threads for it; of a file that can be run as a whole."""
    if file is None:
        return "-"
    return f"{1 / single_forward_s(load_network(file, runtime, torch.device('cpu')), model):.1f} fr/s"


def _take_turns(
    model: Network, localisers: dict[str, Localiser], footage: Footage, fps: float
) -> tuple[Tensor, dict[str, float]]:
    """Run the plain loop and every runtime in turns; the loop's maps, and the fastest of each one's times."""
    clock = Clock()
    for _ in range(_TURNS):
        with clock.time("plain loop"):
            maps = plain_loop(model, footage.path, fps, _HOP_S)
        for runtime, localiser in localisers.items():
            with clock.time(runtime):
                localiser.localise_footage(footage)
    return maps, {name: min(taken) for name, taken in clock.seconds.items()}


def _model(name: str) -> Network:
    """A model with its weights, or with random ones."""
    if name not in NAMES or name in SHIPPED:
        return load_model(name)
    torch.manual_seed(0)
    return build(named_config(name)).eval()


def _files(model: Network, folder: Path) -> dict[str, Path]:
    """The model as a file for each runtime that is installed."""
    found: dict[str, Path] = {"torch": folder / "model.safetensors"}
    write_model(found["torch"], model)
    if not all(map(importlib.util.find_spec, ("onnx", "onnxruntime"))):
        print("onnx and openvino are left out: pip install 'soundwhere[export,openvino]'", file=sys.stderr)
        return found
    print("exporting the model ...", file=sys.stderr)
    found["onnx"] = folder / "model.onnx"
    export_onnx(model, found["onnx"])
    if importlib.util.find_spec("openvino"):
        found["openvino"] = found["onnx"]
    return found


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
    clock = Clock()

    def timed(name: str, work: Iterable[T]) -> list[T]:
        with clock.time(name):
            return list(work)

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
    names = ("decode", "encode audio", "encode image, decouple")
    parts = [PartTime(name, clock.total_s(name), flop.get(name, 0) * often.get(name, 0)) for name in names]
    return parts + _time_overlay(result, target)


def _time_overlay(result: Result, target: Path) -> list[PartTime]:
    footage, (height, width) = result.footage, result.size
    clock, blender = Clock(), HeatBlender()
    with VideoWriter(target, width, height, footage.own_fps, audio_from=footage.sound) as video:
        frames = footage.planes(footage.own_fps)
        while True:
            with clock.time("decode again, at the full rate"):
                shown = next(frames, None)
            if shown is None:
                break
            time_s, frame = shown
            with clock.time("draw"):
                drawn = blender.blend(frame, *drawn_heat(result, time_s))
            with clock.time("write"):
                video.write(drawn)
    return [PartTime(name, sum(taken)) for name, taken in clock.seconds.items()]


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
    clock = Clock()
    work()
    for _ in range(_ROUNDS):
        with clock.time("work"):
            work()
    return min(clock.seconds["work"])
