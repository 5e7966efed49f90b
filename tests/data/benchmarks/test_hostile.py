"""Whatever a number, a box or a name in an annotation file is replaced by, it is read or refused: never a defect."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.annotate.project import Project, initialise, read_manifest
from soundwhere.data.annotation.boxes import repair_boxes
from soundwhere.data.annotation.masks import read_mask
from soundwhere.data.benchmarks.catalogue import Options, open_benchmark
from soundwhere.data.benchmarks.media import MediaFolder
from soundwhere.data.synthetic.files import claim, write_scenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import DataError, SoundwhereError
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Spoilt = Callable[[str], Iterator[str]]

CELLS = ("", "x" * 300, "9" * 400, "a\0b", "../up", "/etc", "nan", "inf", "ü\u2028", "x|y", "x" * 200_000, "-", "~")


def spoilt_table(text: str) -> Iterator[str]:
    """A table with each cell replaced in turn."""
    rows = list(csv.reader(io.StringIO(text)))
    for y, row in enumerate(rows):
        for x in range(len(row)):
            for cell in CELLS:
                table = io.StringIO()
                csv.writer(table).writerows([*rows[:y], [*row[:x], cell, *row[x + 1 :]], *rows[y + 1 :]])
                yield table.getvalue()


def refusals(path: Path, texts: Iterable[str], look: Callable[[], object]) -> int:
    """How many versions of a file are refused, each with a message that can be printed."""
    messages = []
    for text in texts:
        path.unlink(missing_ok=True)  # to write over a file waits for the disk
        path.write_text(text, encoding="utf-8")
        try:
            look()
        except SoundwhereError as error:
            messages.append(str(error))
    assert all(len(message.encode()) < 2000 for message in messages)
    return len(messages)


def look_at(name: str, data: Path | None, annotations: Path | None, options: Options | None = None) -> None:
    """Open a benchmark and ask for everything in it."""
    benchmark = open_benchmark(name, data, annotations, options)
    benchmark.describe().encode()
    benchmark.write_missing((data or annotations or Path()) / "missing.csv")
    rows, columns = benchmark.grid
    for scene in (*benchmark.truths, *benchmark.scenes):
        assert scene.masks.dtype == np.bool_
        assert rows <= scene.image.shape[0]
        assert columns <= scene.image.shape[1]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("vgg-ss", "lvs/vggss.json"),
        ("music-duet", "dsol/duettest.json"),
        ("music-duet-avgn", "avgn/music_duet.json"),
        ("music-solo-avgn", "avgn/music_solo.json"),
        ("vggsound-duet", "avgn/vggsound_duet_test.csv"),
        ("vggsound-instruments", "avgn/vgginstruments_test.csv"),
        ("vggsound-instruments-duet", "avgn/vgginstruments_multi_test.csv"),
        ("silent-negatives", "slavc/vggss_test_plus_silent.csv"),
    ],
)
def test_published_files(name: str, file: str, annotations: Path, masks: Path, spoilt: Spoilt) -> None:
    path = annotations / file
    options = Options(masks=masks if "instruments" in name else None)
    look_at(name, None, annotations, options)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        texts = spoilt_table(text)
    else:  # its first entry has everything that can be spoilt
        found = json.loads(text)
        texts = spoilt(json.dumps(found[:1] if isinstance(found, list) else dict([next(iter(found.items()))])))
    assert refusals(path, texts, lambda: look_at(name, None, annotations, options))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A scene in a plain folder: a picture of 32 x 64, a sound, two boxes."""
    Image.new("RGB", (64, 32)).save(tmp_path / "p.png")
    write_wav(tmp_path / "a.wav", np.full(3000, 0.1, np.float32))
    (tmp_path / "scenes.csv").write_text(
        'id,image,audio,boxes,kinds\none,p.png,a.wav,"[[0, 0, 8, 6], [[8, 8, 16, 16]]]",x|y\n'
    )
    return tmp_path


