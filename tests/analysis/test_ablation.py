from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from soundwhere.analysis import trained_rows
from soundwhere.analysis.ablation import (
    FIGURES,
    PAPER,
    TRUTHS,
    Scored,
    ablation_results,
    ablation_rows,
    ordering_sentence,
    orderings,
    paper_figure,
    score_rows,
    train_stage_one,
)
from soundwhere.analysis.convergence import PAPER as PAPER_CONVERGENCE
from soundwhere.analysis.trained_rows import train_row
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import ConfigError, DataError
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.reading import View
from soundwhere.evaluation.rows import Row
from soundwhere.methods.files import load_model
from soundwhere.methods.scav.model import SCAV
from soundwhere.metrics.pairs import PairScores
from soundwhere.metrics.presets import PRESETS, score
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import LATEST

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.config import Config

SIDE = 64
SCENES = WorldScenes(World(5, (SIDE, 2 * SIDE), seconds=0.2), 6, silent=0, layout="side-by-side")


def changed(recipe: Config, **settings: Any) -> Config:
    """The recipe with other settings of SCAV."""
    return replace(recipe, method=replace(recipe.method, **settings))


def test_each_row_changes_one_thing(recipe: Config) -> None:
    rows: dict[str, Any] = {name: row.method for name, row in ablation_rows(recipe).items()}
    assert list(rows) == ["full", "a", "c", "paper-loss", "d", "no-algorithm-1"]
    assert rows["full"].stage == "two"
    assert rows["a"].prior == "uniform"
    assert rows["no-algorithm-1"].prior == "minmax"
    assert (rows["c"].stage, rows["c"].steps_two) == ("joint", 4)
    assert rows["d"].cross_sample_negatives
    assert rows["d"].stage_two == rows["paper-loss"].stage_two == "paper"
    for name in ("a", "no-algorithm-1"):
        assert replace(rows[name], prior=rows["full"].prior) == rows["full"]
    assert list(ablation_rows(changed(recipe, stage_two="paper"))) == ["full", "a", "c", "d", "no-algorithm-1"]


