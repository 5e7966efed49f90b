from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from soundwhere.models.registry import load_model

from soundwhere.analysis import ablation
from soundwhere.analysis.ablation import RowScores, ablation_rows, score_rows, train_row, train_stage_one
from soundwhere.analysis.ablation_report import PAPER, ablation_results, ordering_sentence, orderings
from soundwhere.analysis.convergence import PAPER as PAPER_CONVERGENCE
from soundwhere.config import Config, DataConfig, LossConfig, TrainConfig, model_config
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import ConfigError
from soundwhere.evaluation.answers import model_answer, scene_batch, upsample
from soundwhere.methods.scav.model import SCAV
from soundwhere.methods.scav.peeling import peel
from soundwhere.metrics.pairs import PairScores
from soundwhere.metrics.protocols import frame_wise
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import LATEST

if TYPE_CHECKING:
    from pathlib import Path

SIDE = 64
SCENES = WorldScenes(World(5, (SIDE, 2 * SIDE), seconds=0.2), 6, silent=0, layout="side-by-side")


@pytest.fixture
def recipe() -> Config:
    model = replace(model_config("scav-tiny"), frame_px=SIDE, dimension=16, decoupler_layers=1, decoupler_heads=2)
    return Config(
        model=model,
        loss=LossConfig(stage_two="distil"),
        data=DataConfig(scenes=8),
        train=TrainConfig(steps_one=2, steps_two=2, batch_size=4, learning_rate=1e-3, device="cpu", log_every=1),
    )


def test_each_row_changes_one_thing(recipe: Config) -> None:
    rows = ablation_rows(recipe)
    assert list(rows) == ["full", "a", "c", "paper-loss", "d", "no-algorithm-1"]
    assert rows["full"].train.stage == "two"
    assert rows["a"].model.prior == "uniform"
    assert rows["no-algorithm-1"].model.prior == "minmax"
    assert (rows["c"].train.stage, rows["c"].train.steps_two) == ("joint", 4)
    assert rows["d"].loss.cross_sample_negatives
    assert rows["d"].loss.stage_two == rows["paper-loss"].loss.stage_two == "paper"
    for name in ("a", "no-algorithm-1"):
        assert replace(rows[name], model=recipe.model) == rows["full"]
    literal = replace(recipe, loss=replace(recipe.loss, stage_two="paper"))
    assert list(ablation_rows(literal)) == ["full", "a", "c", "d", "no-algorithm-1"]


