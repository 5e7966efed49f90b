"""`soundwhere bench`: measurements, each as a ratio or a difference within one run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from soundwhere.errors import ConfigError
from soundwhere.methods.files import DEFAULT
from soundwhere.terminal.options import Nested, named, parse_nested

DESCRIPTION = """\
Measure something on this machine.

Examples:
  soundwhere bench metrics
  soundwhere bench command
  soundwhere bench evaluate --model scav-tiny
  soundwhere bench evaluate --against ../before/src
  soundwhere bench localise --model scav-r18
  soundwhere bench train --root real-duet/
  soundwhere bench train --method ez-vsl lvs
  soundwhere bench sources --model scav-tiny
  soundwhere bench prepare --json docs/figures/prepare.json
  soundwhere bench feed --json docs/figures/feed.json
  soundwhere bench scale
  soundwhere bench seam --root real-duet/ --visual-weights mobilenet_v2-b0353104.pth
"""

_LONGEST_S = 3600  # of a clip that is made to measure with


@dataclass(frozen=True)
class Metrics:
    """How much faster scoring is than a per-sample numpy and scikit-learn loop (needs scikit-learn)."""

    pairs: int = 4000
    """Maps to score, each of 224 x 448 pixels."""


@dataclass(frozen=True)
class Seam:
    """How much joined features of single frames differ from features of the joined picture."""

    root: Path
    """Folder of the real-duet set; its val duets are encoded."""
    visual_weights: str = "imagenet"
    """Weights of the visual encoder: `imagenet` or a file."""
    model: str = "scav-mobile"
    """Model whose visual encoder is used."""
    scenes: int = 64
    """How many duets."""
    json: Annotated[Path | None, named("FILE")] = None
    """Write the figures there too, such as docs/figures/seam.json."""


@dataclass(frozen=True)
class Train:
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
    json: Annotated[Path | None, named("FILE")] = None
    """Write the figures there too, such as docs/figures/train-methods.json."""


@dataclass(frozen=True)
class Localise:
    """How fast a clip is localised: against a plain loop, by part, and with the overlay beside the clip's length."""

    clip: Annotated[Path | None, named("CLIP")] = None
    """A video; without it, one of 1280 x 720 pixels is written to a temporary folder."""
    model: str = DEFAULT
    """A model file, or a named model, with random weights if none ship."""
    seconds: float = 30.0
    """Length of the clip that is written."""
    fps: float = 5.0
    """Frames analysed per second."""
    json: Annotated[Path | None, named("FILE")] = None
    """Write the figures there too, such as docs/figures/localise.json."""


@dataclass(frozen=True)
class Command:
    """What people wait for: `soundwhere clip.mp4` from a cold start to its last file, by runtime and part."""

    clip: Annotated[Path | None, named("CLIP")] = None
    """A video; without it, one of 1280 x 720 pixels is written to a temporary folder."""
    model: str = DEFAULT
    """A built-in model."""
    seconds: float = 10.0
    """Length of the clip that is written."""
    turns: int = 2
    """Runs of each; the one with the least CPU seconds counts."""
    json: Annotated[Path | None, named("FILE")] = None
    """Write the figures there too, such as docs/figures/command.json."""
    against: Annotated[Path | None, named("SRC")] = None
    """The src folder of another version of the package, which is measured as well."""


@dataclass(frozen=True)
class Evaluate:
    """How many scenes a second `soundwhere evaluate` scores, with all of its rows."""

    model: str = "scav-tiny"
    """The model that is scored."""
    benchmark: str = "synthetic"
    """What it is scored on."""
    data: Annotated[Path | None, named("DIR")] = None
    """Folder of the data set, where there is one."""
    scenes: int = 128
    """How many scenes are timed."""
    against: Annotated[Path | None, named("SRC")] = None
    """The src folder of another version of the package, which is measured as well."""


@dataclass(frozen=True)
class Sources:
    """How many simultaneous sounds are told apart: made-up scenes in which one to four things sound."""

    model: str = "scav-tiny"
    """A model that was trained on the made-up world: its name or its file."""
    scenes: int = 200
    """Scenes of each number."""
    json: Annotated[Path | None, named("FILE")] = None
    """Write the figures there too, such as docs/figures/sources.json."""


@dataclass(frozen=True)
class Prepare:
    """How fast two workers prepare videos, against two plain loops that decode them, and what memory they take."""

    clips: int = 24
    """Videos to write and prepare: 640 x 360, 25 frames a second, H.264."""
    rounds: int = 3
    """How often the two ways take turns."""
    seconds: float = 10.0
    """Length of each video."""
    json: Annotated[Path | None, named("FILE")] = None
    """Write the figures there too, for `soundwhere bench scale`."""


