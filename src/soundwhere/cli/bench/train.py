"""`soundwhere bench train`: a model or a method, beside a loop that keeps nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from soundwhere.errors import ConfigError
from soundwhere.terminal.measurements import FiguresFile, keep_figures
from soundwhere.terminal.options import named


@dataclass(frozen=True)
class Options:
    """How fast a model or a method trains, against a loop that decodes and encodes everything at every step."""

    root: Annotated[Path | None, named("DIR")] = None
    """Folder of the real-duet set; without it, clips of the made-up world are written to a temporary folder."""
    model: str = "scav-mobile"
    """Named model, of which stage 1 is timed, also by part."""
    method: Annotated[tuple[str, ...], named("NAME ...")] = ()
    """Instead of a model, methods' controlled configurations, such as ez-vsl, of which every stage is timed; or all."""
    configs: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("configs/rivals")
    """Folder of controlled configurations, NAME-controlled.toml."""
    clips: int = 96
    """How many clips duets are drawn from."""
    batch_size: int = 32
    """Scenes per step."""
    steps: int = 5
    """Steps of each loop."""
    json: FiguresFile = None


def run(options: Options) -> None:
    """Run the measurement."""
    if min(options.clips, options.batch_size, options.steps) < 2:
        raise ConfigError("At least 2 clips, scenes per step and steps are needed.", "Give larger numbers.")
    if options.method:
        _train_methods(options)
    else:
        _train_model(options)


def _train_model(options: Options) -> None:
    from tempfile import TemporaryDirectory

    from soundwhere.bench.training import bench_training, write_clips
    from soundwhere.data.folder import FolderClips
    from soundwhere.data.real_duet import RealDuet
    from soundwhere.methods.catalogue import named_config

    with TemporaryDirectory() as made:
        folder = Path(made)
        source = "made-up clips" if options.root is None else "real-duet clips"
        found = (
            FolderClips(write_clips(folder / "clips", options.clips))
            if options.root is None
            else RealDuet(options.root).clips("train")
        )
        clips = [found[index] for index in range(min(options.clips, len(found)))]
        result = bench_training(
            clips, named_config(options.model), folder / "features", batch_size=options.batch_size, steps=options.steps
        )
    print(f"{options.model}, stage 1, duets of {len(clips)} {source}, {options.batch_size} scenes a step; scenes/s:")
    speeds = {**result.parts, "plain loop": result.plain, "this package": result.ours}
    for name, speed in speeds.items():
        print(f"  {name:<44}{speed:8.1f}")
    print(f"{result.ratio:.1f} times faster than decoding and encoding everything at every step")
    keep_figures(options.json, f"train --model {options.model}", {"scenes_per_s": speeds})


def _train_methods(options: Options) -> None:
    from soundwhere.analysis.contenders import SUFFIX

    known = sorted(each.name.removesuffix(SUFFIX) for each in options.configs.glob(f"*{SUFFIX}"))
    names = known if options.method == ("all",) else options.method
    for name in names:
        if name not in known:
            there = f"Choose among {', '.join(known)}." if known else "Start it where configs/ is, or give --configs."
            raise ConfigError(f"{options.configs} has no configuration of {name!r}.", there)
    rows = [_train_method(options, name, options.configs / f"{name}{SUFFIX}") for name in names]
    keep_figures(options.json, f"train --method {' '.join(options.method)}", {"rows": rows})


def _train_method(options: Options, name: str, path: Path) -> dict[str, Any]:
    """Time one method, say how fast it is, and return that as JSON values."""
    from tempfile import TemporaryDirectory

    from soundwhere.bench.rivals import bench_method, on_clips
    from soundwhere.methods.catalogue import read_config

    with TemporaryDirectory() as made:
        config = on_clips(read_config(path), options.root, Path(made), options.clips, options.batch_size)
        found = bench_method(config, steps=options.steps)
    source = f"{options.clips} made-up clips" if options.root is None else f"the clips of {options.root}"
    print(f"{name}, controlled, {source}, {options.batch_size} scenes a step; steps/s:")
    print(found.describe(), flush=True)
    return {"method": name, "ours": found.ours, "plain": found.plain, "ratio": found.ratio}
