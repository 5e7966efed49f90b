from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from soundwhere.data.annotation.masks import MaskFile, find_mask, read_mask, resize_mask
from soundwhere.data.annotation.rle import decode_rle
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

masks = arrays.arrays(np.bool_, st.tuples(st.integers(1, 40), st.integers(1, 40)))


def counts_of(mask: np.ndarray) -> list[int]:
    """Runs down the columns, beginning with a run of zeros, written as a plain loop."""
    counts, current, run = [], False, 0
    for value in mask.T.reshape(-1):
        if value != current:
            counts.append(run)
            current, run = bool(value), 0
        run += 1
    return [*counts, run]


def pack(counts: list[int]) -> str:
    """COCO's packing into text, written from its definition."""
    text = ""
    for index, count in enumerate(counts):
        value = count - counts[index - 2] if index > 2 else count
        more = True
        while more:
            bits = value & 31
            value >>= 5
            more = value != (-1 if bits & 16 else 0)
            text += chr(48 + (bits | 32 if more else bits))
    return text


@given(masks)
def test_run_lengths_come_back(mask: np.ndarray) -> None:
    size = list(mask.shape)
    counts = counts_of(mask)
    np.testing.assert_array_equal(decode_rle({"size": size, "counts": counts}), mask)
    np.testing.assert_array_equal(decode_rle({"size": size, "counts": pack(counts)}), mask)


@pytest.mark.parametrize(("begin", "packed"), [(0, "05d00000000d?"), (5, "R45d00000000b;")])
def test_run_lengths_that_coco_itself_wrote(begin: int, packed: str) -> None:
    """A square of 5 x 5 in 25 x 25 pixels, as pycocotools encodes it."""
    mask = np.zeros((25, 25), bool)
    mask[begin : begin + 5, begin : begin + 5] = True
    np.testing.assert_array_equal(decode_rle({"size": [25, 25], "counts": packed}), mask)
    np.testing.assert_array_equal(decode_rle({"size": [25, 25], "counts": packed.encode()}), mask)
    assert pack(counts_of(mask)) == packed


@pytest.mark.parametrize(
    "rle",
    [
        {"size": [2, 2], "counts": [5]},
        {"size": [2, 2], "counts": [5, -1]},
        {"size": [2, 2], "counts": "P"},
        {"size": [2, 2], "counts": "\x01"},
        {"size": [10**6, 10**6], "counts": [10**12]},
        {"size": [2], "counts": [4]},
        {"counts": [4]},
        [1, 2],
        None,
    ],
)
def test_malformed_run_lengths_are_errors(rle: object) -> None:
    with pytest.raises(DataError, match=r"mask\.json"):
        decode_rle(rle, "mask.json")


def store(folder: Path, mask: np.ndarray) -> dict[str, Path]:
    """One mask in every format."""
    byte, on = mask.astype(np.uint8), 255 * mask.astype(np.uint8)
    palette = Image.fromarray(byte, "P")
    palette.putpalette([0, 0, 0, 128, 0, 0])  # a colour too dark to count as white
    Image.fromarray(mask).save(folder / "bilevel.png")
    Image.fromarray(on).save(folder / "grey.png")
    Image.fromarray(byte).save(folder / "ones.png")
    Image.fromarray(np.stack([on] * 3, -1)).save(folder / "colour.png")
    palette.save(folder / "palette.png")
    np.savez_compressed(folder / "alone.npz", mask)
    np.savez(folder / "named.npz", mask=on, other=np.zeros(3))
    (folder / "array.pkl").write_bytes(pickle.dumps(byte))
    (folder / "batch.pkl").write_bytes(pickle.dumps(byte[None]))
    rle = {"size": list(mask.shape), "counts": pack(counts_of(mask))}
    (folder / "coco.json").write_text(json.dumps(rle))
    (folder / "annotation.json").write_text(json.dumps({"id": 1, "segmentation": rle}))
    nothing = {"size": list(mask.shape), "counts": [mask.size]}
    (folder / "union.json").write_text(json.dumps([rle, {"segmentation": nothing}]))
    return {path.name: path for path in folder.iterdir()}


def test_every_format_gives_the_same_mask(tmp_path: Path) -> None:
    mask = np.random.default_rng(0).random((30, 40)) < 0.3
    paths = store(tmp_path, mask)
    assert len(paths) == 12
    for path in paths.values():
        np.testing.assert_array_equal(read_mask(path), mask, err_msg=path.name)


def test_masks_are_resized_by_the_nearest_pixel(tmp_path: Path) -> None:
    mask = np.random.default_rng(1).random((30, 40)) < 0.3
    path = tmp_path / "m.pkl"
    path.write_bytes(pickle.dumps(mask.astype(np.uint8)))
    resized = MaskFile(path).mask((224, 224))
    rows = ((np.arange(224) + 0.5) * 30 / 224).astype(int)
    columns = ((np.arange(224) + 0.5) * 40 / 224).astype(int)
    np.testing.assert_array_equal(resized, mask[np.ix_(rows, columns)])
    assert resize_mask(mask, (30, 40)) is mask


def test_the_mask_of_a_clip_is_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(np.ones((2, 2), np.uint8)))
    assert find_mask(tmp_path, "a") == tmp_path / "a.pkl"
    assert find_mask(tmp_path, "b") is None


@pytest.mark.parametrize(
    "values",
    [*(np.full((2, 2), value) for value in (7, 300, -1, np.nan)), np.ones((2, 2, 3)), np.ones(4)],
)
def test_values_that_are_no_mask_are_errors(tmp_path: Path, values: np.ndarray) -> None:
    np.savez(tmp_path / "m.npz", values)
    with pytest.raises(DataError, match=r"m\.npz"):
        read_mask(tmp_path / "m.npz")


@pytest.mark.parametrize("name", ["m.png", "m.npz", "m.json", "m.pkl"])
def test_damaged_and_missing_masks_are_errors(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(DataError, match="does not exist"):
        read_mask(path)
    path.write_bytes(b"no mask")
    with pytest.raises(DataError, match="m"):
        read_mask(path)


def test_flipped_bytes_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    np.savez_compressed(path, np.arange(999) % 7 < 3)
    whole = path.read_bytes()
    for place in range(58, 70):  # in what is compressed
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with pytest.raises(DataError, match=r"m\.npz"):
            read_mask(path)


def test_more_traps(tmp_path: Path) -> None:
    np.savez(tmp_path / "several.npz", a=np.ones((2, 2)), b=np.ones((2, 2)))
    np.savez(tmp_path / "object.npz", np.array([print], dtype=object))
    (tmp_path / "mask.bmp").touch()
    (tmp_path / "sizes.json").write_text(json.dumps([{"size": [1, 2], "counts": [2]}, {"size": [2, 1], "counts": [2]}]))
    for name in ("several.npz", "object.npz", "mask.bmp", "sizes.json"):
        with pytest.raises(DataError, match=name):
            read_mask(tmp_path / name)
