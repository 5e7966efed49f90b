from __future__ import annotations

import io
import struct
import tracemalloc
import warnings
import zipfile
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.errors import DataError
from soundwhere.evaluation.predictions import Predictions

if TYPE_CHECKING:
    from pathlib import Path

MAPS = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_npz_and_png_are_read_alike(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", maps=MAPS)
    for k in range(2):
        Image.fromarray(MAPS[k].astype(np.uint8)).save(tmp_path / f"b_c_{10 * k}.png")
    found = Predictions(tmp_path)
    assert found.has("a")
    assert found.has("b/c")
    assert not found.has("b")
    np.testing.assert_array_equal(found.read("a").numpy(), MAPS)
    np.testing.assert_array_equal(found.read("b/c").numpy(), MAPS)


def test_16_bit_pictures_keep_their_levels(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 256], [513, 65535]], np.uint16)).save(tmp_path / "s_0.png")
    assert Predictions(tmp_path).read("s").flatten().tolist() == [0, 256, 513, 65535]


def test_maps_written_anew_have_another_stamp(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", maps=MAPS)
    found = Predictions(tmp_path)
    before = found.stamp("a")
    np.savez_compressed(tmp_path / "a.npz", maps=MAPS)
    assert found.stamp("a") != before


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"heat": MAPS}, "no array `maps`"),
        ({"maps": MAPS[0]}, "shape"),
        ({"maps": MAPS * np.nan}, "NaN"),
        ({"maps": np.array([["a"]])}, "type"),
        ({"maps": np.array([None])}, "type object"),
        ({"maps": MAPS.astype(np.float64) * 1e300}, "infinity"),
    ],
)
def test_bad_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        Predictions(tmp_path).read("a")


def test_the_shape_is_known_from_the_heads_of_files(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", other=np.ones(2), maps=MAPS)
    np.savez(tmp_path / "c.npz", maps=np.asfortranarray(MAPS[:1]))
    for k in range(3):
        Image.new("L", (7, 5)).save(tmp_path / f"b_{k}.png")
    found = Predictions(tmp_path)
    assert [found.shape(scene) for scene in "abc"] == [(2, 3, 4), (3, 5, 7), (1, 3, 4)]
    assert [tuple(found.read(scene).shape) for scene in "abc"] == [(2, 3, 4), (3, 5, 7), (1, 3, 4)]
    assert found.map_count("ac", any_number=True) == found.map_count("a") == 2
    with pytest.raises(DataError, match="1 for c, 3 for b"):
        found.map_count("abc")


def claiming(path: Path, shape: tuple[int, ...], data: bytes, method: int, kind: str = "<f8") -> None:
    """An npz file whose head claims maps of a shape and type, whatever follows."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": kind, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("maps.npy", head.getvalue() + data)


def png(path: Path, size: tuple[int, int], before: bytes = b"", after: bytes = b"") -> None:
    """A grey PNG that claims a size, with chunks before and after its (one black line of) pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    bomb = [chunk(b"zTXt", b"note\0\0" + zlib.compress(data, 9)) if data else b"" for data in (before, after)]
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(size[1] * (size[0] + 1)) if size[0] < 100 else b"\0" * 1000))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + bomb[0] + pixels + bomb[1] + chunk(b"IEND", b""))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize(
    ("shape", "length", "message"),
    [
        ((5000, 1000, 1000), 0, "89 million"),  # 40 GB
        ((1, 2**62, 2**62), 0, "89 million"),
        ((1, 8000, 10000), 64, "not as long"),
        ((1, 2, 2), 31, "not as long"),
        ((-1, -2, 2), 32, "shape"),
    ],
)
def test_arrays_that_claim_too_much(
    tmp_path: Path, shape: tuple[int, ...], length: int, message: str, method: int
) -> None:
    claiming(tmp_path / "a.npz", shape, bytes(length), method)
    refused_cheaply(Predictions(tmp_path), "a", message)


def test_an_array_that_unpacks_to_too_much(tmp_path: Path) -> None:
    claiming(tmp_path / "a.npz", (1, 9000, 10000), bytes(90_000_000), zipfile.ZIP_DEFLATED, "|u1")
    assert (tmp_path / "a.npz").stat().st_size < 1e6
    refused_cheaply(Predictions(tmp_path), "a", "89 million")


def test_pictures_that_claim_or_unpack_to_too_much(tmp_path: Path) -> None:
    png(tmp_path / "huge_0.png", (60000, 60000))
    png(tmp_path / "large_0.png", (10000, 9500))
    png(tmp_path / "before_0.png", (4, 3), before=bytes(20_000_000))
    png(tmp_path / "after_0.png", (4, 3), after=bytes(20_000_000))
    png(tmp_path / "good_0.png", (4, 3), before=b"a note", after=b"another")
    for k in range(1000):
        (tmp_path / f"many_{k}.png").symlink_to(tmp_path / "medium.png")
    png(tmp_path / "medium.png", (300, 300))
    found = Predictions(tmp_path)
    for scene, message in (
        ("huge", "can be read"),
        ("large", "can be read|89 million"),
        ("before", "can be read"),
        ("after", "can be read"),
        ("many", "89 million"),
    ):
        refused_cheaply(found, scene, message)
    assert found.read("good").shape == (1, 3, 4)


def refused_cheaply(found: Predictions, scene: str, message: str) -> None:
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match=message) as caught:
            found.read(scene)
    assert not caught.value.message.endswith("..")  # what a library says may end with a full stop, too
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30e6


def test_every_damaged_picture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a_0.png"
    png(path, (4, 3), before=b"a note", after=b"another")
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = (whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :] for mask in (0xFF, 0x01))
        for damaged in (*changed, whole[:place]):
            path.unlink()  # to write over a file waits for the disk
            path.write_bytes(damaged)
            with suppress(DataError):  # what Pillow does not miss it reads
                assert Predictions(tmp_path).read("a").ndim == 3


def test_every_damage_is_named(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", maps=MAPS)
    whole = (tmp_path / "a.npz").read_bytes()
    for place in range(0, len(whole), 3):
        (tmp_path / "a.npz").unlink()
        (tmp_path / "a.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with suppress(DataError):  # what numpy does not miss it reads
            assert Predictions(tmp_path).read("a").shape == MAPS.shape
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, MAPS)
    with pytest.raises(DataError, match="array without a name"):
        Predictions(tmp_path).read("a")


def test_bad_files(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK no archive")
    (tmp_path / "b_0.png").write_bytes(b"no picture")
    Image.new("L", (4, 3)).save(tmp_path / "c_0.png")
    Image.new("L", (3, 3)).save(tmp_path / "c_1.png")
    found = Predictions(tmp_path)
    for scene, message in (("a", "a.npz"), ("b", "b_0.png"), ("c", "another size"), ("d", "no maps of d")):
        with pytest.raises(DataError, match=message):
            found.read(scene)
    with pytest.raises(DataError, match="not a folder"):
        Predictions(tmp_path / "elsewhere")
