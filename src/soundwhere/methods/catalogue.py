"""Every method by its name, and configurations that name one.

A method's own module is imported when it is asked for: `--help` needs no torch, and a method that nobody uses costs
nothing.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any, Final

from soundwhere.config import Config, from_dict, read_toml
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.config import MethodConfig
    from soundwhere.methods.method import Method

METHODS: dict[str, str | Method] = {
    "scav": "soundwhere.methods.scav.method",
    "scav-wide": "soundwhere.methods.wide.method",
    "lvs": "soundwhere.methods.lvs",
    "ez-vsl": "soundwhere.methods.ez_vsl",
    "slavc": "soundwhere.methods.slavc",
    "fnac": "soundwhere.methods.fnac",
    "ssl-tie": "soundwhere.methods.ssl_tie",
    "attention10k": "soundwhere.methods.attention10k",
    "ots": "soundwhere.methods.ots",
    "dmc": "soundwhere.methods.dmc",
    "mix-and-localize": "soundwhere.methods.mix_and_localize",
    "noprior": "soundwhere.methods.noprior.model",
    "jsa": "soundwhere.methods.jsa.model",
    "dsol": "soundwhere.methods.dsol.stages",
    "avgn": "soundwhere.methods.avgn.model",
    "coarse-to-fine": "soundwhere.methods.coarse_to_fine.stages",
    "oa-ssl": "soundwhere.methods.oa_ssl",
}
"""Methods by family: a module that has a `METHOD`, or the method itself. To add one: docs/extending.md."""

NAMES: dict[str, str] = {
    "scav-r18": "scav",
    "scav-mobile": "scav",
    "scav-tiny": "scav",
    "noprior-dual": "noprior",
    "attention10k-original": "attention10k",
    "ots-ave": "ots",
    "dmc-duet": "dmc",
}
"""The family of every named configuration that is not called as its family."""

DEFAULT: Final = "scav-r18"

# Settings of SCAV that were in other sections of format 1
_SCHEDULE: Final = (
    *("stage", "steps_one", "steps_two", "batch_size", "batch_size_two", "accumulate", "learning_rate"),
    *("learning_rate_two", "schedule", "warmup_steps", "clip_norm", "trainable"),
)


def find_method(family: str, where: str = "") -> Method:
    """A method by the name of its family; `where` says in errors which file asked for it."""
    if family not in METHODS:
        place = f"{where}: there" if where else "There"
        raise ConfigError(
            f"{place} is no method {family!r}.",
            f"Choose one of: {', '.join(METHODS)}. One of your own is known to the program that adds it.",
        )
    found = METHODS[family]
    return importlib.import_module(found).METHOD if isinstance(found, str) else found


def named_config(name: str, where: str = "") -> MethodConfig:
    """The configuration of a named model; `where` says in errors which file asked for it."""
    if not is_named(name):
        place = f"{where}: there" if where else "There"
        raise ConfigError(
            f"{place} is no model named {name!r}.",
            f"Choose one of: {', '.join(filter(is_named, (*NAMES, *METHODS)))}.",
        )
    config: MethodConfig = find_method(NAMES.get(name, name)).named[name]
    return config


def is_named(name: str) -> bool:
    """Whether a configuration has this name; a family may have one of its own name."""
    return name in NAMES or (name in METHODS and name in find_method(name).named)


def default_config() -> Config:
    """The paper's model on the made-up world."""
    return Config(method=named_config(DEFAULT))


def read_config(path: Path) -> Config:
    """Read a TOML file with sections [method], [data] and [train]; `method.name` picks what the rest changes."""
    values = read_toml(path)
    if former := [f"[{name}]" for name in ("model", "loss") if name in values]:
        warnings.warn(
            f"{path} has {' and '.join(former)}, as files before 0.2 had; read until 0.4. Write their settings into "
            "[method] (docs/training.md).",
            FutureWarning,
            stacklevel=2,
        )
    return config_from(values, str(path))


def config_from(values: dict[str, Any], where: str) -> Config:
    """A configuration from plain values, as TOML and JSON give them, also in the sections of format 1."""
    values = upgraded(values)
    section = values.get("method", {})
    if not isinstance(section, dict):
        raise ConfigError(f"{where}: method is {section!r}.", "Write it as a section: [method], with a name.")
    return from_dict(Config, values, where, Config(method=base_config(section, where)))


def base_config(section: dict[str, Any], where: str) -> MethodConfig:
    """What the other settings of a [method] section change: the named configuration, or its family's defaults."""
    family, name = section.get("family"), section.get("name")
    if isinstance(family, str):
        method = find_method(family, where)
        named: MethodConfig | None = method.named.get(name) if isinstance(name, str) else None
        return named if named is not None else method.config()
    return named_config(name if isinstance(name, str) else DEFAULT, where)


def upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """Settings in the sections of format 1 ([model], [loss], [data], [train]: SCAV alone), in those of today."""
    sections = {name: dict(section) if isinstance(section, dict) else section for name, section in values.items()}
    old = [sections.pop(name) for name in ("model", "loss") if isinstance(sections.get(name), dict)]
    moved = {name: value for section in old for name, value in section.items()}
    for section, names in (("train", _SCHEDULE), ("data", ("single_fraction",))):
        present = sections.get(section)
        if isinstance(present, dict):
            moved |= {name: present.pop(name) for name in names if name in present}
    if moved:
        own = sections.get("method", {})
        sections["method"] = {**moved, **own} if isinstance(own, dict) else own
    return sections
