"""Options of a sub-command: a dataclass is the options, the docstrings of its fields are the help.

Those of `soundwhere clip.mp4` have types that tyro checks by itself (`Optional`, `Names`): for `X | None` and for
`tuple[str, ...]` it imports a library that brings asyncio with it, for which nobody should wait.
"""
# ruff: noqa: UP007, UP045

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Optional, TypeVar, Union, get_args

import tyro

from soundwhere.errors import ConfigError
from soundwhere.terminal.messages import nearest_command

T = TypeVar("T")
Nested = Mapping[str, tuple[type[Any], Callable[[Any], Any]]]
"""The commands within a command by name: the options of each, and what runs it with them."""

_METAVARS: dict[Any, str] = {Path: "PATH", str: "STR", int: "INT", float: "FLOAT"}

# Put on a boolean option: one flag that changes it, instead of one for each value
FLAG = (tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint=""))


def parse(options: type[T], arguments: list[str], command: str, default: T | None = None, **keywords: Any) -> T:
    """Build `options` from the command line; usage errors exit with 2, `--help` with 0.

    Args:
        options: A dataclass.
        arguments: What follows the command's name.
        command: The command's name.
        default: Values of the options that are not given, instead of those of the class.
        **keywords: Passed on to `tyro.cli`, such as the `description` that heads the help.
    """
    if default is not None:
        keywords["default"] = default
    parsed: T = tyro.cli(options, args=arguments, prog=f"soundwhere {command}", registry=_OPTIONAL, **keywords)
    return parsed


def parse_nested(commands: Nested, arguments: list[str], command: str, description: str) -> tuple[str, Any]:
    """As `parse`, for a command with others in it: the name of the one that is given, and its options.

    That one is read alone: an option it does not know is not looked for among those of the others.

    Raises:
        ConfigError: There is no command of that name.
    """
    name = arguments[0] if arguments else ""
    if name in commands:
        try:
            return name, parse(commands[name][0], arguments[1:], f"{command} {name}")
        except SystemExit as end:
            if not end.code:  # help was asked for
                print(_examples(description, f"soundwhere {command} {name} "), end="")
            raise
    if name and not name.startswith("-"):
        remedy = nearest_command(name, commands, f"soundwhere {command}")
        raise ConfigError(f"There is no command '{command} {name}'.", remedy)
    kinds = {kind: name for name, (kind, _) in commands.items()}
    options: Any = Union[tuple(Annotated[kind, tyro.conf.subcommand(name)] for kind, name in kinds.items())]
    parsed = parse(options, arguments, command, description=description)
    return kinds[type(parsed)], parsed


def _examples(description: str, start: str) -> str:
    """Those examples of a description that begin so."""
    whole = re.split(r"(?<!\\)\n", description)  # an example may go on in the next line
    lines = [line for line in whole if f"{line.strip()} ".startswith(start)]
    return "\n".join(["", "Examples:", *lines, ""]) if lines else ""


_OPTIONAL = tyro.constructors.ConstructorRegistry()


@_OPTIONAL.primitive_rule
def _optional(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
    """An option that may be left out is shown as its value is: `PATH`, and not `{None}|PATH`."""
    kinds = [kind for kind in get_args(info.type) if kind is not NoneType]
    if info.type_origin not in (Union, UnionType) or len(kinds) != 1 or kinds[0] not in _METAVARS:
        return None
    kind = kinds[0]
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=_METAVARS[kind],
        instance_from_str=lambda words: None if words == ["None"] else kind(words[0]),
        is_instance=lambda value: value is None or isinstance(value, (kind, int) if kind is float else kind),
        str_from_instance=lambda value: [str(value)],
    )


def named(metavar: str) -> Any:
    """For an option that may be left out: what stands for its value in the help, without a default of `None`."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


def check_positive(**given: float | None) -> None:
    """Refuse options, by name, that were given and are not greater than 0."""
    for name, value in given.items():
        if value is not None and not value > 0:
            raise ConfigError(f"--{name.replace('_', '-')} is {value:g}.", "It must be greater than 0.")


def check_limit(limit: int | None, what: str = "scenes") -> None:
    """Refuse a `--limit` of fewer than two: every scene is also shown with another one's sound."""
    if limit is not None and limit < 2:
        raise ConfigError(f"--limit {limit} leaves too few {what}.", "Give at least 2.")


def check_workers(workers: int | None) -> None:
    """Refuse a `--workers` of none."""
    if workers is not None and workers < 1:
        raise ConfigError(f"{workers} is not a valid number of workers.", "Give --workers 1 or more.")


class Names(tuple[str, ...]):
    """Any number of names, as one option."""


MANY = tyro.constructors.PrimitiveConstructorSpec(
    nargs="*",
    metavar="NAME ...",
    instance_from_str=Names,
    is_instance=lambda value: isinstance(value, Names),
    str_from_instance=list,
)
"""How an option of `Names` is read; to be put on it."""
NONE = Names()


@dataclass(frozen=True, kw_only=True)
class LocaliserOptions:
    """What every command that localises clips lets people choose."""

    model: Annotated[Optional[str], named("MODEL")] = None
    """Name of a model, or a file written by `soundwhere train`; by default the built-in model."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    runtime: Annotated[Optional[Literal["torch", "onnx", "openvino"]], named("torch|onnx|openvino")] = None
    """What computes; by default onnx for built-in models on a processor and for files of `soundwhere export --onnx`,
    torch for others; openvino needs such a file."""
    fps: float = 5.0
    """Frames analysed per second."""
    sources: Annotated[int | Literal["auto"], tyro.conf.arg(metavar="auto|K")] = "auto"
    """Sources to look for; auto shows those of the model's two that sound."""

    def localiser(self) -> dict[str, Any]:
        """The same as keywords of `Localiser`, plain enough for JSON; what was left out keeps its default there."""
        sources = None if self.sources == "auto" else self.sources
        chosen = {"model": self.model, "runtime": self.runtime, "sources": sources}
        given = {name: value for name, value in chosen.items() if value is not None}
        return {"device": self.device, "fps": self.fps, **given}
