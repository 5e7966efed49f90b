"""The table of `soundwhere bench localise`."""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from soundwhere.inference.footage import Footage
    from soundwhere.inference.localiser import Localiser
    from soundwhere.inference.runtimes import Runtime
    from soundwhere.methods.method import Network

T = TypeVar("T")

_HOP_S = 0.5
_TURNS = 3  # of everything that is compared, so that a busy moment of the machine does not decide
_PAPER_FPS = 43.2  # of one forward pass on an A100


def bench_localise(clip: Path | None, name: str, seconds: float, fps: float) -> dict[str, Any]:
    """Measure and print; returns the figures as JSON values."""
    import torch

    from soundwhere.bench import localising as bench
    from soundwhere.inference.export import TOLERANCE
    from soundwhere.inference.footage import Footage
    from soundwhere.inference.graphs import has_graphs
    from soundwhere.inference.localiser import Localiser
    from soundwhere.inference.writers import localise_into, write_formats

    model = _model(name)
    with TemporaryDirectory() as folder:
        if clip is None:
            clip = Path(folder) / "clip.mp4"
            print("writing a clip ...", file=sys.stderr)
            bench.write_clip(clip, seconds)
        footage = Footage.open(clip)
        files = _files(model, Path(folder))
        localisers = {
            runtime: Localiser(file, "cpu", fps, _HOP_S, smooth=False, runtime=cast("Runtime", runtime))
            for runtime, file in files.items()
        }
        if has_graphs(name):  # what `soundwhere clip.mp4` does
            localisers["built in"] = Localiser(name, "cpu", fps, _HOP_S, smooth=False)
        peak = bench.peak_flop_per_s()
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
                off = bench.differences(localisers[runtime], footage, maps)
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
        parts = bench.time_parts(localiser, model, result, Path(folder) / "parts.mp4")
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
    import torch

    from soundwhere.bench.localising import single_forward_s
    from soundwhere.inference.networks import load_network

    if file is None:
        return "-"
    return f"{1 / single_forward_s(load_network(file, runtime, torch.device('cpu')), model):.1f} fr/s"


def _take_turns(
    model: Network, localisers: dict[str, Localiser], footage: Footage, fps: float
) -> tuple[Tensor, dict[str, float]]:
    """Run the plain loop and every runtime in turns; the loop's maps, and the fastest of each one's times."""
    from soundwhere.bench import localising as bench

    seconds: dict[str, float] = {}

    def time_it(name: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        done = work()
        seconds[name] = min(seconds.get(name, math.inf), time.perf_counter() - start)
        return done

    for _ in range(_TURNS):
        maps = time_it("plain loop", lambda: bench.plain_loop(model, footage.path, fps, _HOP_S))
        for runtime, localiser in localisers.items():
            time_it(runtime, partial(localiser.localise_footage, footage))
    return maps, seconds


def _model(name: str) -> Network:
    """A model with its weights, or with random ones."""
    import torch

    from soundwhere.methods.catalogue import NAMES, named_config
    from soundwhere.methods.files import SHIPPED, build, load_model

    if name not in NAMES or name in SHIPPED:
        return load_model(name)
    torch.manual_seed(0)
    return build(named_config(name)).eval()


def _files(model: Network, folder: Path) -> dict[str, Path]:
    """The model as a file for each runtime that is installed."""
    from soundwhere.inference.export import export_onnx
    from soundwhere.methods.files import write_model

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
