from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from soundwhere.config import model_config
from soundwhere.data.selection import Solos
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import DataError
from soundwhere.evaluation.answers import model_scale, scene_batch
from soundwhere.evaluation.constant import SIGMAS_PX, Constant, choose_constant
from soundwhere.evaluation.evaluate import model_answer, stage_one_answer
from soundwhere.evaluation.evaluation import Evaluation, evaluate
from soundwhere.evaluation.probes import InputFreeProbe, ModelProbe, OwnProbe, Row, View, weights_digest
from soundwhere.evaluation.summary import summarise_evaluation
from soundwhere.evaluation.tables import evaluation_tables
from soundwhere.methods.scav.model import SCAV
from soundwhere.methods.scav.peeling import peel
from soundwhere.metrics.baselines import constant_cells
from soundwhere.metrics.pairs import summarise
from soundwhere.metrics.presets import PRESETS
from soundwhere.metrics.protocols import frame_wise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soundwhere.config import Config
    from soundwhere.evaluation.probes import Probe

    Run = Callable[..., Evaluation]

SIDE = 64
SCAV_PRESET = PRESETS["scav"]
DUETS = WorldScenes(World(5, (SIDE, 2 * SIDE), seconds=0.2), 6, silent=0, layout="side-by-side")
TRIOS = WorldScenes(World(5, (SIDE, 3 * SIDE), seconds=0.2), 6, silent=1, layout="side-by-side")
CONSTANT = Constant((1, 2), (0, 1), 25.0, "val")


class Stub:
    """Answers with whatever a function says, and counts how often it is asked."""

    label = "stub"

    def __init__(self, answer: Callable[[View], dict[str, torch.Tensor]], *rows: Row, stops_after: int = 99) -> None:
        self.rows = rows or (Row("stub", "method", "stub"),)
        self.identity: dict[str, Any] = {"stub": [row.name for row in self.rows]}
        self.asked = 0
        self._answer, self._stops_after = answer, stops_after

    def answer(self, view: View) -> dict[str, torch.Tensor]:
        if self.asked == self._stops_after:
            raise KeyboardInterrupt
        self.asked += 1
        return self._answer(view)


def truths(view: View) -> torch.Tensor:
    return torch.from_numpy(np.stack([scene.masks for scene in view.scenes])).float()


def perfect(view: View) -> dict[str, torch.Tensor]:
    return {"stub": truths(view).flip(1)}


def hearing(view: View) -> dict[str, torch.Tensor]:
    """Perfect with its own sound; with another's it points at nothing that is there."""
    return {"stub": truths(view), "stub, audio-shuffled": 1 - truths(view)}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def go(scenes: WorldScenes | Solos, *probes: Probe, grid: tuple[int, int] = (1, 2), **options: Any) -> Evaluation:
        names = [f"scene {number}" for number in range(len(scenes))]
        arguments = {"preset": SCAV_PRESET, "about": {}, "batch": 2, **options}
        preset = arguments.pop("preset")
        return evaluate(scenes, names, probes, preset, grid, tmp_path / "scores", **arguments)

    return go


@pytest.fixture
def model(config: Config) -> SCAV:
    torch.manual_seed(0)
    return SCAV(replace(config.model, frame_px=SIDE)).eval()


def test_streaming_gives_what_scoring_at_once_gives(run: Run, model: SCAV) -> None:
    found = run(DUETS, ModelProbe("tiny", model, (1, 2), negatives=True), InputFreeProbe(CONSTANT, 2))
    truth = torch.from_numpy(np.stack([scene.masks for scene in DUETS]))
    expected = frame_wise(torch.cat([model_answer(model)([scene]) for scene in DUETS]), truth)
    pairs = found.scores["tiny"].pairs
    torch.testing.assert_close(pairs.iou, expected.iou, atol=1e-3, rtol=0)
    torch.testing.assert_close(pairs.ap, expected.ap, atol=1e-3, rtol=0)
    blobs = constant_cells(SIDE, 2 * SIDE, (1, 2), 25.0).expand(len(DUETS), -1, -1, -1)
    assert torch.equal(found.scores[CONSTANT.best].pairs.iou, frame_wise(blobs, truth).iou)
    assert found.facts[0].areas == tuple(float(mask.mean()) for mask in DUETS[0].masks)
    assert found.facts[0].level_difference_db == 0


