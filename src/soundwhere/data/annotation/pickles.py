"""Masks that their authors published as pickles, read without running anything that is in them.

A pickle is a program. This reader knows the few instructions of which a plain numpy array consists, and puts stand-ins
in place of the functions they call: whatever else a file asks for, it is refused before a single instruction runs.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MOST_BYTES: Final = 256 << 20
MOST_INSTRUCTIONS: Final = 500  # an array takes about 40
MOST_PIXELS: Final = 89_000_000  # as for pictures
_KINDS: Final = "biuf"

# Numbers, strings, tuples, calls and the memo: what an array needs in the protocols 0 to 5, from Python 2 and 3.
# fmt: off
_INSTRUCTIONS: Final = frozenset({
    "PROTO", "FRAME", "STOP", "MARK", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "NONE", "NEWTRUE", "NEWFALSE",
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE",
    "SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8", "TUPLE",
    "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET",
    "LONG_BINGET",
})
# fmt: on
_MEMO: Final = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})


def read_pickled_array(path: Path) -> NDArray[Any]:
    """Read the one array of numbers that a pickle holds.

    Returns:
        A new array, bool, integer or float, of any shape up to 89 megapixels.

    Raises:
        DataError: The file is missing, too large or damaged, or holds anything else. Nothing in it has run.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _refused(path, f"it is larger than {MOST_BYTES >> 20} MB")
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check the folder of masks.") from error
    _check_instructions(path, data)
    try:
        found = _ArrayUnpickler(data).load()
    except _RefusedError as error:
        raise _refused(path, str(error)) from error
    except Exception as error:  # a damaged pickle raises nearly anything
        raise _refused(path, f"it is damaged ({error})") from error
    if not isinstance(found, _Array) or found.values is None:
        raise _refused(path, "it holds no array")
    return found.values


def _check_instructions(path: Path, data: bytes) -> None:
    """Refuse a pickle with an instruction that no array needs, or with too many of them, before it is loaded."""
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if opcode.name not in _INSTRUCTIONS:
                raise _refused(path, f"it contains the instruction {opcode.name}")
            # a huge number here makes the loader reserve memory for as many objects
            if number >= MOST_INSTRUCTIONS or (
                opcode.name in _MEMO and not 0 <= int(str(argument)) <= MOST_INSTRUCTIONS
            ):
                raise _refused(path, "it contains more than an array")
    except (ValueError, OverflowError, IndexError, UnicodeDecodeError) as error:
        raise _refused(path, f"it is damaged ({error})") from error


def _refused(path: Path, reason: str) -> DataError:
    return DataError(
        f"{path} was refused: {reason}. Nothing in it was run.",
        "A mask is a pickled numpy array of 0 and 1. Get it from its authors again, or give PNG masks.",
    )


class _RefusedError(Exception):
    """The pickle asks for something that is not an array."""


class _ArrayUnpickler(pickle.Unpickler):
    """Gives stand-ins, made anew for each file, for the five names that a pickled array calls."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Any] = {
            ("multiarray", "_reconstruct"): lambda *_: _Array(),
            ("numeric", "_frombuffer"): lambda data, kind, shape, order: _Array(data, kind, shape, order == "F"),
            ("numpy", "ndarray"): None,
            ("numpy", "dtype"): lambda code, *_: _Kind(code),
            ("_codecs", "encode"): lambda text, encoding: _latin1(text, encoding),
        }
        home = module.removeprefix("numpy.core.").removeprefix("numpy._core.")
        if (home, name) not in known:
            raise _RefusedError(f"it asks for {module}.{name}")
        return known[home, name]


def _latin1(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise _RefusedError("it encodes something that is not text")
    return text.encode("latin1")


class _Kind:
    """Stands in for `numpy.dtype`: numbers only."""

    __slots__ = ("value",)

    def __init__(self, code: object) -> None:
        code = code.decode("latin1") if isinstance(code, bytes) else code
        if not isinstance(code, str) or code[:1] not in _KINDS or not code[1:].isdigit():
            raise _RefusedError(f"its values are of the kind {code!r}")
        self.value = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        self.value = self.value.newbyteorder(order if order in ("<", ">") else "|")


class _Array:
    """Stands in for `numpy.ndarray`."""

    __slots__ = ("values",)

    def __init__(self, data: object = None, kind: object = None, shape: object = None, fortran: bool = False) -> None:
        self.values: NDArray[Any] | None = None
        if data is not None:
            self.__setstate__((1, shape, kind, fortran, data))

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, data = state
        if not isinstance(kind, _Kind) or not isinstance(shape, tuple):
            raise _RefusedError("it holds an array of something other than numbers")
        if isinstance(data, str):  # from Python 2
            data = data.encode("latin1")
        if not all(isinstance(side, int) and side >= 0 for side in shape) or math.prod(shape) > MOST_PIXELS:
            raise _RefusedError(f"its shape is {shape}")
        if not isinstance(data, bytes | bytearray) or len(data) != math.prod(shape) * kind.value.itemsize:
            raise _RefusedError(f"its data does not fill the shape {shape}")
        self.values = np.frombuffer(data, kind.value).reshape(shape, order="F" if fortran else "C").copy()
