"""`soundwhere train`: both stages, from a TOML configuration with flag overrides."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import tyro

from soundwhere.config import Config, DataConfig, TrainConfig
from soundwhere.errors import ConfigError
from soundwhere.files import parse_json
from soundwhere.methods.catalogue import DEFAULT, config_from, default_config, find_method, named_config, read_config
from soundwhere.terminal.messages import say
from soundwhere.terminal.options import FLAG, named, parse

DESCRIPTION = """\
Train a model: stage 1, stage 2, or one after the other. Labels are read by the methods that say so, and by no other.

Examples:
  soundwhere train --config configs/made-up-world.toml --out runs/first
  soundwhere train --out runs/first --resume
  soundwhere train --config configs/paper.toml --source folder --root videos/ --batch-size 64 --out runs/videos
  soundwhere train --source folder --root videos/ --from scav-mobile --out runs/mine
  soundwhere train --from ezvsl.pth --checkpoint-of ez-vsl --source folder --root videos/ --out runs/mine
  soundwhere train --stage two --from runs/first/stage-one.safetensors --out runs/second
  soundwhere train --source shards --root shards/ --out runs/first --auto-resume
  torchrun --nproc-per-node 4 -m soundwhere train --config configs/paper.toml --out runs/paper
"""

NOTHING_KEPT = "no checkpoint was due yet: the same command begins anew (--checkpoint-every-s says how often one is)"


@dataclass(frozen=True)
class Options:
    """What to train, and where the run lives; every setting of the configuration is a flag too."""

    out: Path
    """Folder of the run: checkpoints, metrics.jsonl, contact sheets."""
    config: Annotated[Path | None, named("FILE")] = None
    """TOML file with [method], [data] and [train]; flags override it."""
    name: Annotated[str, tyro.conf.arg(name="model")] = DEFAULT
    """Named model to train: scav-wide, scav-r18, scav-mobile, scav-tiny, or another method's name."""
    resume: Annotated[bool, *FLAG] = False
    """Go on from the folder's latest checkpoint."""
    auto_resume: Annotated[bool, *FLAG] = False
    """Go on if the folder has a checkpoint, else start: the same command for both, as clusters give it."""
    start: Annotated[Path | None, tyro.conf.arg(name="from", metavar="MODEL", help_behavior_hint="")] = None
    """Begin from the weights of this model: its name, its file or the folder of its run."""
    checkpoint_of: Annotated[str | None, named("METHOD")] = None
    """Read --from as the checkpoint that the authors of this method released, such as ez-vsl."""
    download: Annotated[bool, *FLAG] = False
    """Fetch ImageNet weights of the visual encoder if they are not on this machine."""
    report: Annotated[bool, *FLAG] = False
    """Afterwards score held-out scenes of the made-up world beside the controls and write report.html."""


def run(arguments: list[str]) -> int:
    """Run the command."""
    default = _default(arguments)
    # the flags of a method are those of its configuration's class, which the file, the run or the name decides
    sections = (("method", type(default.method)), ("data", DataConfig), ("train", TrainConfig))
    flags = [(name, Annotated[kind, tyro.conf.arg(name="")], field(default_factory=kind)) for name, kind in sections]
    every = dataclasses.make_dataclass("Options", flags, bases=(Options,), frozen=True)
    every.__doc__ = Options.__doc__
    preset = every(tyro.MISSING, name=default.method.name, **vars(default))
    options: Any = parse(every, arguments, "train", default=preset, description=DESCRIPTION)
    config = Config(options.method, options.data, options.train)

    from soundwhere.training.run import LATEST, train

    resume: bool | Literal["auto"] = "auto" if options.auto_resume else options.resume
    speaks = os.environ.get("RANK", "0") == "0"  # of torchrun's processes, the first one
    try:
        with _start(options, config) as start:
            file = train(config, options.out, resume=resume, start=start, download=options.download)
    except KeyboardInterrupt:
        if speaks:
            kept = (options.out / LATEST).exists()
            say(f"to go on: soundwhere train --out {options.out} --resume" if kept else NOTHING_KEPT)
        raise
    if not speaks:
        return 0
    say(f"wrote {file}; to try it on a clip, give --model {options.out}")
    if options.report:
        from soundwhere.evaluation.training_report import write_training_report
        from soundwhere.terminal.tables import print_tables

        page, tables = write_training_report(options.out)
        print_tables(tables)
        say(f"wrote {page}")
    return 0


@contextmanager
def _start(options: Any, config: Config) -> Iterator[Path | None]:
    """The file of the model that training begins from, if any; a published checkpoint becomes one for a while."""
    if options.checkpoint_of is None or options.resume:
        from soundwhere.methods.files import model_file

        yield None if options.start is None else model_file(options.start)
        return
    if options.start is None:
        raise ConfigError("--checkpoint-of says whose a file is, but no file is given.", "Give it with --from FILE.")
    from soundwhere.methods.files import write_model
    from soundwhere.methods.published import read_published

    method = find_method(config.method.family).check(config).method  # which knows the classes of the clips
    network = read_published(options.checkpoint_of, options.start, method, download=options.download)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "published.safetensors"
        write_model(file, network)
        yield file


def _default(arguments: list[str]) -> Config:
    """What flags override, which therefore is looked for first.

    That is the file; else, for --resume and --auto-resume, the settings of the run; and the named model, else that of
    --from.
    """
    file, name, out, start = (_value(arguments, flag) for flag in ("--config", "--model", "--out", "--from"))
    if not file and "--resume" not in arguments:
        name = name or _value(arguments, "--checkpoint-of")
    config = default_config()
    if file:
        config = read_config(Path(file))
    elif out and ("--resume" in arguments or "--auto-resume" in arguments):
        config = _settings_of(Path(out))
    if name:
        config = dataclasses.replace(config, method=named_config(name).trained_like(config.method))
    elif start and not file:
        from soundwhere.methods.files import model_file, read_facts

        method, _ = read_facts(model_file(start))
        config = dataclasses.replace(config, method=method.trained_like(config.method))
    return config


def _settings_of(run: Path) -> Config:
    """The settings a run was started with; the defaults where there is no run, which is found out later."""
    file = run / "config.json"
    try:
        values = parse_json(file.read_bytes())
    except (OSError, ValueError):
        return default_config()
    return config_from(values, str(file))


def _value(arguments: list[str], flag: str) -> str | None:
    """The value of a flag given as `--flag value` or `--flag=value`."""
    for place, argument in enumerate(arguments):
        if argument == flag and place + 1 < len(arguments):
            return arguments[place + 1]
        if argument.startswith(f"{flag}="):
            return argument.removeprefix(f"{flag}=")
    return None
