from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from soundwhere.data.annotation import pickles
from soundwhere.data.annotation.pickles import read_pickled_array
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path


class Hostile:
    """Runs a command when a careless loader reads it."""

    def __init__(self, function: object, *arguments: object) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self._call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("kind", ["u1", "?", "<i8", ">i4", "<f4", "f8"])
def test_arrays_come_back_in_every_protocol(tmp_path: Path, protocol: int, kind: str) -> None:
    mask = (np.arange(12).reshape(3, 4) % 2).astype(kind)
    for number, array in enumerate((mask, np.asfortranarray(mask), mask[:, ::2])):
        path = tmp_path / f"{number}.pkl"
        path.write_bytes(pickle.dumps(array, protocol))
        found = read_pickled_array(path)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype


def test_arrays_of_older_numpy_and_python_2_are_read(tmp_path: Path) -> None:
    # protocol 2 as Python 2 with numpy 1 wrote it: strings for bytes, numpy.core
    old = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87Rq\x03"
        b"(K\x01K\x02K\x02\x86cnumpy\ndtype\nq\x04U\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U\x04\x00\x01\xff\x00tb."
    )
    path = tmp_path / "old.pkl"
    path.write_bytes(old)
    np.testing.assert_array_equal(read_pickled_array(path), np.array([[0, 1], [255, 0]], np.uint8))


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("function", [os.system, subprocess.check_output, eval, exec])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int, function: object) -> None:
    trace = tmp_path / "trace"
    command = f"open({str(trace)!r}, 'w')" if function in (eval, exec) else f"touch {trace}"
    hostile = Hostile(function, [command] if function is subprocess.check_output else command)
    path = tmp_path / "hostile.pkl"
    path.write_bytes(pickle.dumps(hostile, protocol))
    with pytest.raises(DataError, match="refused"):
        read_pickled_array(path)
    assert not trace.exists()


def test_the_hostile_pickle_would_have_run(tmp_path: Path) -> None:
    """The test above proves something: a careless loader does leave the trace."""
    trace, path = tmp_path / "trace", tmp_path / "hostile.pkl"
    path.write_bytes(pickle.dumps(Hostile(exec, f"open({str(trace)!r}, 'w')")))
    code = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert trace.exists()


def test_code_hidden_in_an_array_is_refused(tmp_path: Path) -> None:
    trace, path = tmp_path / "trace", tmp_path / "mask.pkl"
    array = np.array([Hostile(os.system, f"touch {trace}")], dtype=object)
    path.write_bytes(pickle.dumps(array))
    with pytest.raises(DataError, match="refused"):
        read_pickled_array(path)
    path.write_bytes(pickle.dumps([np.ones((2, 2), np.uint8), Hostile(os.system, f"touch {trace}")]))
    with pytest.raises(DataError, match="refused"):
        read_pickled_array(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "value",
    [
        {"mask": np.ones((2, 2))},
        [[0, 1], [1, 0]],
        "text",
        7,
        None,
        np.dtype("u1"),
        np.uint8(1),
        np.array(["a"]),
        np.array([1j]),
        np.zeros(2, dtype=[("a", "u1")]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.ma.masked_array([1, 2], [True, False]),
        print,
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_but_an_array_of_numbers_is_refused(tmp_path: Path, value: object) -> None:
    path = tmp_path / "value.pkl"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(DataError, match="refused"):
        read_pickled_array(path)


def test_size_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.pkl"
    path.write_bytes(pickle.dumps(np.ones((20, 20), np.uint8)))
    monkeypatch.setattr(pickles, "MOST_PIXELS", 399)
    with pytest.raises(DataError, match="shape"):
        read_pickled_array(path)
    monkeypatch.setattr(pickles, "MOST_BYTES", 100)
    with pytest.raises(DataError, match="larger"):
        read_pickled_array(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_pickled_array(tmp_path / "absent.pkl")


def test_memory_is_not_reserved_on_a_files_word(tmp_path: Path) -> None:
    """An index of the memo of two thousand million would make Python's loader reserve 32 GB."""
    path = tmp_path / "bomb.pkl"
    path.write_bytes(b"\x80\x02K\x01r\xff\xff\xff\x7f.")
    with pytest.raises(DataError, match="more than an array"):
        read_pickled_array(path)


@given(st.binary(max_size=60))
def test_noise_is_refused(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.pkl"
    path.write_bytes(noise)
    with pytest.raises(DataError, match="refused"):
        read_pickled_array(path)


@given(
    arrays.arrays(np.uint8, st.tuples(st.integers(1, 5), st.integers(1, 5))),
    st.integers(0, 400),
    st.integers(0, 255),
    st.integers(0, 5),
)
def test_a_damaged_pickle_is_refused_or_still_an_array(tmp_path_factory, array, at, byte, protocol) -> None:
    data = bytearray(pickle.dumps(array, protocol))
    data[at % len(data)] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.pkl"
    path.write_bytes(bytes(data))
    with suppress(DataError):  # and nothing else
        assert isinstance(read_pickled_array(path), np.ndarray)
