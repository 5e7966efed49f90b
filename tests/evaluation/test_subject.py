"""What is scored: which scenes, and whether their files are still those of before."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.data.benchmarks.catalogue import Options, open_benchmark
from soundwhere.evaluation.subject import Places, choose_scenes, load_methods
from soundwhere.metrics.presets import find_preset

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A data set with masks and annotations beside it."""
    for folder in ("data/frames", "annotations", "masks"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("data/a.mp4", "data/frames/b.png", "annotations/list.csv", "masks/a.png", "pairs.csv"):
        (tmp_path / name).write_text(name)
    options = Options(masks=tmp_path / "masks", pairing=str(tmp_path / "pairs.csv"))
    return Places("any", tmp_path / "data", tmp_path / "annotations", options)


@pytest.mark.parametrize(
    "name", ["data/a.mp4", "data/frames/b.png", "annotations/list.csv", "masks/a.png", "pairs.csv", "data/new.mp4"]
)
def test_whatever_is_edited_changes_the_stamp(places: Places, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    before = places.stamp(out)
    assert places.stamp(out) == before
    (tmp_path / name).write_text("corrected")
    os.utime(tmp_path / name, ns=(1, 1))
    assert places.stamp(out) != before


def test_a_moved_data_set_keeps_its_stamp_and_results_do_not_count(places: Places, tmp_path: Path) -> None:
    assert places.data is not None
    before = places.stamp(tmp_path / "out")
    moved = places.data.rename(tmp_path / "moved")
    (moved / "frames" / "loop").symlink_to(moved)
    (moved / "out").mkdir()
    (moved / "out" / "results.json").touch()
    (moved / ".hidden").touch()
    assert Places("any", moved, places.annotations, places.options).stamp(moved / "out") == before
    shutil.rmtree(moved / "out")
    (moved / "out.csv").touch()
    assert Places("any", moved, places.annotations, places.options).stamp(moved) != before  # even where results go


def test_scenes_are_looked_at_only_where_no_method_says_how_many_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = choose_scenes(open_benchmark("synthetic", options=Options(count=2, sounding=3)))
    found = load_methods([], None, subject, find_preset("scav"), torch.device("cpu"))
    assert found == ([], 3)
    monkeypatch.setattr(type(subject), "sources", lambda _: pytest.fail("looked at scenes"))
    methods, maps = load_methods(["scav-tiny"], None, subject, find_preset("scav"), torch.device("cpu"))
    assert ([method.label for method in methods], maps) == (["scav-tiny"], 2)
