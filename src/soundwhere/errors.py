"""Errors a user can act on: what was found, where, and what to do next.

Everything raised on account of the user's input derives from `SoundwhereError`; the command line prints its message
without a traceback and exits with 2. Any other exception is a defect of this package.
"""

from __future__ import annotations

from contextlib import contextmanager
from reprlib import Repr
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BRIEF = Repr()
_BRIEF.maxlevel, _BRIEF.maxdict, _BRIEF.maxlist, _BRIEF.maxstring = 3, 12, 8, 80


def shown(value: object) -> str:
    """A value out of someone's file as an error may show it, however large or deeply nested it is.

    >>> shown([1, [2, [3, [4, [5]]]], "x" * 1000])
    "[1, [2, [3, [...]]], 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx']"
    """
    return _BRIEF.repr(value)


class SoundwhereError(Exception):
    """Bad input. The message says what was found and where; `remedy` says what to do next."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class MediaError(SoundwhereError):
    """A media file that cannot be read, or lacks a stream that is needed."""


class DataError(SoundwhereError):
    """A data set, manifest, annotation or mask that is missing, malformed or inconsistent."""


class ConfigError(SoundwhereError):
    """A configuration file, option or name that is not valid."""


class CheckpointError(SoundwhereError):
    """A weight file or checkpoint that is missing, damaged or belongs to another model."""


class OutputError(SoundwhereError):
    """An output that cannot be written: no permission, no space, a folder where a file should go."""


class MissingExtraError(SoundwhereError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed.", f"Install it with: pip install 'soundwhere[{extra}]'")


@contextmanager
def needing(package: str, extra: str) -> Iterator[None]:
    """Import what an extra brings; where it is not installed, the error says so."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(package, extra) from error


def reason(error: Exception) -> str:
    """Why a file cannot be read, in words, without the numbers and paths of the system's own message."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