def test_every_control_takes_away_what_it_says(model: SCAV) -> None:
    """Each row equals the model's answer to a scene that was changed by hand."""
    count = len(DUETS)
    numbers, scenes = [0, 1], [DUETS[0], DUETS[1]]
    answers = ModelProbe("m", model, (1, 2), negatives=True).answer(View(DUETS, numbers, scenes, [4, None, 0, 0, 0, 0]))
    other = [DUETS[(number + count // 2) % count] for number in numbers]
    changed = {
        "m": scenes,
        "m, audio-shuffled": [replace(a, sounds=b.sounds) for a, b in zip(scenes, other, strict=True)],
        "m, silence": [replace(scene, sounds=np.zeros_like(scene.sounds)) for scene in scenes],
        "m, picture-shuffled": [replace(a, image=b.image) for a, b in zip(scenes, other, strict=True)],
        "m, absent sound": [replace(scenes[0], sounds=DUETS[4].sounds), scenes[1]],
    }
    for name, those in changed.items():
        maps = torch.nn.functional.interpolate(answers[name], (SIDE, 2 * SIDE), mode="bilinear")
        torch.testing.assert_close(maps, model_answer(model)(those), msg=name)
    norm = answers["m, feature norm"]
    assert norm.shape == (2, 2, SIDE, 2 * SIDE)
    left, right = (half.flatten(2).any(2) for half in norm.chunk(2, dim=3))
    assert (left != right).all()  # cut at the seam: each map is of one frame


def test_peel_takes_two_maps_from_stage_one_alone(run: Run, model: SCAV) -> None:
    scenes = [DUETS[0], DUETS[1]]
    answers = ModelProbe("m", model, (1, 2)).answer(View(DUETS, [0, 1], scenes))
    batch = scene_batch(scenes)
    features = model.features(batch)
    expected = peel(model.similarity(features, model.audio(model.hear(batch.mixture))), features, 2, (1, 2))
    torch.testing.assert_close(answers["m, peel"], expected)
    assert not torch.equal(answers["m, peel, audio-shuffled"], expected)
    summary = summarise_evaluation(run(DUETS, ModelProbe("m", model, (1, 2))), draws=20)
    assert set(summary.drops) == {"m", "m, peel"}
    assert "m - m, peel" in summary.differences
    single = ModelProbe("m", model, (1, 2), single_frames=True)
    assert not any("peel" in row.name or row.kind == "solo" for row in single.rows)


def test_solo_peaks_count_the_sounds_that_are_placed_right(run: Run) -> None:
    """One source of each scene is found, the other is looked for in the first one's frame."""
    row = Row("stub, solo sounds", "solo", "stub")
    evaluation = run(DUETS, Stub(lambda view: {row.name: truths(view)[:, :1].expand(-1, 2, -1, -1)}, row))
    found = summarise_evaluation(evaluation, draws=20).solo_peaks[row.name]
    assert found["found"].value == found["chance"].value == 0.5
    right = run(TRIOS, Stub(lambda view: {row.name: truths(view)}, row), grid=(1, 3), about={"trios": True})
    summary = summarise_evaluation(right, draws=20)
    assert summary.solo_peaks[row.name]["found"].low == 1
    assert summary.solo_peaks[row.name]["chance"].value == pytest.approx(1 / 3)
    (table,) = (table for table in evaluation_tables(right, summary, "trios") if table.title.startswith("Solo"))
    assert [cell.text for cell in table.rows[0].cells] == ["100.0", "33.3"]


def test_solo_peaks_in_one_frame_must_hit_the_object(run: Run) -> None:
    row = Row("stub, solo sounds", "solo", "stub")
    hits = run(DUETS, Stub(lambda view: {row.name: truths(view)}, row), grid=(1, 1))
    assert (hits.scores[row.name].solo[:, 0] == 1).all()
    areas = [np.mean(facts.areas) for facts in hits.facts]
    np.testing.assert_allclose(hits.scores[row.name].solo[:, 1], areas)
    misses = run(DUETS, Stub(lambda view: {row.name: 1 - truths(view)}, row), grid=(1, 1), about={"misses": True})
    assert (misses.scores[row.name].solo[:, 0] == 0).all()


def test_sounds_recorded_together_have_no_solo_peak(run: Run, model: SCAV) -> None:
    class Together(Solos):
        def __getitem__(self, index: Any) -> Any:
            scene = DUETS[index]
            return replace(scene, sounds=scene.mixture[None])

    evaluation = run(Together(DUETS, range(4)), ModelProbe("m", model, (1, 2)))
    assert np.isnan(evaluation.scores["m, solo sounds"].solo).all()
    assert not summarise_evaluation(evaluation, draws=20).solo_peaks
    apart = run(DUETS, ModelProbe("m", model, (1, 2)))
    scene = DUETS[3]
    maps = [stage_one_answer(model)([replace(scene, sounds=sound[None])])[0, 0] for sound in scene.sounds]
    peaks = [np.unravel_index(int(heat.argmax()), heat.shape)[1] // SIDE for heat in maps]
    frames = [0 if mask[:, :SIDE].any() else 1 for mask in scene.masks]
    expected = np.mean([peak == frame for peak, frame in zip(peaks, frames, strict=True)])
    assert apart.scores["m, solo sounds"].solo[3, 0] == pytest.approx(expected)


def test_a_killed_run_goes_on_and_ends_the_same(run: Run, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(DUETS, Stub(perfect, stops_after=2))
    for file in (tmp_path / "scores").iterdir():
        with file.open("ab") as lines:
            lines.write(b'["4 scene 4", {"stub": {"pa')  # a line that was being written
    second = Stub(perfect)
    resumed = run(DUETS, second)
    assert second.asked == 1
    third = Stub(perfect)
    again = run(DUETS, third)
    assert third.asked == 0
    whole = run(DUETS, Stub(perfect), about={"another": "run"})
    for name, column in whole.scores["stub"].pairs.columns().items():
        assert torch.equal(resumed.scores["stub"].pairs.columns()[name], column), name
        assert torch.equal(again.scores["stub"].pairs.columns()[name], column), name
    assert resumed.facts == whole.facts


def test_other_settings_begin_anew(run: Run) -> None:
    first, second = Stub(perfect), Stub(perfect)
    run(DUETS, first)
    run(DUETS, second, preset=PRESETS["t-vsl"])
    assert first.asked == second.asked == 3


def test_the_drop_tells_who_listens(run: Run) -> None:
    rows = (Row("stub", "method", "stub"), Row("stub, audio-shuffled", "deaf", "stub"))
    listens = summarise_evaluation(run(DUETS, Stub(hearing, *rows)), draws=50)
    assert listens.scores["stub"]["ciou@0.5"].value == 1
    assert listens.drops["stub"]["ciou@0.5"].value == 1
    assert listens.drops["stub"]["ciou@0.5"].low == 1
    deaf = Stub(lambda view: dict.fromkeys(("stub", "stub, audio-shuffled"), truths(view)), *rows)
    summary = summarise_evaluation(run(DUETS, deaf, about={"deaf": True}), draws=50)
    assert summary.drops["stub"]["cap"].low == summary.drops["stub"]["cap"].high == 0


def test_trios_tell_which_frames_were_found(run: Run) -> None:
    evaluation = run(TRIOS, Stub(perfect), InputFreeProbe(Constant((1, 3), (0, 2), 25.0, "val"), 2), grid=(1, 3))
    summary = summarise_evaluation(evaluation, draws=20)
    assert [summary.frames["stub"][key].value for key in ("by_peak", "by_mass", "peak")] == [1, 1, 1]
    assert summary.frames["stub"]["chance"].value == pytest.approx(1 / 3)
    assert summary.frames["everything on"]["peak"].value == pytest.approx(2 / 3)
    titles = [table.title for table in evaluation_tables(evaluation, summary, "trios")]
    assert titles == ["trios", "Sounding frames found among silent ones"]
    assert not summarise_evaluation(run(DUETS, Stub(perfect)), draws=20).frames


def test_solos_have_one_source_and_two_frames(run: Run) -> None:
    found = run(Solos(DUETS, range(6)), Stub(lambda view: {"stub": truths(view)}))
    assert len(found.scores["stub"].pairs) == 6
    assert summarise_evaluation(found, draws=20).frames["stub"]["by_mass"].value == 1


def test_negatives(run: Run) -> None:
    def answer(view: View) -> dict[str, torch.Tensor]:
        return {"stub": truths(view), "stub, absent sound": 0.3 * truths(view)}

    rows = (Row("stub", "method", "stub"), Row("stub, absent sound", "negative", "stub"))
    evaluation = run(DUETS, Stub(answer, *rows))
    negatives = summarise_evaluation(evaluation, draws=20).negatives["stub"]
    assert negatives["auroc"].value == 1
    assert negatives["absent_lit"].value == 0
    assert negatives["absent_confidence"].value == pytest.approx(0.3)
    areas = [sum(facts.areas) for facts in evaluation.facts]
    asked = ~np.isnan(evaluation.scores["stub, absent sound"].confidence)
    assert asked.any()
    assert negatives["real_lit"].value == pytest.approx(np.mean(np.array(areas)[asked]))


def test_negatives_against_real_pairs_of_other_scenes(run: Run) -> None:
    silent = WorldScenes(World(6, (SIDE, SIDE), seconds=0.2), 4, sounding=0, silent=1)
    negative = run(silent, Stub(lambda view: {"stub": torch.full((len(view.scenes), 1, 4, 4), 0.3)}), grid=(1, 1))
    assert not len(negative.scores["stub"].pairs)
    alone = summarise_evaluation(negative, draws=20)
    assert set(alone.negatives["stub"]) == {"absent_lit", "absent_confidence"}
    assert not alone.scores

    class Drawn(Stub):
        def own(self, scenes: Any) -> torch.Tensor:
            return self.answer(View(DUETS, [], scenes))["stub"]

    real = run(DUETS, OwnProbe(Drawn(lambda view: {"stub": truths(view)})))
    found = summarise_evaluation(negative, real_pairs=real.scores, draws=20).negatives["stub"]
    assert found["auroc"].value == found["auroc"].low == 1
    assert found["real_confidence"].value == 1
    assert found["absent_confidence"].value == pytest.approx(0.3)


def test_masks_of_each_kind_are_reported_apart(run: Run) -> None:
    class Marked(Solos):
        def mask_kinds(self, index: int) -> tuple[str, ...]:
            return ("human",) if index < 4 else ("derived",)

    evaluation = run(Marked(DUETS, range(6)), Stub(lambda view: {"stub": truths(view)}))
    summary = summarise_evaluation(evaluation, draws=20)
    assert list(summary.mask_kinds) == ["derived", "human"]
    assert summary.mask_kinds["human"]["stub"]["ciou@0.5"].value == 1
    tables = evaluation_tables(evaluation, summary, "marked")
    assert "Masks: 2 derived, 4 human." in tables[0].notes


def test_the_table_tells_of_empty_truths(run: Run) -> None:
    scenes = [DUETS[number] for number in range(3)]
    scenes[1] = replace(scenes[1], masks=scenes[1].masks * np.array([[[True]], [[False]]]))
    for name, done, rows in (("scav", "left out", 5), ("t-vsl", "misses, whatever the answer", 6)):
        found = run(scenes, Stub(lambda view: {"stub": truths(view)}), preset=PRESETS[name])
        assert len(found.scores["stub"].pairs) == rows
        table = evaluation_tables(found, summarise_evaluation(found, draws=20), "empty")[0]
        assert f"Sources with an empty truth: 1, {done}." in table.notes


def test_a_map_without_a_score_is_an_error_that_names_it(run: Run) -> None:
    with pytest.raises(DataError, match="stub, scenes made-up-5-0 to made-up-5-1: A heatmap holds NaN"):
        run(DUETS, Stub(lambda view: {"stub": truths(view) * torch.nan}))


def test_a_model_of_the_wrong_shape_is_named(model: SCAV, monkeypatch: pytest.MonkeyPatch) -> None:
    proper = model.localise
    monkeypatch.setattr(
        model, "localise", lambda batch: replace(proper(batch), similarity=proper(batch).similarity[:, 0])
    )
    with pytest.raises(DataError, match="model odd answers 2 scenes with maps of shape"):
        ModelProbe("odd", model, (1, 2)).answer(View(DUETS, [0, 1], [DUETS[0], DUETS[1]]))


def test_an_empty_set_is_an_error(run: Run) -> None:
    with pytest.raises(DataError, match="no scene"):
        run(Solos(DUETS, []), Stub(perfect))


def test_frame_by_frame_calls(run: Run, model: SCAV) -> None:
    """AVGN's way: each frame alone with the mixed sound, the map of a source being that of its own frame."""
    probe = ModelProbe("m", model, (1, 2), single_frames=True)
    scenes = [DUETS[0], DUETS[1]]
    maps = probe.answer(View(DUETS, [0, 1], scenes))["m"]
    assert maps.shape[:3] == (2, 2, 2)
    right = replace(scenes[1], image=scenes[1].image[:, SIDE:])
    alone = model_answer(model)([right])
    enlarged = torch.nn.functional.interpolate(maps[1:, :, 1], (SIDE, SIDE), mode="bilinear")
    torch.testing.assert_close(enlarged, alone)
    torch.testing.assert_close(probe.own(scenes)[..., maps.shape[-1] :], maps[:, :, 1])
    found = run(DUETS, probe, preset=PRESETS["avgn"])
    assert len(found.scores["m"].pairs) == 12


def test_the_constant_is_the_best_of_all(config: Config) -> None:
    chosen = choose_constant(TRIOS, (1, 3), 2, SCAV_PRESET, "val")
    truth = torch.from_numpy(np.stack([scene.masks for scene in TRIOS]))
    scores = {
        (cells, sigma): summarise(
            frame_wise(constant_cells(SIDE, 3 * SIDE, (1, 3), sigma, cells).expand(6, -1, -1, -1), truth)
        )["auc"]
        for cells in ((0, 1), (0, 2), (1, 2))
        for sigma in SIGMAS_PX
    }
    assert scores[chosen.cells, chosen.sigma_px] == max(scores.values())
    assert "best on val" in chosen.best
    assert len(chosen.rows) == len(SIGMAS_PX)


def test_a_changed_weight_changes_the_digest(model: SCAV) -> None:
    before = weights_digest(model)
    assert weights_digest(model) == before
    with torch.no_grad():
        next(model.parameters()).flatten()[0] += 1
    assert weights_digest(model) != before


def test_a_model_of_smaller_frames_sees_smaller_pictures() -> None:
    """A made-up scene of 224 pixels is shown to a model of 128 pixels at 128: on its grid of 8 x 8 cells."""
    torch.manual_seed(0)
    model = SCAV(model_config("scav-tiny")).eval()
    scenes = WorldScenes(World(4, (224, 224)), 2)[:]
    assert ModelProbe("tiny", model).own(scenes).shape == (2, 2, 8, 8)
    assert scene_batch(scenes, scale=model_scale(model, scenes[0], (1, 1))).image.shape == (2, 3, 128, 128)
