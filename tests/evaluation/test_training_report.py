"""The report of a run, on a model that learnt nothing and a handful of scenes."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from PIL import Image

from soundwhere.evaluation import training_report
from soundwhere.evaluation.training_report import COLUMNS, write_training_report
from soundwhere.methods.catalogue import METHODS, named_config
from soundwhere.methods.files import build, write_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from soundwhere.config import MethodConfig

ROWS = ["model", "model, audio-shuffled", "model, silence", "model, picture-shuffled", "model, feature norm"]


@pytest.fixture(autouse=True)
def few_scenes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_report, "SCENES", 4)
    monkeypatch.setattr(training_report, "SHOWN", 2)


def make_run(folder: Path, config: MethodConfig) -> Path:
    torch.manual_seed(0)
    write_model(folder / "best.safetensors", build(config))
    steps = [{"stage": stage, "step": step, "loss": 1 / step} for stage in ("one", "two") for step in (1, 2, 3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    return folder


@pytest.mark.parametrize("decouple", [True, False])
def test_page_figures_and_pictures(tmp_path: Path, decouple: bool) -> None:
    tiny = named_config("scav-tiny")
    run = make_run(tmp_path, replace(tiny, frame_px=64, dimension=16, decoupler_layers=1, decouple=decouple))  # type: ignore[call-arg]
    page, tables = write_training_report(run)
    assert page == tmp_path / "report.html"
    assert tables[0].title == "Both sources"
    assert tables[-1].title == "Selective convergence of stage 1"
    assert len(tables[-1].rows) == 8
    values = json.loads((tmp_path / "report.json").read_text())
    assert values["facts"]["scenes"] == 4
    assert values["facts"]["binarisation"] == "minmax-0.5"
    assert values["facts"]["split"].startswith("test")
    both, selective = values["tables"].values()
    assert list(both)[:5] == ROWS
    assert sum("best on val" in row for row in both) == 1
    assert not any(row.startswith("one map") or row == "model, stage 1" for row in both)
    assert set(selective) == {
        f"{name}, {which} source"
        for name in ("stage 1", "feature norm", "constant blob", "random smooth maps")
        for which in ("dominant", "second")
    }
    text = page.read_text(encoding="utf-8")
    for name, row in {**both, **selective}.items():
        assert html.escape(name) in text
        for column in COLUMNS:
            figure = row[column]
            assert 0 <= figure["low"] <= figure["value"] <= figure["high"] <= 1
            assert f"{100 * figure['value']:.1f}" in text
    for value in values["facts"].values():
        assert html.escape(str(value)) in text
    assert text.count("data:image/") == 2
    for name in ("scenes.png", "curves.png"):
        assert min(Image.open(tmp_path / name).size) > 100


def test_a_method_without_anything_to_watch_has_a_report_too(
    tmp_path: Path, documented: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = documented("toy.py")
    monkeypatch.setitem(METHODS, "toy", toy.METHOD)
    _, tables = write_training_report(make_run(tmp_path, toy.ToyConfig()))
    assert [row[0] for row in tables[0].rows][:5] == ROWS
    assert not any("convergence" in table.title for table in tables)
