from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.engine.predictions import Predictions
from soundwhere.errors import DataError

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
        ({"maps": np.array([None])}, "cannot be|can be read"),
    ],
)
def test_bad_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        Predictions(tmp_path).read("a")


def test_every_damage_is_named(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", maps=MAPS)
    whole = (tmp_path / "a.npz").read_bytes()
    for place in range(0, len(whole), 3):
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
    for scene, message in (("a", "a.npz"), ("b", "b_0.png"), ("c", "differs in size"), ("d", "no maps of d")):
        with pytest.raises(DataError, match=message):
            found.read(scene)
    with pytest.raises(DataError, match="not a folder"):
        Predictions(tmp_path / "elsewhere")
