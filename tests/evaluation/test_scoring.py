"""What is kept of every scene, and that a run goes on where it was; what a summary and the tables say of it."""

from __future__ import annotations

from dataclasses import replace
from time import sleep
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from soundwhere import cores
from soundwhere.data.selection import Solos
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import DataError
from soundwhere.evaluation.answerers import Answer, InputFreeAnswerer
from soundwhere.evaluation.constant import Blobs, Constant
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.scoring import Evaluation, evaluate
from soundwhere.evaluation.summary import summarise_evaluation
from soundwhere.evaluation.tables import evaluation_tables
from soundwhere.metrics.baselines import constant_cells
from soundwhere.metrics.presets import PRESETS, score

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soundwhere.evaluation.answerers import Answerer
    from soundwhere.evaluation.reading import View
    from soundwhere.evaluation.rows import Kind
    from soundwhere.methods.scav.model import SCAV

    Run = Callable[..., Evaluation]

SIDE = 64
SCAV_PRESET = PRESETS["scav"]
DUETS = WorldScenes(World(5, (SIDE, 2 * SIDE), seconds=0.2), 6, silent=0, layout="side-by-side")
TRIOS = WorldScenes(World(5, (SIDE, 3 * SIDE), seconds=0.2), 6, silent=1, layout="side-by-side")
CONSTANT = Constant(Blobs((1, 2), (0, 1), 25.0), "val")
STUB = Row("stub")
SOLO = Row("stub", answer="solo sounds")


class Stub:
    """Answers with whatever functions say, and counts how often it is asked."""

    label = "stub"

    def __init__(self, answers: dict[Row, Callable[[View], torch.Tensor]], *kinds: Kind, stops_after: int = 99) -> None:
        self.rows = dict(zip(answers, kinds or ("method",), strict=True))
        self.identity: dict[str, Any] = {"stub": list(map(str, self.rows))}
        self.asked = 0
        self._answers, self._stops_after = answers, stops_after

    def answer(self, view: View) -> dict[Row, Answer]:
        if self.asked == self._stops_after:
            raise KeyboardInterrupt
        self.asked += 1
        return {row: Answer(answer(view)) for row, answer in self._answers.items()}


def truths(view: View) -> torch.Tensor:
    return view.truth.float()


def perfect(**options: Any) -> Stub:
    return Stub({STUB: lambda view: truths(view).flip(1)}, **options)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def go(scenes: Any, *asked: Answerer, grid: tuple[int, int] = (1, 2), **options: Any) -> Evaluation:
        names = [f"scene {number}" for number in range(len(scenes))]
        arguments = {"preset": SCAV_PRESET, "about": {}, "batch": 2, **options}
        preset = arguments.pop("preset")
        return evaluate(scenes, names, asked, preset, grid, tmp_path / "scores", **arguments)

    return go


def test_streaming_gives_what_scoring_at_once_gives(run: Run, network: SCAV) -> None:
    asked = NetworkAnswerer("tiny", network, (1, 2), negatives=True)
    found = run(DUETS, asked, InputFreeAnswerer(CONSTANT.rows, 2))
    truth = torch.from_numpy(np.stack([scene.masks for scene in DUETS]))
    maps = torch.nn.functional.interpolate(asked.own(list(DUETS)), (SIDE, 2 * SIDE), mode="bilinear")
    expected = score(maps, truth, PRESETS["scav"])
    pairs = found.scores[Row("tiny")].pairs
    assert pairs.scene.tolist() == expected.scene.tolist()  # in the order of the list, whatever was read first
    torch.testing.assert_close(pairs.iou, expected.iou, atol=1e-3, rtol=0)
    torch.testing.assert_close(pairs.ap, expected.ap, atol=1e-3, rtol=0)
    blobs = constant_cells(SIDE, 2 * SIDE, (1, 2), 25.0).expand(len(DUETS), -1, -1, -1)
    assert torch.equal(found.scores[CONSTANT.best].pairs.iou, score(blobs, truth, PRESETS["scav"]).iou)
    assert found.facts[0].areas == tuple(float(mask.mean()) for mask in DUETS[0].masks)
    assert found.facts[0].level_difference_db == 0
    left, right = found.facts[0].columns
    assert left is not None
    assert right is not None
    assert left < SIDE < right


