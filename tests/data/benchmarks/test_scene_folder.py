from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.data.benchmarks.catalogue import open_benchmark
from soundwhere.data.synthetic.files import write_scenes
from soundwhere.data.synthetic.world import World, boxes
from soundwhere.errors import DataError
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("layout", "size", "grid"),
    [("free", (224, 224), (1, 1)), ("side-by-side", (96, 288), (1, 3)), ("stacked", (224, 224), (1, 1))],
)
def test_exported_made_up_scenes_come_back_unchanged(tmp_path: Path, layout, size, grid) -> None:
    world = World(7, size)
    write_scenes(world, tmp_path, 2, layout=layout)
    benchmark = open_benchmark("folder", tmp_path)
    benchmark.require()
    assert (benchmark.grid, benchmark.truth) == (grid, "masks")
    for index, scene in enumerate(benchmark.scenes):
        made = world.scene(index, layout=layout)
        assert scene.name == made.name == benchmark.order[index]
        np.testing.assert_array_equal(scene.image, made.image)
        np.testing.assert_array_equal(scene.masks, made.masks)
        np.testing.assert_array_equal(scene.silent_masks, made.silent_masks)
        np.testing.assert_allclose(scene.sounds, made.sounds, atol=1e-4)
        assert scene.kinds == made.kinds
        blank = benchmark.truths[index]
        np.testing.assert_array_equal(blank.masks, made.masks)
        assert blank.image.shape == made.image.shape
        assert not blank.image.any()


def test_negatives_come_back_as_negatives(tmp_path: Path) -> None:
    write_scenes(World(7, (96, 96)), tmp_path, 1, sounding=0, silent=2)
    benchmark = open_benchmark("folder", tmp_path)
    assert benchmark.scenes[0].masks.shape == (0, 96, 96)
    assert benchmark.scenes[0].silent_masks.shape == (2, 96, 96)
    assert "1 scenes have no source: negatives" in benchmark.describe()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Files of a user: a picture of 60 x 80, two sounds, their mixture, two masks."""
    Image.new("RGB", (80, 60), (200, 100, 50)).save(tmp_path / "p.png")
    for name, level in (("a", 0.1), ("b", 0.2), ("ab", 0.3)):
        write_wav(tmp_path / f"{name}.wav", np.full(30_000, level, np.float32))
    mask = np.zeros((60, 80), np.uint8)
    mask[15:45, 20:60] = 255
    Image.fromarray(mask).save(tmp_path / "m.png")
    np.savez(tmp_path / "n.npz", mask == 0)
    return tmp_path


def write(root: Path, header: str, *lines: str) -> Path:
    (root / "scenes.csv").write_text("\n".join([header, *lines]) + "\n")
    return root


def test_masks_and_separate_sounds(own: Path) -> None:
    root = write(own, "id,image,sounds,masks,kinds", "one,p.png,a.wav|b.wav,m.png|n.npz,dog|cat")
    scene = open_benchmark("folder", root).scenes[0]
    assert scene.image.shape == (224, 288, 3)
    np.testing.assert_allclose(scene.sounds.mean(1), [0.1, 0.2], atol=1e-3)
    assert scene.masks.mean(axis=(1, 2)).tolist() == pytest.approx([0.25, 0.75], abs=0.01)
    assert scene.kinds == ("dog", "cat")


def test_boxes_and_a_mixture(own: Path) -> None:
    pixels = json.dumps([[20, 15, 60, 45], [[0, 0, 8, 6], [40, 30, 80, 600]]]).replace('"', "")
    root = write(own, "id,image,audio,boxes", f'one,p.png,ab.wav,"{pixels}"')
    scene = open_benchmark("folder", root).scenes[0]
    assert scene.sounds.shape[0] == 1
    np.testing.assert_array_equal(boxes(scene.masks[:1]), [[72, 56, 216, 168]])
    assert scene.masks[1].mean() == pytest.approx(0.26, abs=0.005)
    shares = '"[[0.25, 0.25, 0.75, 0.75]]"'
    scene = open_benchmark("folder", write(own, "id,image,audio,boxes_norm", f"one,p.png,ab.wav,{shares}")).scenes[0]
    np.testing.assert_array_equal(boxes(scene.masks), [[72, 56, 216, 168]])


def test_missing_files_are_counted(own: Path) -> None:
    root = write(own, "id,image,sounds,masks", "one,p.png,a.wav,m.png", "two,gone.png,a.wav,m.png")
    benchmark = open_benchmark("folder", root)
    assert (benchmark.order, benchmark.missing[0].reason) == (("one",), "no file gone.png")
    with pytest.raises(DataError, match="1 of 2 scenes usable"):
        benchmark.require()


@pytest.mark.parametrize(
    ("header", "line", "message"),
    [
        ("id,image,masks", "one,p.png,m.png", "neither a column `sounds` nor `audio`"),
        ("id,image,audio", "one,p.png,ab.wav", "no column `masks`, `boxes` or `boxes_norm`"),
        ("id,audio,masks", "one,ab.wav,m.png", "no column 'image'"),
        ("id,image,sounds,masks", "one,p.png,a.wav|b.wav,m.png", "line 2: 2 sounds, but masks or boxes of 1 sources"),
        ("id,image,audio,masks,kinds", "one,p.png,ab.wav,m.png,a|b", "line 2: 2 kinds for 1 sources"),
        ("id,image,audio,masks", "one,p.png,,m.png", "line 2: 1 images, 0 sounds"),
        ("id,image,audio,boxes", 'one,p.png,ab.wav,"[[1, 2, 3]]"', "line 2: .* not a box of four"),
        ("id,image,audio,boxes", "one,p.png,ab.wav,{", "line 2: `boxes` is '{'"),
        ("id,image,audio,masks", "one,p.png", "line 2: not 4 cells"),
        ("id,image,audio,masks", "one,p.png,ab.wav,m.png\none,p.png,ab.wav,m.png", "one appears twice"),
    ],
)
def test_malformed_lists_are_errors_with_their_line(own: Path, header: str, line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_benchmark("folder", write(own, header, line))


def test_files_outside_the_folder_are_refused(own: Path) -> None:
    inner = own / "inner"
    inner.mkdir()
    with pytest.raises(DataError, match="is outside"):
        open_benchmark("folder", write(inner, "id,image,audio,masks", "one,../p.png,../ab.wav,../m.png"))


def test_a_mask_of_the_wrong_size_is_an_error(own: Path) -> None:
    np.savez(own / "small.npz", np.ones((6, 8), bool))
    benchmark = open_benchmark("folder", write(own, "id,image,audio,masks", "one,p.png,ab.wav,small.npz"))
    with pytest.raises(DataError, match=r"line 2: the mask small\.npz is 6 x 8 pixels, its picture 60 x 80"):
        benchmark.scenes[0]


def test_no_list(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"scenes\.csv does not exist"):
        open_benchmark("folder", tmp_path)