def test_rows_are_trained_once_and_refuse_other_settings(
    recipe: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = train_stage_one(recipe, tmp_path / "stage-one")
    assert not vars(load_model(start).config)["decouple"]
    full = ablation_rows(recipe)["full"]
    file = train_row(full, tmp_path / "full", start=start)
    stage_one, row = load_model(start), load_model(file)
    assert isinstance(stage_one, SCAV)
    assert isinstance(row, SCAV)
    for mine, theirs in zip(row.stage_one, stage_one.stage_one, strict=True):
        torch.testing.assert_close(mine.state_dict(), theirs.state_dict(), rtol=0, atol=0)

    monkeypatch.setattr(trained_rows, "train", lambda *_, **__: pytest.fail("trained again"))
    moved = replace(full, data=replace(full.data, cache=tmp_path))
    assert train_row(moved, tmp_path / "full", start=start) == file
    longer = changed(recipe, steps_two=9)
    assert train_stage_one(longer, tmp_path / "stage-one") == start  # it does not depend on stage 2's length
    with pytest.raises(ConfigError, match=r"other settings: method\.steps_two"):
        train_row(ablation_rows(longer)["full"], tmp_path / "full", start=start)
    with pytest.raises(ConfigError, match="the stage 1 it starts from"):
        train_row(full, tmp_path / "full", start=file)
    for text in ("[" * 9999, "{}", "[1]", '{"config": {}}'):
        (tmp_path / "full" / "row.json").write_text(text)
        with pytest.raises(ConfigError, match=r"row\.json does not say what was trained there"):
            train_row(full, tmp_path / "full", start=start)


def test_rows_noted_in_the_sections_of_format_1_are_known(recipe: Config, tmp_path: Path) -> None:
    """As the folder of an ablation looks that an earlier version began."""
    import json

    config = changed(recipe, stage="one")
    train_row(config, tmp_path)
    noted = json.loads((tmp_path / "row.json").read_text())
    method = noted["config"].pop("method")
    schedule = ("stage", "steps_one", "steps_two", "batch_size", "learning_rate")
    noted["config"]["train"] |= {name: method.pop(name) for name in schedule}
    noted["config"] |= {"loss": {"stage_two": method.pop("stage_two")}, "model": method}
    method.pop("family")
    (tmp_path / "row.json").write_text(json.dumps(noted))
    train_row(config, tmp_path)
    with pytest.raises(ConfigError, match=r"other settings: method\.steps_one"):
        train_row(changed(config, steps_one=3), tmp_path)


def test_a_row_that_was_stopped_goes_on(recipe: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(changed(recipe, stage="one"), train=replace(recipe.train, checkpoint_every_s=0))
    with monkeypatch.context() as patched:
        patched.setattr("soundwhere.training.run.Run._sheet", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train_row(config, tmp_path / "row")
    assert read_progress(tmp_path / "row" / LATEST)[1].step == 1
    train_row(config, tmp_path / "row")
    assert read_progress(tmp_path / "row" / LATEST)[1].step == 2


def test_a_row_that_never_began_may_change(recipe: Config, tmp_path: Path) -> None:
    config = changed(recipe, stage="one")
    with pytest.raises(ConfigError, match="needs a folder"):
        train_row(replace(config, data=replace(config.data, source="folder")), tmp_path)
    train_row(config, tmp_path)
    assert read_progress(tmp_path / LATEST)[1].step == 2


def test_a_stage_one_killed_before_its_file_was_written_still_gets_it(recipe: Config, tmp_path: Path) -> None:
    file = train_stage_one(recipe, tmp_path)
    written = load_model(file).state_dict()
    file.unlink()
    assert train_stage_one(recipe, tmp_path) == file
    torch.testing.assert_close(load_model(file).state_dict(), written, rtol=0, atol=0)


def test_rows_are_scored_as_the_model_answers(network: SCAV) -> None:
    alone = network.without_stage_two().eval()
    ticks: list[tuple[int, int]] = []
    scores = score_rows({"b": alone, "full": network}, SCENES, (1, 2), tick=lambda *done: ticks.append(done))
    assert list(scores) == ["b", "full", "peel", "constant"]
    assert ticks[-1] == (6, 6)
    truth = torch.stack([torch.from_numpy(scene.masks) for scene in SCENES])

    def expected(model: SCAV, row: Row) -> PairScores:
        maps = NetworkAnswerer("m", model, (1, 2), rows=[row]).answer(View.of(list(SCENES)))[row].maps
        return score(torch.nn.functional.interpolate(maps, (SIDE, 2 * SIDE), mode="bilinear"), truth, PRESETS["scav"])

    def in_order(pairs: PairScores) -> PairScores:
        return pairs[torch.from_numpy(np.lexsort((pairs.source, pairs.scene)))]

    for name, model, row in (
        ("full", network, Row("m")),
        ("b", alone, Row("m")),  # one map answers for both sources
        ("peel", alone, Row("m", answer="peel")),
    ):
        torch.testing.assert_close(in_order(scores[name].mask).iou, expected(model, row).iou, atol=1e-3, rtol=0)
        swapped = expected(model, row.under("shuffled"))
        torch.testing.assert_close(in_order(scores[name].swapped).iou, swapped.iou, atol=1e-3, rtol=0)
    assert len(scores["b"].mask) == 2 * len(SCENES)
    assert not torch.equal(scores["full"].swapped.ap, scores["full"].mask.ap)
    assert (scores["constant"].swapped.iou == scores["constant"].mask.iou).all()
    assert scores["full"].box.iou.sum() != scores["full"].mask.iou.sum()


def test_scenes_without_a_source_are_refused(network: SCAV) -> None:
    silent = WorldScenes(World(6, (SIDE, SIDE), seconds=0.2), 3, sounding=0, silent=1)
    with pytest.raises(DataError, match="has no source"):
        score_rows({"full": network}, silent, (1, 1))


def test_the_papers_row_b_is_its_selective_convergence() -> None:
    """The mean of dominant and second source, which shows that both tables were copied right."""
    for column in ("cap", "ciou@0.3", "auc"):
        mean = 50 * (PAPER_CONVERGENCE["dominant"][column] + PAPER_CONVERGENCE["second"][column])
        assert paper_figure("b", "box", column) == pytest.approx(mean, abs=0.011)


def test_the_papers_numbers_are_those_of_its_tables(shared: Path) -> None:
    text = (shared / "paper" / "scav-eccv2026.tex").read_text()
    table = text[text.index(r"\label{tab:ablation}") :]
    alone = text[text.index(r"\label{tab:ablation_algorithm1}") :]
    for name in PAPER:
        source = alone if name == "no-algorithm-1" else table
        for truth in TRUTHS:
            figures = [paper_figure(name, truth, figure) for figure in FIGURES]
            written = " & ".join(f"{figure:.2f}" for figure in figures)
            bold = " & ".join(rf"\textbf{{{figure:.2f}}}" for figure in figures)
            assert written in source or bold in source, (name, figures)


def scores(iou: float, scenes: int = 20) -> Scored:
    pairs = PairScores.from_rows([(scene, k, k, iou, iou, 1, 0) for scene in range(scenes) for k in range(2)])
    return Scored(pairs, pairs, pairs)


def test_the_sentence_says_where_the_ordering_agrees() -> None:
    rows = {"full": scores(0.5), "a": scores(0.2), "b": scores(0.2), "c": scores(0.6), "d": scores(0.5)}
    assert not any(each.second == "d" for each in orderings(rows))  # two things differ from full
    found = {(each.first, each.second): each.verdict for each in orderings(rows, "full")}
    assert found[("full", "a")] == "agrees"
    assert found[("full", "c")] == "undecided"  # both succeed everywhere
    assert found[("full", "d")] == "undecided"
    assert found[("b", "a")] == "undecided"
    mixed = {"full": scores(0.2), "b": scores(0.5)}
    sentence = ordering_sentence(orderings(mixed))
    assert "The other way round from the paper: full against (b) no stage 2 (-100.0, paper +14.8)" in sentence
    assert "As in the paper" not in sentence
    assert ordering_sentence([]) == "Too few rows to compare orderings."


def test_tables_hold_ours_and_the_papers() -> None:
    report = ablation_results({"full": scores(0.5), "b": scores(0.2), "peel": scores(0.4)})
    tables, values = report.tables, report.values
    titles = [table.title for table in tables]
    assert titles[:2] == ["Ablation, scored by masks", "Ablation, scored by the boxes of the masks"]
    lines = tables[0].rows
    assert lines[0][:2] == ("full", "ours")
    assert lines[1] == ("", "paper, tab:ablation", "39.3", "69.4", "33.6", "23.5", "-")
    assert [cell.text for cell in tables[2].cells[0]] == ["full", "100.0", "100.0", "0.0", "+19.7"]
    assert tables[2].cells[2][-1].text == "-"  # the paper has no such row
    assert tables[1].rows[1][2:6] == ("53.0", "83.2", "53.3", "32.0")
    assert tables[1].head[-1] == "AUC"
    assert [line[0] for line in lines if line[0]] == ["full", "(b) no stage 2", "peel: stage 1, training-free"]
    assert values["selective_convergence"]["masks"]["dominant"]["cap"]["value"] == pytest.approx(0.2)
    assert values["orderings"][0]["verdict"] == "agrees"
    assert values["sentence"] in tables[-1].notes[0]
