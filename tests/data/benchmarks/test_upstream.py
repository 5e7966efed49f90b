"""The files as their authors publish them, whole: every fact of a docstring that they can show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from soundwhere.data.benchmarks.catalogue import Options, open_benchmark, survey
from soundwhere.data.benchmarks.music import CATEGORIES
from soundwhere.data.benchmarks.vggsound import VGGSoundLists
from soundwhere.data.benchmarks.vggss import VGGSS
from soundwhere.metrics.presets import PRESETS, score

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.annotation.findings import Findings


@pytest.fixture(scope="module")
def published(shared: Path) -> Path:
    folder = shared / "data" / "annotations"
    if not folder.is_dir():
        pytest.skip("needs the upstream annotation files beside the repository")
    return folder


@pytest.fixture(scope="module")
def findings(published: Path) -> dict[str, Findings]:
    return {found.source: found for found in survey(published)}


def defects(found: Findings) -> dict[str, int]:
    return {defect.what: defect.count for defect in found.defects}


COUNTS = {
    "lvs/vggss.json": {"clips": 5158, "classes": 221, "boxes": 5941},
    "ez-vsl/vggss_heard_test.csv": {"clips": 2564, "classes": 110},
    "ez-vsl/vggss_unheard_test.csv": {"clips": 2575, "classes": 110},
    "avgn/vggsound_duet_test.csv": {"pairs": 5158, "clips": 5158, "classes": 221, "partners": 3255},
    "avgn/vgginstruments_test.csv": {"frames": 446, "classes": 36},
    "avgn/vgginstruments_multi_test.csv": {"pairs": 446, "clips": 446, "classes": 36, "partners": 255},
    "dsol/duettest.json": {"frames": 11512, "with boxes": 10284, "that count": 4751, "videos": 16, "classes": 6},
    "dsol/solotest.json": {"frames": 13472, "with boxes": 12356, "that count": 12356, "videos": 27, "classes": 7},
    "avgn/music_duet.json": {"frames": 1020, "boxes": 2040, "videos": 6, "classes": 6},
    "avgn/music_solo.json": {"frames": 2124, "boxes": 2124, "videos": 20, "classes": 7},
    "slavc/vggss_test_plus_silent.csv": {
        "scenes": 5158,
        "with another clip's sound": 4779,
        "with their own, source not in view": 379,
        "sounds": 3471,
    },
    "vggsound/test.csv": {"clips": 15446, "classes": 309},
    "vggsound/stat.csv": {"classes": 309, "groups": 9},
}

DEFECTS = {
    "lvs/vggss.json": {
        "boxes reach beyond the picture": 12,
        "boxes are empty, clipped or not": 18,
        "clips have no box left": 2,
    },
    "avgn/vggsound_duet_test.csv": {"pairs are of one class": 22},
    "dsol/duettest.json": {
        "frames spell the width `wdith`": 11512,
        "frames show one class of two": 5533,
        "frames have no box": 1228,
    },
    "dsol/solotest.json": {"frames spell the width `wdith`": 13472, "frames have no box": 1116},
    "avgn/music_duet.json": {"boxes would be empty if read as corners, as AVGN does": 1027},
    "avgn/music_solo.json": {"boxes would be empty if read as corners, as AVGN does": 1647},
    "slavc/vggss_test_plus_silent.csv": {"scenes have another clip's sound of the same class": 1185},
}


def test_every_file_is_surveyed(findings: dict[str, Findings], published: Path) -> None:
    files = {
        path.relative_to(published).as_posix() for path in published.rglob("*") if path.suffix in (".csv", ".json")
    }
    assert set(findings) == files == set(COUNTS)


@pytest.mark.parametrize("source", COUNTS)
def test_counts_and_defects(findings: dict[str, Findings], source: str) -> None:
    assert findings[source].counts == COUNTS[source]
    assert defects(findings[source]) == DEFECTS.get(source, {})


def test_all_of_vggss_is_in_vggsounds_test_list(published: Path) -> None:
    lists, vggss = VGGSoundLists(published), VGGSS(published)
    assert all(lists.test[name] == clip.kind for name, clip in vggss.clips.items())
    assert set(lists.test.values()) == set(lists.groups)
    heard, unheard = ({clip.name for clip in vggss.subset(which)} for which in ("heard", "unheard"))
    assert not heard & unheard
    rest = [clip.kind for name, clip in vggss.clips.items() if name not in heard | unheard]
    assert rest == ["singing choir"] * 19


def test_the_truth_of_each_frame_is_its_own_clips(published: Path) -> None:
    raw = {entry["file"]: entry["bbox"] for entry in json.loads((published / "lvs/vggss.json").read_text())}
    benchmark = open_benchmark("vggsound-duet", None, published)
    assert (len(benchmark.truths), benchmark.grid, len(benchmark.scenes)) == (5158, (1, 2), 0)
    for index in range(0, 5158, 97):
        scene = benchmark.truths[index]
        assert scene.masks.shape == (2, 224, 448)
        for half, name in enumerate(scene.name.split("+")):
            expected = np.zeros((224, 448), bool)
            for x1, y1, x2, y2 in (np.clip(box, 0, 1) for box in raw[name]):
                columns = slice(224 * half + int(224 * x1), 224 * half + int(224 * x2))
                expected[int(224 * y1) : int(224 * y2), columns] = True
            np.testing.assert_array_equal(scene.masks[half], expected)


def test_a_clip_without_a_box_is_a_miss_or_left_out(published: Path) -> None:
    benchmark = open_benchmark("vgg-ss", None, published)
    empty = next(defect.examples for defect in benchmark.findings[0].defects if defect.what == "clips have no box left")
    places = [place for place, record in enumerate(benchmark.truths.records) if record.name in empty]
    truth = torch.from_numpy(np.stack([benchmark.truths[place].masks for place in [*places, 0]]))
    assert truth.any((1, 2, 3)).tolist() == [False, False, True]
    maps = torch.rand(3, 1, 14, 14, generator=torch.Generator().manual_seed(0))
    for name, preset in PRESETS.items():
        pairs = score(maps, truth, preset, benchmark.grid)
        expected = [2] if name in ("scav", "scav-source-wise", "slavc", "slavc-relative") else [0, 1, 2]
        assert pairs.scene.tolist() == expected
        assert not pairs.iou[:-1].any()


def test_avgn_music_is_a_part_of_dsols(published: Path) -> None:
    for players, scenes in (("duet", 1020), ("solo", 2124)):
        whole = open_benchmark(f"music-{players}", None, published).truths.records
        part = open_benchmark(f"music-{players}-avgn", None, published).truths.records
        known = {record.name: record.shots[0] for record in whole}
        assert len(part) == scenes
        for record in part:
            shot, same = record.shots[0], known[record.name]
            assert shot.picture == same.picture
            assert dict(zip(shot.kinds, shot.truths, strict=True)) == dict(zip(same.kinds, same.truths, strict=True))
    assert len(set(CATEGORIES.values())) == 7


def test_random_pairs_of_the_published_clips(published: Path) -> None:
    first, again, other = (
        open_benchmark("vggsound-duet", None, published, Options(pairing="random", seed=seed)) for seed in (3, 3, 4)
    )
    names = [[record.name for record in item.truths.records] for item in (first, again, other)]
    assert names[0] == names[1] != names[2]
    assert all(len(set(record.shots[0].kinds + record.shots[1].kinds)) == 2 for record in first.truths.records)
