"""What is scored: which scenes, and whether their files are still those of before."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.data.benchmarks.catalogue import Options, open_benchmark
from soundwhere.data.real_duet import RealDuetScenes
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.evaluation.task import Request, choose_scenes, constant_for, load_methods
from soundwhere.metrics.presets import find_preset

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    """A data set with masks and annotations beside it."""
    for folder in ("data/frames", "annotations", "masks"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("data/a.mp4", "data/frames/b.png", "annotations/list.csv", "masks/a.png", "pairs.csv"):
        (tmp_path / name).write_text(name)
    options = Options(masks=tmp_path / "masks", pairing=str(tmp_path / "pairs.csv"))
    return Request("any", tmp_path / "data", tmp_path / "annotations", options)


@pytest.mark.parametrize(
    "name", ["data/a.mp4", "data/frames/b.png", "annotations/list.csv", "masks/a.png", "pairs.csv", "data/new.mp4"]
)
def test_whatever_is_edited_changes_the_stamp(request_: Request, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    before = request_.stamp(out)
    assert request_.stamp(out) == before
    (tmp_path / name).write_text("corrected")
    os.utime(tmp_path / name, ns=(1, 1))
    assert request_.stamp(out) != before


def test_a_moved_data_set_keeps_its_stamp_and_results_do_not_count(request_: Request, tmp_path: Path) -> None:
    assert request_.data is not None
    before = request_.stamp(tmp_path / "out")
    moved = request_.data.rename(tmp_path / "moved")
    (moved / "frames" / "loop").symlink_to(moved)
    (moved / "out").mkdir()
    (moved / "out" / "results.json").touch()
    (moved / ".hidden").touch()
    assert Request("any", moved, request_.annotations, request_.options).stamp(moved / "out") == before
    shutil.rmtree(moved / "out")
    (moved / "out.csv").touch()
    assert Request("any", moved, request_.annotations, request_.options).stamp(moved) != before  # even where results go


def test_scenes_are_looked_at_only_where_no_method_says_how_many_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    task = choose_scenes(open_benchmark("synthetic", options=Options(count=2, sounding=3)))
    found = load_methods([], None, task, find_preset("scav"), torch.device("cpu"))
    assert found == ([], 3)
    monkeypatch.setattr(type(task), "sources", lambda _: pytest.fail("looked at scenes"))
    methods, maps = load_methods(["scav-tiny"], None, task, find_preset("scav"), torch.device("cpu"))
    assert ([method.label for method in methods], maps) == (["scav-tiny"], 2)


@pytest.fixture
def duets(own_root: Path) -> Request:
    """Two test duets of the miniature real-duet, beside its val list."""
    head, line, *_ = (own_root / "duets_val.csv").read_text().splitlines()
    identity = line.split(",")[0]
    lines = [line.replace(identity, f"test-duet-{number}", 1) for number in range(2)]
    (own_root / "duets_test.csv").write_text("\n".join([head, *lines]) + "\n")
    return Request("real-duet", own_root)


def test_the_constant_is_chosen_on_val(duets: Request, tmp_path: Path) -> None:
    said: list[str] = []
    task = choose_scenes(duets.open())
    constant = constant_for(task, duets, 2, find_preset("scav"), tmp_path / "scores", say=said.append)
    assert constant.chosen_on == "val"
    assert not said
    val = Request("real-duet", duets.data, options=Options(split="val"))
    assert task.about["choices"]["split"] == "test"
    assert val.open().choices["split"] == "val"


@pytest.mark.parametrize("spoil", ["duets_val.csv", "masks"])
def test_a_missing_val_list_does_not_end_a_test_run(duets: Request, tmp_path: Path, spoil: str) -> None:
    assert duets.data is not None
    task = choose_scenes(duets.open())
    if spoil == "masks":  # those that only val names
        head, line, *_ = (duets.data / "duets_val.csv").read_text().splitlines()
        (duets.data / "duets_val.csv").write_text(f"{head}\n{line.replace('images/', 'images/no')}\n")
    else:
        (duets.data / spoil).unlink()
    said: list[str] = []
    constant = constant_for(task, duets, 2, find_preset("scav"), tmp_path / "scores", say=said.append)
    assert str(constant.best).endswith("(best on these scenes)")
    assert len(said) == 1
    assert said[0].startswith("The constant answer is chosen on these scenes, because val cannot be read: ")
    assert "duets_val.csv" in said[0]


def test_media_are_not_read_to_choose_the_constant(
    duets: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = choose_scenes(duets.open(), solo=True)
    monkeypatch.setattr("soundwhere.data.real_duet._read_frame", lambda *_: pytest.fail("looked at a picture"))
    monkeypatch.setattr("soundwhere.data.real_duet._read_sound", lambda *_: pytest.fail("listened"))
    assert isinstance(task.benchmark.truths, RealDuetScenes)
    val = Request("real-duet", duets.data, options=Options(split="val"))
    for request in (duets, val):
        constant_for(task, request, 1, find_preset("scav"), tmp_path / request.options.split)


def test_truths_are_those_of_the_scenes_that_are_scored() -> None:
    task = choose_scenes(open_benchmark("synthetic", options=Options(count=4)), limit=3, solo=True)
    assert isinstance(task.benchmark.truths, WorldScenes)
    for scene, truth in zip(task.scenes, task.truths, strict=True):
        assert (scene.name, scene.masks.tolist()) == (truth.name, truth.masks.tolist())
