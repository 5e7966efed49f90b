"""The report of a run, on a model that learnt nothing and a handful of scenes."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from PIL import Image

from soundwhere.analysis import training_report
from soundwhere.analysis.training_report import COLUMNS, best_sigma, write_training_report
from soundwhere.config import model_config
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.evaluation.evaluate import fixed_answer, score
from soundwhere.methods.files import write_model
from soundwhere.methods.scav.model import SCAV
from soundwhere.metrics.baselines import constant_pair
from soundwhere.metrics.pairs import summarise

if TYPE_CHECKING:
    from pathlib import Path

CONTROLS = ["model", "audio-shuffled", "silence", "picture-shuffled", "feature norm", "constant pair", "random maps"]


@pytest.mark.parametrize("decouple", [True, False])
def test_page_figures_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decouple: bool) -> None:
    monkeypatch.setattr(training_report, "SCENES", 4)
    monkeypatch.setattr(training_report, "SHOWN", 2)
    torch.manual_seed(0)
    small = replace(model_config("scav-tiny"), frame_px=64, dimension=16, decoupler_layers=1, decouple=decouple)
    write_model(tmp_path / "best.safetensors", SCAV(small))
    steps = [{"stage": stage, "step": step, "loss": 1 / step} for stage in ("one", "two") for step in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))

    page, tables = write_training_report(tmp_path)
    assert [len(table.rows) for table in tables] == [7, 8]
    assert page == tmp_path / "report.html"
    values = json.loads((tmp_path / "report.json").read_text())
    assert values["facts"]["scenes"] == 4
    assert values["facts"]["binarisation"] == "minmax-0.5"
    assert values["facts"]["split"].startswith("test")
    both, selective = values["tables"].values()
    assert list(both) == CONTROLS
    assert set(selective) == {
        f"{name}, {which} source"
        for name in ("stage 1", "feature norm", "constant", "random")
        for which in ("dominant", "second")
    }
    text = page.read_text(encoding="utf-8")
    for table in (both, selective):
        for name, row in table.items():
            assert name in text
            assert set(row) == set(COLUMNS)
            for figure in row.values():
                assert 0 <= figure["low"] <= figure["value"] <= figure["high"] <= 1
                assert f"{100 * figure['value']:.1f}" in text
    for value in values["facts"].values():
        assert html.escape(str(value)) in text
    for name in ("scenes.png", "curves.png"):
        assert f'src="{name}"' in text
        assert min(Image.open(tmp_path / name).size) > 100


def test_the_constant_pair_is_as_good_as_it_gets() -> None:
    scenes = list(WorldScenes(World(2, (64, 64)), 6))
    best = best_sigma(scenes, 64)

    def quality(sigma: float) -> float:
        return summarise(score(fixed_answer(lambda h, w: constant_pair(h, w, sigma)), scenes))["ciou@0.3"]

    widths = [share * 64 for share in training_report.SIGMAS]
    assert best in widths
    assert quality(best) == max(map(quality, widths))
