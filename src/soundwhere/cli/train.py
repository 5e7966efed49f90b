"""`soundwhere train`: both stages, from a TOML configuration with flag overrides."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from soundwhere.cli.options import parse, say
from soundwhere.config import (
    Config,
    DataConfig,
    LossConfig,
    ModelConfig,
    TrainConfig,
    from_dict,
    model_config,
    read_config,
)
from soundwhere.files import parse_json

DESCRIPTION = """\
Train a model: stage 1, stage 2, or one after the other. Labels are never read.

Examples:
  soundwhere train --config configs/made-up-world.toml --out runs/first
  soundwhere train --out runs/first --resume
  soundwhere train --config configs/paper.toml --source folder --root videos/ --batch-size 64 --out runs/videos
  soundwhere train --source folder --root videos/ --from scav-mobile --out runs/mine
  soundwhere train --stage two --from runs/first/stage-one.safetensors --out runs/second
  torchrun --nproc-per-node 4 -m soundwhere train --config configs/paper.toml --out runs/paper
"""


@dataclass(frozen=True)
class Options:
    """What to train, and where the run lives; every setting of the configuration is a flag too."""

    out: Path
    """Folder of the run: checkpoints, metrics.jsonl, contact sheets."""
    config: Path | None = None
    """TOML file with [model], [loss], [data] and [train]; flags override it."""
    name: Annotated[str, tyro.conf.arg(name="model")] = ModelConfig.name
    """Named model to train: scav-r18, scav-mobile or scav-tiny."""
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Go on from the folder's latest checkpoint."""
    start: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Begin from the weights of this model: its name, its file or the folder of its run."""
    download: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Fetch ImageNet weights of the visual encoder if they are not on this machine."""
    report: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Afterwards score held-out scenes of the made-up world beside the controls and write report.html."""
    model: Annotated[ModelConfig, tyro.conf.arg(name="")] = field(default_factory=ModelConfig)
    loss: Annotated[LossConfig, tyro.conf.arg(name="")] = field(default_factory=LossConfig)
    data: Annotated[DataConfig, tyro.conf.arg(name="")] = field(default_factory=DataConfig)
    train: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(default_factory=TrainConfig)


def run(arguments: list[str]) -> int:
    """Run the command."""
    options = parse(Options, arguments, "train", default=_defaults(arguments), description=DESCRIPTION)
    config = Config(options.model, options.loss, options.data, options.train)

    from soundwhere.engine.train import train
    from soundwhere.models.registry import model_file

    start = None if options.start is None else model_file(options.start)
    file = train(config, options.out, resume=options.resume, start=start, download=options.download)
    if os.environ.get("RANK", "0") != "0":
        return 0  # of torchrun's processes, the first one speaks
    say(f"wrote {file}")
    if options.report:
        from soundwhere.analysis.training_report import write_training_report
        from soundwhere.cli.show import print_tables

        page, tables = write_training_report(options.out)
        print_tables(tables)
        say(f"wrote {page}")
    return 0


def _defaults(arguments: list[str]) -> Options:
    """What flags override, which therefore is looked for first.

    That is the file; else, for --resume, the settings of the run; and the named model, else that of --from.
    """
    file, name, out, start = (_value(arguments, flag) for flag in ("--config", "--model", "--out", "--from"))
    config = Config()
    if file:
        config = read_config(Path(file))
    elif out and "--resume" in arguments:
        config = _settings_of(Path(out))
    if name:
        config = dataclasses.replace(config, model=model_config(name))
    elif start and not file:
        from soundwhere.models.registry import model_file
        from soundwhere.models.storage import read_facts

        model, _ = read_facts(model_file(start))
        config = dataclasses.replace(config, model=dataclasses.replace(model, decouple=True))
    return Options(
        tyro.MISSING,
        None,
        config.model.name,
        model=config.model,
        loss=config.loss,
        data=config.data,
        train=config.train,
    )


def _settings_of(run: Path) -> Config:
    """The settings a run was started with; the defaults where there is no run, which is found out later."""
    try:
        values = parse_json((run / "config.json").read_bytes())
    except (OSError, ValueError):
        return Config()
    return from_dict(Config, values, str(run / "config.json"))


def _value(arguments: list[str], flag: str) -> str | None:
    """The value of a flag given as `--flag value` or `--flag=value`."""
    for place, argument in enumerate(arguments):
        if argument == flag and place + 1 < len(arguments):
            return arguments[place + 1]
        if argument.startswith(f"{flag}="):
            return argument.removeprefix(f"{flag}=")
    return None