def test_confidences_are_kept_for_every_control(run: Run, network: SCAV) -> None:
    rows = [Row("m"), Row("m", "shuffled"), Row("m", "absent")]
    asked = NetworkAnswerer("m", network, (1, 2), rows=rows)
    found = run(DUETS, asked, measures=("light",)).scores
    assert all(not len(found[row].pairs) for row in rows)  # nobody asked for them
    for row in rows[:2]:
        scores = found[row]
        assert scores.sure.shape == (6, 2)
        np.testing.assert_allclose(scores.sure.max(1), scores.confidence, atol=1e-6)  # of maps that are not shaped
    assert not np.allclose(found[rows[0]].sure, found[rows[1]].sure)


def test_peel_and_its_drop(run: Run, network: SCAV) -> None:
    summary = summarise_evaluation(run(DUETS, NetworkAnswerer("m", network, (1, 2))), draws=20)
    assert set(summary.drops) == {Row("m"), Row("m", answer="peel")}
    assert (Row("m"), Row("m", answer="peel")) in summary.differences
    assert "m - m, peel" in summary.as_json()["differences"]


def test_solo_peaks_count_the_sounds_that_are_placed_right(run: Run) -> None:
    """One source of each scene is found, the other is looked for in the first one's frame."""
    first = Stub({SOLO: lambda view: truths(view)[:, :1].expand(-1, 2, -1, -1)}, "solo")
    found = summarise_evaluation(run(DUETS, first), draws=20).solo_peaks[SOLO]
    assert found["found"].value == found["chance"].value == 0.5
    right = run(TRIOS, Stub({SOLO: truths}, "solo"), grid=(1, 3), about={"trios": True})
    summary = summarise_evaluation(right, draws=20)
    assert summary.solo_peaks[SOLO]["found"].low == 1
    assert summary.solo_peaks[SOLO]["chance"].value == pytest.approx(1 / 3)
    (table,) = (table for table in evaluation_tables(right, summary, "trios") if table.title.startswith("Solo"))
    assert [cell.text for cell in table.cells[0]] == ["stub, solo sounds", "solo", "100.0", "33.3"]


def test_solo_peaks_in_one_frame_must_hit_the_object(run: Run) -> None:
    hits = run(DUETS, Stub({SOLO: truths}, "solo"), grid=(1, 1))
    assert (hits.scores[SOLO].solo[:, 0] == 1).all()
    areas = [np.mean(facts.areas) for facts in hits.facts]
    np.testing.assert_allclose(hits.scores[SOLO].solo[:, 1], areas)
    misses = run(DUETS, Stub({SOLO: lambda view: 1 - truths(view)}, "solo"), grid=(1, 1), about={"misses": True})
    assert (misses.scores[SOLO].solo[:, 0] == 0).all()


def test_sounds_recorded_together_have_no_solo_peak(run: Run, network: SCAV) -> None:
    class Together(Solos):
        def __getitem__(self, index: Any) -> Any:
            scene = DUETS[index]
            return replace(scene, sounds=scene.mixture[None])

    evaluation = run(Together(DUETS, range(4)), NetworkAnswerer("m", network, (1, 2)))
    assert np.isnan(evaluation.scores[Row("m", answer="solo sounds")].solo).all()
    assert all(facts.level_difference_db is None for facts in evaluation.facts)
    assert not summarise_evaluation(evaluation, draws=20).solo_peaks