def test_a_plain_folder(plain: Path, spoilt: Spoilt) -> None:
    path = plain / "scenes.csv"
    look_at("folder", plain, None)
    assert refusals(path, spoilt_table(path.read_text()), lambda: look_at("folder", plain, None))
    boxes = spoilt("[[0, 0, 8, 6], [[8, 8, 16, 16]]]")
    texts = ('id,image,audio,boxes\none,p.png,a.wav,"{}"\n'.format(text.replace('"', '""')) for text in boxes)
    assert refusals(path, texts, lambda: look_at("folder", plain, None))


def test_the_note_of_a_made_up_world(plain: Path, spoilt: Spoilt) -> None:
    note = {"size": [32, 64], "sounding": 2, "silent": 0, "layout": "side-by-side", "seed": 1}
    path = plain / "world.json"
    path.write_text(json.dumps(note))
    assert open_benchmark("folder", plain).grid == (1, 2)
    assert refusals(path, spoilt(json.dumps(note)), lambda: look_at("folder", plain, None))
    path.write_text(json.dumps({**note, "sounding": 2.5}))
    with pytest.raises(DataError, match=r"world\.json does not say how the scenes are laid out: .*2\.5"):
        open_benchmark("folder", plain)
    path.write_text('{"owner": "somebody else"}')
    assert open_benchmark("folder", plain).grid == (1, 1)


def test_a_folder_of_made_up_scenes_with_a_spoilt_note_is_not_added_to(tmp_path: Path, spoilt: Spoilt) -> None:
    world = World(1, (32, 32))
    path = write_scenes(world, tmp_path, 1).with_name("world.json")
    texts = list(spoilt(path.read_text()))
    assert refusals(path, texts, lambda: claim(path, {"seed": 1})) == len(texts)


def test_masks_as_run_lengths(tmp_path: Path, spoilt: Spoilt) -> None:
    path = tmp_path / "mask.json"
    for mask in ({"size": [2, 3], "counts": [1, 3, 2]}, [{"segmentation": {"size": [2, 3], "counts": "132"}}]):
        path.write_text(json.dumps(mask))
        assert read_mask(path).sum() == 3
        assert refusals(path, spoilt(json.dumps(mask)), lambda: read_mask(path))


def test_manifests_and_settings_of_an_annotation_project(tmp_path: Path, spoilt: Spoilt) -> None:
    (tmp_path / "frames").mkdir()
    Image.new("RGB", (64, 32)).save(tmp_path / "frames" / "one.png")
    media, root, path = MediaFolder(tmp_path), tmp_path / "project", tmp_path / "manifest.json"
    clips = [{"file": "one", "class": "dog", "bbox": [[0.1, 0.1, 0.5, 0.5]]}]

    def look() -> None:
        for entry in read_manifest(path):
            repair_boxes(entry.boxes, "xyxy", entry.place)

    assert refusals(path, spoilt(json.dumps(clips)), look)
    path.write_text(json.dumps(clips))
    initialise(root, path, media)
    path = tmp_path / "manifest.csv"
    assert refusals(path, spoilt_table('id,kind,boxes\none,dog,"[[1, 1, 5, 5]]"\n'), look)
    texts = ('id,kind,boxes\none,dog,"{}"\n'.format(text.replace('"', '""')) for text in spoilt("[[1, 1, 5, 5]]"))
    assert refusals(path, texts, look)
    settings = next(root.glob("*.json"))
    assert refusals(settings, spoilt(settings.read_text()), lambda: Project(root))


def test_a_box_file_that_claims_to_be_huge(tmp_path: Path) -> None:
    path = tmp_path / "box" / "scene.npy"
    path.parent.mkdir()
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**10, 5)})
    with pytest.raises(DataError, match=r"scene\.npy cannot be read as an array"):
        open_benchmark("music-synthetic", tmp_path)