@dataclass(frozen=True)
class Feed(Prepare):
    """How fast clips come out of shards: against the same clips as videos, and against reading the bytes alone."""


@dataclass(frozen=True)
class Scale:
    """Put what `bench prepare` and `bench feed` measured into the tables of docs/scale.md."""

    figures: Path = Path("docs/figures")
    """Folder with prepare.json and feed.json."""
    page: Path = Path("docs/scale.md")
    """The page whose marked blocks are filled."""


def _metrics(options: Metrics) -> None:
    from soundwhere.bench.scoring import bench_metrics

    result = bench_metrics(options.pairs)
    print(f"{result.pairs} pairs: ours {result.ours_s:.1f} s, per-sample loop {result.loop_s:.1f} s")
    print(f"{result.ratio:.1f} times faster; largest difference of a figure {result.largest_difference:.1e}")


def _localise(options: Localise) -> None:
    from soundwhere.bench.localising import bench_localise

    if not 1 <= options.seconds <= _LONGEST_S:
        raise ConfigError(f"--seconds is {options.seconds:g}.", f"Give between 1 and {_LONGEST_S}.")
    figures = bench_localise(options.clip, options.model, options.seconds, options.fps)
    _keep(options.json, f"localise --model {options.model}", figures)


def _command(options: Command) -> None:
    from soundwhere.bench.command import bench_command, versions

    if not 1 <= options.seconds <= _LONGEST_S or options.turns < 1:
        raise ConfigError(f"--seconds is {options.seconds:g} and --turns {options.turns}.", "Give 1 or more.")
    runtimes = {each: ["--model", options.model, "--runtime", each] for each in ("onnx", "torch")}
    for version, environment in versions(options.against).items():
        print(version)
        rows = bench_command(options.clip, runtimes, options.seconds, options.turns, environment)
    clip = "" if options.clip is None else f" --clip {options.clip.name}"
    _keep(options.json, f"command --model {options.model}{clip}", {"rows": rows})  # this version's, the last one's


def _evaluate(options: Evaluate) -> None:
    from soundwhere.bench.command import bench_evaluate, versions

    _require_scenes(options.scenes)
    where = [] if options.data is None else ["--data", str(options.data)]
    arguments = ["--benchmark", options.benchmark, "--model", options.model, *where]
    print(f"{options.model} on {options.benchmark}, {options.scenes} scenes:")
    for version, environment in versions(options.against).items():
        took = bench_evaluate(arguments, options.scenes, environment)
        per_wall_s, per_cpu_s = took.scenes / took.wall_s, took.scenes / took.cpu_s
        print(f"{version}: {per_wall_s:.2f} scenes a second, {per_cpu_s:.2f} for each second of processor,", end=" ")
        print(f"and {took.start_s:.1f} seconds of processor to start", flush=True)


def _shards(options: Prepare) -> None:
    from tempfile import TemporaryDirectory

    from soundwhere.bench.feeding import bench_feed
    from soundwhere.bench.preparing import WORKERS, bench_prepare
    from soundwhere.files import write_json

    if options.clips < 2 or options.rounds < 1 or not 1 <= options.seconds <= _LONGEST_S:
        raise ConfigError("At least 2 clips of 1 s and one round are needed.", "Give larger numbers.")
    with TemporaryDirectory() as made:
        if isinstance(options, Feed):
            fed = bench_feed(Path(made), options.clips, options.rounds, options.seconds)
            figures = fed.to_dict()
            print(f"one process, {fed.clips} clips of {options.seconds:g} s; clips/s:")
            print(f"  out of shards{fed.shards:14.1f}\n  as videos{fed.videos:18.1f}")
            print(f"{fed.ratio:.1f} times faster; {fed.share_of_read:.2%} of a plain read ({fed.read_mb:.0f} MB/s)")
        else:
            found = bench_prepare(Path(made), options.clips, options.rounds, options.seconds)
            figures = found.to_dict()
            print(f"{WORKERS} processes, videos of {options.seconds:g} s, 640 x 360; clips/s:")
            print(f"  prepared{found.prepared:16.2f}\n  decoded, plainly{found.decoded:8.2f}")
            print(f"{found.ratio:.2f} of the plain loops; {found.clip_bytes / 1e3:.0f} kB a clip")
            for clips, megabytes in found.memory_mb.items():
                print(f"  after {clips} clips a worker has had at most {megabytes:.0f} MB")
    if options.json is not None:
        write_json(options.json, figures)


def _scale(options: Scale) -> None:
    from soundwhere.bench.scale import Rates, fill_page
    from soundwhere.errors import DataError
    from soundwhere.files import write_text

    rates = Rates.read(options.figures)
    try:
        text = options.page.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{options.page} cannot be read: {error.strerror}.", "Give it with --page.") from error
    write_text(options.page, fill_page(text, rates))
    print(f"wrote {options.page}")