def test_a_killed_run_goes_on_and_ends_the_same(run: Run, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(DUETS, perfect(stops_after=2))
    for file in (tmp_path / "scores").iterdir():
        with file.open("ab") as lines:
            lines.write(b'["4 scene 4", {"stub": {"pa')  # a line that was being written
    second = perfect()
    resumed = run(DUETS, second)
    assert second.asked == 1
    third = perfect()
    again = run(DUETS, third)
    assert third.asked == 0
    whole = run(DUETS, perfect(), about={"another": "run"})
    for name, column in whole.scores[STUB].pairs.columns().items():
        assert torch.equal(resumed.scores[STUB].pairs.columns()[name], column), name
        assert torch.equal(again.scores[STUB].pairs.columns()[name], column), name
    assert resumed.facts == whole.facts


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_score_as_one_does(
    network: SCAV, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    def lines(count: int) -> dict[str, bytes]:
        monkeypatch.setattr(cores, "cores", lambda: count)
        names = [f"scene {number}" for number in range(len(TRIOS))]
        asked = [NetworkAnswerer("tiny", network, (1, 3), maps=2, negatives=True), InputFreeAnswerer(CONSTANT.rows, 2)]
        evaluate(TRIOS, names, asked, SCAV_PRESET, (1, 3), tmp_path / str(count), batch=2)
        return {path.name: path.read_bytes() for path in (tmp_path / str(count)).iterdir()}

    assert lines(threads) == lines(1)


def test_an_interruption_does_not_wait_until_everybody_was_asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(view: View) -> torch.Tensor:
        if 0 in view.numbers:
            raise KeyboardInterrupt
        sleep(0.5)  # in another thread, long enough for the interruption to be noticed
        return truths(view)

    monkeypatch.setattr(cores, "cores", lambda: 2)
    later = perfect()
    with pytest.raises(KeyboardInterrupt):
        run(DUETS, Stub({STUB: slow}), later)
    assert later.asked == 0


def test_other_settings_begin_anew_and_nothing_is_kept_without_a_folder(run: Run, tmp_path: Path) -> None:
    first, second, third = perfect(), perfect(), perfect()
    run(DUETS, first)
    run(DUETS, second, preset=PRESETS["t-vsl"])
    assert first.asked == second.asked == 3
    evaluate(DUETS, list("abcdef"), [third], SCAV_PRESET, (1, 2), batch=2)
    assert third.asked == 3
    assert [path.name for path in tmp_path.iterdir()] == ["scores"]


def test_the_drop_tells_who_listens(run: Run) -> None:
    """Perfect with its own sound; with another's it points at nothing that is there."""
    shuffled = STUB.under("shuffled")
    hearing = Stub({STUB: truths, shuffled: lambda view: 1 - truths(view)}, "method", "deaf")
    listens = summarise_evaluation(run(DUETS, hearing), draws=50)
    assert listens.scores[STUB]["ciou@0.5"].value == 1
    assert listens.drops[STUB]["ciou@0.5"].value == 1
    assert listens.drops[STUB]["ciou@0.5"].low == 1
    deaf = Stub(dict.fromkeys((STUB, shuffled), truths), "method", "deaf")
    summary = summarise_evaluation(run(DUETS, deaf, about={"deaf": True}), draws=50)
    assert summary.drops[STUB]["cap"].low == summary.drops[STUB]["cap"].high == 0


def test_trios_tell_which_frames_were_found(run: Run) -> None:
    constant = Constant(Blobs((1, 3), (0, 2), 25.0), "val")
    evaluation = run(TRIOS, perfect(), InputFreeAnswerer(constant.rows, 2), grid=(1, 3))
    summary = summarise_evaluation(evaluation, constant, draws=20)
    assert [summary.frames[STUB][key].value for key in ("by_peak", "by_mass", "peak")] == [1, 1, 1]
    assert summary.frames[STUB]["chance"].value == pytest.approx(1 / 3)
    assert summary.frames[Row(answer="everything on")]["peak"].value == pytest.approx(2 / 3)
    constants = [row for row in summary.frames if row in constant.rows]
    assert constants == [constant.best]  # the other widths are in the main table only
    titles = [table.title for table in evaluation_tables(evaluation, summary, "trios")]
    assert titles == ["trios", "Sounding frames found among silent ones", "Paired differences"]
    assert not summarise_evaluation(run(DUETS, perfect()), draws=20).frames


def test_solos_have_one_source_and_two_frames(run: Run) -> None:
    found = run(Solos(DUETS, range(6)), Stub({STUB: truths}))
    assert len(found.scores[STUB].pairs) == 6
    assert summarise_evaluation(found, draws=20).frames[STUB]["by_mass"].value == 1


def test_negatives(run: Run) -> None:
    absent = STUB.under("absent")
    evaluation = run(DUETS, Stub({STUB: truths, absent: lambda view: 0.3 * truths(view)}, "method", "negative"))
    negatives = summarise_evaluation(evaluation, draws=20).negatives[STUB]
    assert negatives["auroc"].value == 1
    assert negatives["absent_lit"].value == 0
    assert negatives["absent_confidence"].value == pytest.approx(0.3)
    areas = [sum(facts.areas) for facts in evaluation.facts]
    asked = ~np.isnan(evaluation.scores[absent].confidence)
    assert asked.any()
    assert negatives["real_lit"].value == pytest.approx(np.mean(np.array(areas)[asked]))
    assert not len(evaluation.scores[absent].pairs)


def test_negatives_against_real_pairs_of_other_scenes(run: Run) -> None:
    silent = WorldScenes(World(6, (SIDE, SIDE), seconds=0.2), 4, sounding=0, silent=1)
    dark = Stub({STUB: lambda view: torch.full((len(view.scenes), 1, 4, 4), 0.3)})
    negative = run(silent, dark, grid=(1, 1))
    assert not len(negative.scores[STUB].pairs)
    alone = summarise_evaluation(negative, draws=20)
    assert set(alone.negatives[STUB]) == {"absent_lit", "absent_confidence"}
    assert not alone.scores
    real = run(DUETS, Stub({STUB: truths}))
    found = summarise_evaluation(negative, real_pairs=real.scores, draws=20).negatives[STUB]
    assert found["auroc"].value == found["auroc"].low == 1
    assert found["real_confidence"].value == 1
    assert found["absent_confidence"].value == pytest.approx(0.3)


def test_masks_of_each_kind_are_reported_apart(run: Run) -> None:
    class Marked(Solos):
        def mask_kinds(self, index: int) -> tuple[str, ...]:
            return ("human",) if index < 4 else ("derived",)

    evaluation = run(Marked(DUETS, range(6)), Stub({STUB: truths}))
    summary = summarise_evaluation(evaluation, draws=20)
    assert list(summary.mask_kinds) == ["derived", "human"]
    assert summary.mask_kinds["human"][STUB]["ciou@0.5"].value == 1
    tables = evaluation_tables(evaluation, summary, "marked")
    assert "Masks: 2 derived, 4 human." in tables[0].notes


def test_the_table_tells_of_empty_truths(run: Run) -> None:
    scenes = [DUETS[number] for number in range(3)]
    scenes[1] = replace(scenes[1], masks=scenes[1].masks * np.array([[[True]], [[False]]]))
    for name, done, rows in (("scav", "left out", 5), ("t-vsl", "misses, whatever the answer", 6)):
        found = run(scenes, Stub({STUB: truths}), preset=PRESETS[name])
        assert len(found.scores[STUB].pairs) == rows
        table = evaluation_tables(found, summarise_evaluation(found, draws=20), "empty")[0]
        assert f"Sources with an empty truth: 1, {done}." in table.notes


def test_a_map_without_a_score_is_an_error_that_names_it(run: Run) -> None:
    with pytest.raises(DataError, match="stub, scenes made-up-5-0 to made-up-5-1: A heatmap holds NaN"):
        run(DUETS, Stub({STUB: lambda view: truths(view) * torch.nan}))


def test_an_empty_set_is_an_error(run: Run) -> None:
    with pytest.raises(DataError, match="no scene"):
        run(Solos(DUETS, []), perfect())
