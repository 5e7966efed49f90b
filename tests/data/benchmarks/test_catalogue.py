from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.data.benchmarks.catalogue import BENCHMARKS, Options, open_benchmark
from soundwhere.errors import ConfigError, DataError
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [
    "real-duet",
    "real-trio",
    "synthetic",
    "vgg-ss",
    "vggsound-duet",
    "vggsound-duet-mask",
    "vggsound-instruments",
    "vggsound-instruments-duet",
    "music-duet",
    "music-duet-avgn",
    "music-solo",
    "music-synthetic",
    "silent-negatives",
    "folder",
]


def test_every_benchmark_has_its_name() -> None:
    assert set(NAMES) <= set(BENCHMARKS)
    assert all(entry.what for entry in BENCHMARKS.values())


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no benchmark 'vggsound'") as caught:
        open_benchmark("vggsound")
    assert all(name in caught.value.remedy for name in NAMES)


def test_options_without_meaning_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="synthetic does not take the option 'pairing'") as caught:
        open_benchmark("synthetic", options=Options(pairing="random"))
    assert "layout" in caught.value.remedy


@pytest.mark.parametrize("name", [name for name in NAMES if name != "synthetic"])
def test_a_missing_folder_says_which_flag(name: str) -> None:
    with pytest.raises((ConfigError, DataError)) as caught:
        open_benchmark(name)
    assert "--" in caught.value.remedy


@pytest.mark.parametrize("name", [name for name in NAMES if name != "synthetic"])
def test_a_wrong_folder_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises((ConfigError, DataError)) as caught:
        open_benchmark(name, tmp_path)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("options", "grid", "shape", "masks", "silent"),
    [
        (Options(count=2), (1, 1), (224, 224), 2, 1),
        (Options(count=2, layout="side-by-side", silent=0), (1, 2), (224, 448), 2, 0),
        (Options(count=2, layout="stacked"), (3, 1), (672, 224), 2, 1),
        (Options(count=2, sounding=1, silent=2, split="val"), (1, 1), (224, 224), 1, 2),
    ],
)
def test_the_made_up_world(options: Options, grid, shape, masks, silent) -> None:
    benchmark = open_benchmark("synthetic", options=options)
    benchmark.require()
    scene = benchmark.scenes[1]
    assert (len(benchmark.scenes), benchmark.grid) == (2, grid)
    assert benchmark.order == tuple(scene.name for scene in benchmark.scenes)
    assert scene.image.shape[:2] == shape
    assert scene.masks.shape == (masks, *shape)
    assert scene.silent_masks is not None
    assert len(scene.silent_masks) == silent
    for mask in scene.masks if grid != (1, 1) else ():  # each thing keeps to one frame
        rows, columns = np.flatnonzero(mask.any(1)) // 224, np.flatnonzero(mask.any(0)) // 224
        assert len(set(rows.tolist())) == len(set(columns.tolist())) == 1


def test_made_up_worlds_that_cannot_be(tmp_path: Path) -> None:
    for options in (Options(count=0), Options(sounding=0, silent=0), Options(silent=-1)):
        with pytest.raises(ConfigError):
            open_benchmark("synthetic", options=options)


def test_real_duet_and_trio(tmp_path: Path) -> None:
    for folder in ("images", "audio", "masks"):
        (tmp_path / folder).mkdir()
    rows = []
    for number in range(3):
        Image.new("RGB", (40, 32), (80 * number, 0, 0)).save(tmp_path / f"images/{number}.png")
        Image.fromarray(np.full((32, 40), 255, np.uint8)).save(tmp_path / f"masks/{number}.png")
        write_wav(tmp_path / f"audio/{number}.wav", np.full(66_150, 0.1, np.float32))
        rows.append([f"images/{number}.png", f"masks/{number}.png", "human"])
    tables = {
        "images": [["image", "mask", "mask_kind"], *rows],
        "duets_test": [
            ["id", "images", "classes", "audios"],
            ["d0", "images/0.png|images/1.png", "a|b", "audio/0.wav|audio/1.wav"],
        ],
        "trios_val": [
            ["id", "images", "classes", "audios"],
            ["t0", "images/0.png|images/1.png|images/2.png", "a|b|c", "audio/0.wav||audio/2.wav"],
        ],
    }
    for name, lines in tables.items():
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)
    duet = open_benchmark("real-duet", tmp_path)
    trio = open_benchmark("real-trio", tmp_path, options=Options(split="val"))
    assert (duet.order, duet.grid, duet.scenes[0].image.shape) == (("d0",), (1, 2), (224, 448, 3))
    assert (trio.order, trio.grid, trio.scenes[0].image.shape) == (("t0",), (1, 3), (224, 672, 3))
    assert trio.scenes[0].masks.shape == (2, 224, 672)
    duet.write_list(tmp_path / "used.csv")
    assert (tmp_path / "used.csv").read_text() == "d0\n"


def test_the_published_real_duet(shared: Path) -> None:
    root = shared / "data" / "real-duet"
    if not root.is_dir():
        pytest.skip("needs real-duet beside the repository")
    for name, grid in (("real-duet", (1, 2)), ("real-trio", (1, 3))):
        benchmark = open_benchmark(name, root)
        benchmark.require()
        assert (len(benchmark.scenes), benchmark.grid) == (500, grid)
        assert benchmark.scenes[3].name == benchmark.order[3]