def test_rows_are_trained_once_and_refuse_other_settings(
    recipe: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = train_stage_one(recipe, tmp_path / "stage-one")
    assert not load_model(start).config.decouple
    full = ablation_rows(recipe)["full"]
    file = train_row(full, tmp_path / "full", start=start)
    stage_one, row = load_model(start), load_model(file)
    for mine, theirs in zip(row.stage_one, stage_one.stage_one, strict=True):
        torch.testing.assert_close(mine.state_dict(), theirs.state_dict(), rtol=0, atol=0)

    monkeypatch.setattr(ablation, "train", lambda *_, **__: pytest.fail("trained again"))
    moved = replace(full, data=replace(full.data, cache=tmp_path))
    assert train_row(moved, tmp_path / "full", start=start) == file
    longer = replace(recipe, train=replace(recipe.train, steps_two=9))
    assert train_stage_one(longer, tmp_path / "stage-one") == start  # it does not depend on stage 2's length
    with pytest.raises(ConfigError, match=r"other settings: train\.steps_two"):
        train_row(ablation_rows(longer)["full"], tmp_path / "full", start=start)
    with pytest.raises(ConfigError, match="the stage 1 it starts from"):
        train_row(full, tmp_path / "full", start=file)
    for text in ("[" * 9999, "{}", "[1]", '{"config": {}}'):
        (tmp_path / "full" / "row.json").write_text(text)
        with pytest.raises(ConfigError, match=r"row\.json does not say what was trained there"):
            train_row(full, tmp_path / "full", start=start)


def test_a_row_that_was_stopped_goes_on(recipe: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(recipe, train=replace(recipe.train, stage="one", checkpoint_every_s=0))
    with monkeypatch.context() as patched:
        patched.setattr("soundwhere.training.run.Run._sheet", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train_row(config, tmp_path / "row")
    assert read_progress(tmp_path / "row" / LATEST)[1].step == 1
    train_row(config, tmp_path / "row")
    assert read_progress(tmp_path / "row" / LATEST)[1].step == 2


def test_a_row_that_never_began_may_change(recipe: Config, tmp_path: Path) -> None:
    config = replace(recipe, train=replace(recipe.train, stage="one"))
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


def test_rows_are_scored_as_the_model_answers(recipe: Config) -> None:
    torch.manual_seed(0)
    full = SCAV(recipe.model).eval()
    alone = full.without_stage_two().eval()
    scores = score_rows({"b": alone, "full": full}, SCENES, (1, 2))
    assert list(scores) == ["b", "full", "peel", "constant"]
    truth = torch.stack([torch.from_numpy(scene.masks) for scene in SCENES])
    expected = frame_wise(model_answer(full)(SCENES[:]), truth)
    torch.testing.assert_close(scores["full"].mask.iou, expected.iou, atol=1e-3, rtol=0)
    once = frame_wise(model_answer(alone)(SCENES[:]), truth)
    torch.testing.assert_close(scores["b"].mask.iou, once.iou, atol=1e-3, rtol=0)
    assert len(once) == 2 * len(SCENES)  # one map answers for both sources
    assert not torch.equal(scores["full"].swapped.ap, scores["full"].mask.ap)
    assert (scores["constant"].swapped.iou == scores["constant"].mask.iou).all()
    assert scores["full"].box.iou.sum() != scores["full"].mask.iou.sum()
    batch = scene_batch(SCENES[:])
    features = full.features(batch)
    peeled = peel(full.similarity(features, full.audio(full.hear(batch.mixture))), features, 2, (1, 2))
    torch.testing.assert_close(
        scores["peel"].mask.iou, frame_wise(upsample(peeled, SCENES[:]), truth).iou, atol=1e-3, rtol=0
    )


def test_the_papers_row_b_is_its_selective_convergence() -> None:
    """The mean of dominant and second source, which shows that both tables were copied right."""
    for column, figure in (("cap", 0), ("ciou@0.3", 2), ("auc", 3)):
        mean = 50 * (PAPER_CONVERGENCE["dominant"][column] + PAPER_CONVERGENCE["second"][column])
        assert PAPER["b"].box[figure] == pytest.approx(mean, abs=0.011)


def test_the_papers_numbers_are_those_of_its_tables(shared: Path) -> None:
    text = (shared / "paper" / "scav-eccv2026.tex").read_text()
    table = text[text.index(r"\label{tab:ablation}") :]
    alone = text[text.index(r"\label{tab:ablation_algorithm1}") :]
    for name, row in PAPER.items():
        source = alone if name == "no-algorithm-1" else table
        for figures in (row.box, row.mask):
            written = " & ".join(f"{figure:.2f}" for figure in figures)
            bold = " & ".join(rf"\textbf{{{figure:.2f}}}" for figure in figures)
            assert written in source or bold in source, (name, figures)


def scores(iou: float, scenes: int = 20) -> RowScores:
    pairs = PairScores.from_rows([(scene, k, k, iou, iou, 1, 0) for scene in range(scenes) for k in range(2)])
    return RowScores(pairs, pairs, pairs)


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
    tables, values = ablation_results({"full": scores(0.5), "b": scores(0.2), "peel": scores(0.4)})
    titles = [table.title for table in tables]
    assert titles[:2] == ["Ablation, scored by masks", "Ablation, scored by the boxes of the masks"]
    lines = tables[0].rows
    assert lines[0][:2] == ("full", "ours")
    assert lines[1] == ("", "paper, tab:ablation", "39.3", "69.4", "33.6", "23.5", "-")
    assert tables[1].rows[1][2:6] == ("53.0", "83.2", "53.3", "32.0")
    assert tables[1].head[-1] == "AUC"
    assert [line[0] for line in lines if line[0]] == ["full", "(b) no stage 2", "peel: stage 1, training-free"]
    assert values["selective_convergence"]["masks"]["dominant"]["cap"]["value"] == pytest.approx(0.2)
    assert values["orderings"][0]["verdict"] == "agrees"
    assert values["sentence"] in tables[-1].notes[0]
