"""Options of a sub-command: a dataclass is the options, the docstrings of its fields are the help.

Those of `soundwhere clip.mp4` have types that tyro checks by itself (`Optional`, `Names`): for `X | None` and for
`tuple[str, ...]` it imports a library that brings asyncio with it, for which nobody should wait.
"""
# ruff: noqa: UP045

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypeVar

import tyro

T = TypeVar("T")

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
    parsed: T = tyro.cli(options, args=arguments, prog=f"soundwhere {command}", **keywords)
    return parsed


def named(metavar: str) -> Any:
    """For an option that may be left out: what stands for its value in the help, without a default of `None`."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


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


def say(message: str) -> None:
    """Tell the user something that is not the result."""
    print(message, file=sys.stderr)
