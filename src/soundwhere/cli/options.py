"""Parsing of a sub-command's options with tyro: a dataclass is the options, its docstring the help."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

import tyro

T = TypeVar("T")


def parse(options: type[T], arguments: list[str], command: str, default: T | None = None, **keywords: Any) -> T:
    """Build `options` from the command line; usage errors exit with 2, `--help` with 0."""
    if default is not None:
        keywords["default"] = default
    return tyro.cli(
        options, args=arguments, prog=f"soundwhere {command}", config=(tyro.conf.FlagConversionOff,) * 0, **keywords
    )


def say(message: str) -> None:
    """Tell the user something that is not the result."""
    print(message, file=sys.stderr)