def _train(options: Train) -> None:
    if min(options.clips, options.batch_size, options.steps) < 2:
        raise ConfigError("At least 2 clips, scenes per step and steps are needed.", "Give larger numbers.")
    if options.method:
        _train_methods(options)
    else:
        _train_model(options)


def _train_model(options: Train) -> None:
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
    _keep(options.json, f"train --model {options.model}", {"scenes_per_s": speeds})


def _train_methods(options: Train) -> None:
    from soundwhere.analysis.contenders import SUFFIX

    known = sorted(each.name.removesuffix(SUFFIX) for each in options.configs.glob(f"*{SUFFIX}"))
    names = known if options.method == ("all",) else options.method
    for name in names:
        if name not in known:
            there = f"Choose among {', '.join(known)}." if known else "Start it where configs/ is, or give --configs."
            raise ConfigError(f"{options.configs} has no configuration of {name!r}.", there)
    rows = [_train_method(options, name, options.configs / f"{name}{SUFFIX}") for name in names]
    _keep(options.json, f"train --method {' '.join(options.method)}", {"rows": rows})


def _train_method(options: Train, name: str, path: Path) -> dict[str, Any]:
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


def _sources(options: Sources) -> None:
    from soundwhere.bench.source_counts import count_sources
    from soundwhere.methods.files import load_model
    from soundwhere.methods.scav.model import SCAV

    _require_scenes(options.scenes)
    model = load_model(options.model)
    if not isinstance(model, SCAV):
        raise ConfigError(
            f"{options.model} is not a SCAV model.", "Its stages are compared: give one, such as scav-tiny."
        )
    print(f"{options.scenes} made-up scenes of each kind; share of the sounding things that a peak points at:")
    print("  sounding  --sources N  stage 1 alone  the model's 2 maps  another sound  called sounding, of 4")
    rows = count_sources(model, options.scenes)
    for row in rows:
        print(
            f"{row.sounding:>10}{row.both_stages:>13.1%}{row.stage_one:>15.1%}{row.two_maps:>20.1%}"
            f"{row.wrong_sound:>15.1%}{row.called:>23.1f}"
        )
    command = f"sources --model {options.model} --scenes {options.scenes}"
    _keep(options.json, command, {"rows": [dataclasses.asdict(row) for row in rows]})


def _seam(options: Seam) -> None:
    from soundwhere.bench.seam import seam_difference
    from soundwhere.data.real_duet import RealDuet
    from soundwhere.methods.catalogue import named_config
    from soundwhere.methods.files import build
    from soundwhere.methods.scav.config import SCAVConfig

    _require_scenes(options.scenes)
    config = named_config(options.model)
    if isinstance(config, SCAVConfig):
        config = dataclasses.replace(config, visual_weights=options.visual_weights, audio_weights="none")
    model = build(config).eval()
    model.load_pretrained(download=False)
    duets = RealDuet(options.root).scenes("duets_val", config.frame_px)[: options.scenes]
    shares = seam_difference(model, duets)
    print(f"{options.model}, {len(duets)} duets of real-duet val: ||whole - joined|| / ||whole||")
    for column, share in enumerate(shares, 1):
        print(f"  {column} cells from the seam  {100 * share:5.1f} %")
    rows = [{"cells": column, "difference": share} for column, share in enumerate(shares, 1)]
    _keep(options.json, f"seam --model {options.model} --scenes {options.scenes}", {"rows": rows})


def _keep(path: Path | None, command: str, figures: dict[str, Any]) -> None:
    """Write figures down with the command that measured them, if that is wanted."""
    if path is not None:
        from soundwhere.files import write_json

        write_json(path, {"command": f"soundwhere bench {command}", **figures})


def _require_scenes(count: int) -> None:
    if count < 1:
        raise ConfigError(f"--scenes is {count}.", "Give 1 or more.")


MEASUREMENTS: Nested = {
    "metrics": (Metrics, _metrics),
    "localise": (Localise, _localise),
    "command": (Command, _command),
    "evaluate": (Evaluate, _evaluate),
    "seam": (Seam, _seam),
    "sources": (Sources, _sources),
    "train": (Train, _train),
    "prepare": (Prepare, _shards),
    "feed": (Feed, _shards),
    "scale": (Scale, _scale),
}


def run(arguments: list[str]) -> int:
    """Run the command."""
    name, options = parse_nested(MEASUREMENTS, arguments, "bench", DESCRIPTION)
    MEASUREMENTS[name][1](options)
    return 0
