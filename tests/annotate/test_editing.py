"""Boxes, polygons and warnings, as the server keeps them."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from soundwhere.annotate.doubts import mask_doubts
from soundwhere.annotate.export import export
from soundwhere.annotate.masking import Masker, painted
from soundwhere.annotate.segmenter.protocol import Candidate, ranked
from soundwhere.annotate.segmenter.simple import SimpleSegmenter
from soundwhere.annotate.server import make_app
from soundwhere.annotate.store import Store
from soundwhere.data.annotation.rle import decode_rle

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.annotate.project import Project

NONE: dict[str, Any] = {"box": None, "candidate": None, "points": [], "strokes": []}
AROUND = [36.0, 16.0, 84.0, 64.0]  # the disc of the first frame, and 2 pixels more
SQUARE = [[50, 30], [70, 30], [70, 50], [50, 50]]


@pytest.fixture
def client(project: Project) -> TestClient:
    return TestClient(make_app([project], SimpleSegmenter()), base_url="http://127.0.0.1:8765")


@pytest.fixture
def ann(client: TestClient, caller: Any) -> Any:
    return caller(client, "ann")


def filled(*points: list[float], add: bool = True) -> dict[str, Any]:
    return {"points": list(points), "fill": True, "add": add}


def test_the_best_score_comes_first_and_equals_stay_as_they_came() -> None:
    candidates = [Candidate(np.full((1, 1), bool(n % 2)), score) for n, score in enumerate((0.2, 0.9, 0.2, 0.95))]
    assert [candidate.score for candidate in ranked(candidates)] == [0.95, 0.9, 0.2, 0.2]
    assert ranked(candidates)[2:] == [candidates[0], candidates[2]]


def test_key_1_is_the_best_score_whatever_the_segmenter_says_first(ann: Any, project: Project) -> None:
    class Backwards(SimpleSegmenter):
        name = "backwards"

        def propose(self, embedding: Any, box: Any) -> list[Candidate]:
            three = super().propose(embedding, box)
            return [Candidate(one.mask, score) for one, score in zip(three, (0.1, 0.5, 0.9), strict=True)]

    frame = project.store.frame(1)
    segmenter = Backwards()
    masker = Masker(project, segmenter)
    ((first, second, third),) = masker.candidates(frame)
    assert [first["score"], second["score"], third["score"]] == [0.9, 0.5, 0.1]
    last = segmenter.propose(masker.embedding(frame), frame.boxes[0])[2]
    assert (decode_rle(first["mask"]) == last.mask).all()
    (shown,) = ann.get("/api/tasks/1/candidates").json()["candidates"]
    assert [one["score"] for one in shown] == sorted((one["score"] for one in shown), reverse=True)


def test_boxes_are_drawn_moved_and_deleted_and_undone(ann: Any, project: Project, tmp_path: Path) -> None:
    view = ann.post("/api/tasks/1/open").json()
    assert view["frame"]["boxes"] == [pytest.approx(AROUND)]
    moved, second = [40, 18, 90, 70], [100, 10, 140, 60]
    revision = 0
    for boxes in ([AROUND, second], [moved, second], [second], []):
        answer = ann.decide(1, "boxes", revision, boxes=boxes).json()
        revision = answer["saved"]
        assert answer["view"]["frame"]["boxes"] == [pytest.approx(box) for box in boxes]
        assert len(ann.get("/api/tasks/1/candidates").json()["candidates"]) == len(boxes)
    assert answer["view"]["state"] == "begun"
    for boxes in ([second], [moved, second], [AROUND, second], [AROUND]):
        answer = ann.decide(1, "undo", revision).json()
        revision = answer["saved"]
        assert answer["view"]["frame"]["boxes"] == [pytest.approx(box) for box in boxes]
    assert (answer["view"]["state"], answer["view"]["redoable"]) == ("todo", "boxes")
    revision = ann.decide(1, "redo", revision).json()["saved"]
    kinds = [event.kind for event in Store(project.store.path).events(1)]
    assert kinds == ["boxes"] * 4 + ["undo"] * 4 + ["redo"]

    # What is exported has the boxes that were left; the frame keeps those that it came with
    revision = ann.decide(1, "prompt", revision, prompts={**NONE, "box": 0, "candidate": 0}).json()["saved"]
    revision = ann.decide(1, "object", revision).json()["saved"]
    assert ann.decide(1, "done", revision).status_code == 200
    card = export(project, tmp_path / "set")
    (entry,) = json.loads((tmp_path / "set" / "vggss.json").read_text())
    assert np.array(entry["bbox"]) * [150, 100, 150, 100] == pytest.approx(np.array([AROUND, second]))
    assert card["boxes_changed"] == 1
    assert project.store.frame(1).boxes == (pytest.approx(AROUND),)


def test_a_box_that_changes_has_candidates_of_its_own_and_drops_those_of_before(ann: Any) -> None:
    before = ann.get("/api/tasks/1/candidates").json()["candidates"][0]
    revision = ann.decide(1, "prompt", 0, prompts={**NONE, "box": 0, "candidate": 1}).json()["saved"]
    answer = ann.decide(1, "boxes", revision, boxes=[[100, 60, 140, 95]]).json()
    assert (answer["view"]["mask"], answer["view"]["draft"]) == (None, {})
    after = ann.get("/api/tasks/1/candidates").json()["candidates"][0]
    assert not (decode_rle(before[0]["mask"]) & decode_rle(after[0]["mask"])).any()
    answer = ann.decide(1, "undo", answer["saved"]).json()
    assert answer["view"]["mask"] == before[1]["mask"]

    # What does not hang on a box stays
    revision = ann.decide(1, "prompt", answer["saved"], prompts={**NONE, "strokes": [filled(*SQUARE)]}).json()["saved"]
    answer = ann.decide(1, "boxes", revision, boxes=[]).json()
    assert decode_rle(answer["view"]["mask"]).sum() == 400


@pytest.mark.parametrize(
    "boxes",
    [
        None,
        [[1, 2, 3]],
        [[10, 10, 12, 40]],
        [[40, 10, 10, 40]],
        [[-1, 10, 30, 40]],
        [[10, 10, 151, 40]],
        [[10, 10, "30", 40]],
        [[10, 10, None, 40]],
        ["abcd"],
        [[0, 0, 50, 50]] * 51,
    ],
)
def test_boxes_that_are_none_are_refused_and_nothing_is_saved(ann: Any, project: Project, boxes: Any) -> None:
    answer = ann.decide(1, "boxes", 0, boxes=boxes)
    assert answer.status_code == 400
    assert "boxes are not valid" in answer.json()["error"]
    assert project.store.events() == []


def test_two_people_never_overwrite_each_others_boxes(
    ann: Any, client: TestClient, caller: Any, project: Project
) -> None:
    bob = caller(client, "bob")
    ann.post("/api/tasks/1/open")
    assert bob.decide(1, "boxes", 0, boxes=[]).status_code == 409  # it is with ann
    ann.decide(1, "boxes", 0, boxes=[[0, 0, 50, 50], [60, 60, 100, 90]])
    ann.post("/api/tasks/1/release")
    # Bob still sees one box: neither his boxes nor his choice of a candidate go through
    assert bob.decide(1, "prompt", 0, prompts={**NONE, "box": 5, "candidate": 0}).status_code == 409
    answer = bob.decide(1, "boxes", 0, boxes=[])
    assert answer.status_code == 409
    assert "ann changed this frame" in answer.json()["error"]
    assert len(answer.json()["view"]["frame"]["boxes"]) == 2
    assert len(project.store.events()) == 1


def test_a_polygon_fills_what_is_inside_its_corners() -> None:
    empty = np.zeros((100, 150), bool)
    y, x = np.mgrid[:100, :150] + 0.5  # middles of pixels
    square = painted(empty, [[50, 30], [70, 30], [70, 50], [50, 50]], None, True)
    assert (square == ((x > 50) & (x < 70) & (y > 30) & (y < 50))).all()
    corners = [[20.0, 10.0], [120.0, 40.0], [40.0, 90.0]]
    triangle = painted(empty, corners, None, True)
    sides = [
        (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True)
    ]
    assert (triangle == np.all([side > 0 for side in sides], axis=0)).all()


def test_polygons_and_strokes_count_in_the_order_they_were_drawn(ann: Any, project: Project) -> None:
    hole = filled([55, 35], [65, 35], [65, 45], [55, 45], add=False)
    stroke = {"points": [[60, 40]], "radius": 2, "add": True}
    sizes, revision = [], 0
    for strokes in (
        [filled(*SQUARE)],
        [filled(*SQUARE), hole],
        [filled(*SQUARE), hole, stroke],
        [hole, filled(*SQUARE)],
    ):
        answer = ann.decide(1, "prompt", revision, prompts={**NONE, "strokes": strokes}).json()
        revision = answer["saved"]
        sizes.append(int(decode_rle(answer["view"]["mask"]).sum()))
    assert sizes[0] == sizes[3] == 400
    assert sizes[1] == 300
    assert 300 < sizes[2] < 330
    answer = ann.decide(1, "undo", revision).json()
    assert decode_rle(answer["view"]["mask"]).sum() == sizes[2]
    answer = ann.decide(1, "object", answer["saved"]).json()
    assert project.store.work(1).objects[0]["prompts"]["strokes"][1]["fill"] is True
    for wrong in (
        filled([1, 1], [2, 2]),
        filled([1, 1], [1, 1], [2, 2]),
        {**filled(*SQUARE), "fill": "yes"},
        {**filled(*SQUARE), "add": 1},
        filled(*SQUARE, [151, 5]),
    ):
        refused = ann.decide(1, "prompt", answer["saved"], prompts={**NONE, "strokes": [wrong]})
        assert refused.status_code == 400
    assert len(project.store.events()) == 6


def test_a_mask_is_doubted_that_leaves_its_box_or_covers_most_of_the_picture() -> None:
    mask = np.zeros((100, 100), bool)
    mask[10:20, 10:20] = True
    assert mask_doubts(mask, [(10, 10, 18, 20)]) == []  # a fifth outside is not more than a fifth
    assert mask_doubts(mask, [(10, 10, 17, 20)]) == ["30 % of this mask lies outside its box"]
    assert mask_doubts(mask, [(50, 50, 90, 90), (10, 10, 20, 20)]) == []
    assert mask_doubts(mask, []) == []
    assert mask_doubts(np.zeros((4, 4), bool), [(0, 0, 1, 1)]) == []
    mask[:51] = True
    assert mask_doubts(mask, [(0, 0, 100, 100)], "object 1") == ["object 1 covers 51 % of the picture"]
    assert len(mask_doubts(mask, [(0, 0, 10, 10)])) == 2


def test_doubts_are_told_while_drawing_and_kept_for_reviewers(ann: Any, project: Project) -> None:
    outside = filled([60, 20], [120, 20], [120, 60], [60, 60])
    answer = ann.decide(1, "prompt", 0, prompts={**NONE, "strokes": [outside]}).json()
    assert answer["view"]["doubts"] == ["60 % of this mask lies outside its box"]
    answer = ann.decide(1, "object", answer["saved"]).json()
    assert answer["view"]["object_doubts"] == [["60 % of object 1 lies outside its box"]]
    assert project.store.task(1).doubts == ()
    answer = ann.decide(1, "done", answer["saved"]).json()
    assert project.store.task(1).doubts == ("60 % of object 1 lies outside its box",)
    # The box was wrong, not the mask
    answer = ann.decide(1, "boxes", answer["saved"], boxes=[[55, 15, 125, 65]]).json()
    assert answer["view"]["object_doubts"] == [[]]
    ann.decide(1, "done", answer["saved"])
    assert project.store.task(1).doubts == ()
    before = project.store.task(1)
    project.store.rebuild()
    assert project.store.task(1) == before


def test_projects_of_before_are_opened(tmp_path: Path, store: Store) -> None:
    """Without the columns that came later, and with a token given when there were no roles."""
    token = store.people.invite("ann")
    with sqlite3.connect(store.path) as connection:
        connection.execute("ALTER TABLE tasks DROP COLUMN doubts")
        connection.execute("ALTER TABLE annotators DROP COLUMN role")
    opened = Store(store.path)
    person = opened.people.find("ann", token)
    assert person is not None
    assert person.role == "reviewer"  # which is what everybody could do
    assert [task.doubts for task in opened.tasks()] == [()] * 4
