"""`soundwhere bench localise`: the table."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from soundwhere.cli.options import say

if TYPE_CHECKING:
    from soundwhere.inference.localiser import Localiser
    from soundwhere.models.scav import SCAV

_HOP_S = 0.5
_PAPER_FPS = 43.2  # of one forward pass on an A100


def bench_localise(clip: Path | None, name: str, seconds: float, fps: float) -> None:
    """Measure and print."""
    import torch

    from soundwhere.inference import bench
    from soundwhere.inference.footage import Footage
    from soundwhere.inference.writers import write_overlay

    model = _model(name)
    with TemporaryDirectory() as folder:
        if clip is None:
            clip = Path(folder) / "clip.mp4"
            say("writing a clip ...")
            bench.write_clip(clip, seconds)
        footage = Footage.open(clip)
        localisers = _localisers(model, fps, Path(folder))
        peak = bench.peak_flop_per_s()
        print(f"{name}: {footage.describe()}, {fps:g} frames a second analysed, {torch.get_num_threads()} threads")
        print(f"\n{'':<12}{'seconds':>9}{'frames/s':>10}{'x plain':>9}{'single forward':>16}{'largest difference':>20}")
        start = time.perf_counter()
        maps = bench.plain_loop(model, clip, fps, _HOP_S)
        plain_s = time.perf_counter() - start
        print(f"{'plain loop':<12}{plain_s:>9.2f}{len(maps) / plain_s:>10.1f}{1:>9.1f}")
        best: tuple[float, Localiser] | None = None
        for runtime, localiser in localisers.items():
            localiser.localise(clip, end_s=min(1.0, footage.end_s))  # whatever is done only once
            start = time.perf_counter()
            result = localiser.localise(clip)
            passed_s = time.perf_counter() - start
            single = 1 / bench.single_forward_s(localiser.model, model)
            print(
                f"{runtime:<12}{passed_s:>9.2f}{len(maps) / passed_s:>10.1f}{plain_s / passed_s:>9.1f}"
                f"{single:>10.1f} fr/s{bench.difference(localiser, footage, maps):>20.1e}"
            )
            if best is None or passed_s < best[0]:
                best = passed_s, localiser
        print(f"the paper's single forward pass on an A100: {_PAPER_FPS} frames/s")
        assert best is not None
        runtime = next(runtime for runtime, localiser in localisers.items() if localiser is best[1])
        print(f"\nby part, each alone ({runtime}; a matrix product reaches {peak / 1e9:.0f} Gflop/s):")
        for part in bench.time_parts(best[1], model, result, Path(folder) / "parts.mp4"):
            speed = f"{part.flop / part.seconds / 1e9:>8.1f} Gflop/s{part.flop / part.seconds / peak:>7.0%}"
            print(f"  {part.name:<32}{part.seconds:>8.2f} s{speed if part.flop else ''}")
        start = time.perf_counter()
        result = best[1].localise(clip)
        write_overlay(result, Path(folder) / "overlay.mp4")
        passed_s, length_s = time.perf_counter() - start, footage.end_s - footage.start_s
        print(f"\nlocalised and overlay written in {passed_s:.1f} s: {length_s / passed_s:.2f} times real time")


def _model(name: str) -> SCAV:
    """A model with its weights, or with random ones."""
    import torch

    from soundwhere.config import CONFIGS
    from soundwhere.models.registry import SHIPPED, load_model
    from soundwhere.models.scav import SCAV

    if name not in CONFIGS or name in SHIPPED:
        return load_model(name)
    torch.manual_seed(0)
    return SCAV(CONFIGS[name]).eval()


def _localisers(model: SCAV, fps: float, folder: Path) -> dict[str, Localiser]:
    """One for each runtime that is installed."""
    from soundwhere.inference.export import export_onnx
    from soundwhere.inference.localiser import Localiser
    from soundwhere.models.storage import write_model

    write_model(folder / "model.safetensors", model)
    found = {"torch": Localiser(folder / "model.safetensors", "cpu", fps, _HOP_S, smooth=False)}
    if not all(map(importlib.util.find_spec, ("onnx", "onnxscript", "onnxruntime"))):
        say("onnx and openvino are left out: pip install 'soundwhere[export,openvino]'")
        return found
    say("exporting the model ...")
    path = folder / "model.onnx"
    export_onnx(model, path)
    found["onnx"] = Localiser(path, "cpu", fps, _HOP_S, smooth=False, runtime="onnx")
    if importlib.util.find_spec("openvino"):
        found["openvino"] = Localiser(path, "cpu", fps, _HOP_S, smooth=False, runtime="openvino")
    return found
