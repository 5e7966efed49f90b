"""Boxes, polygons and warnings on the page, in a real browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from soundwhere.annotate.agreement import mask_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.annotate.project import Project

pytestmark = pytest.mark.browser

AROUND = (36, 16, 84, 64)  # the box of the first frame


@pytest.fixture
def ann(project: Project, start: Callable[..., Any], visit: Callable[..., Any]) -> Any:
    return visit(start(project.root).address, "ann")


def boxes_of(project: Project) -> Any:
    return project.store.frame(1).as_left(project.store.work(1)).boxes


def test_the_best_candidate_is_marked_and_is_key_1(ann: Any) -> None:
    page = ann.page
    scores = [float(text) for text in page.locator("[data-candidate] span").all_text_contents()]
    assert scores == sorted(scores, reverse=True)
    ann.expect(page.locator("[data-candidate='0'] b")).to_have_text("best score")
    ann.expect(page.get_by_role("button", name=f"1 best score {scores[0]:.2f}")).to_be_visible()
    # Whoever comes by Tab sees where they are, and Enter chooses there instead of going on
    page.locator("[data-candidate='1']").focus()
    page.keyboard.press("Enter")
    ann.expect(page.locator("[data-candidate='1']")).to_have_class("on")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    assert ann.complaints == []


def test_boxes_are_drawn_moved_resized_deleted_and_undone(ann: Any, project: Project) -> None:
    page, chips = ann.page, ann.page.locator("#boxes button")
    ann.press("d")
    ann.expect(page.locator(".tools [data-tool=box]")).to_have_class("on")

    # Free ground: a second box, which is chosen, and whose candidates are made
    ann.drag((100, 20), (140, 70))
    ann.expect(chips).to_have_count(2)
    ann.expect(chips.nth(1)).to_have_class("on")
    ann.saved()
    ann.ready()
    assert boxes_of(project)[1] == pytest.approx((100, 20, 140, 70), abs=0.6)

    # Its inside moves it, but not out of the picture; its corner and its edge resize it
    ann.drag((120, 45), (145, 50))
    ann.saved()
    assert boxes_of(project)[1] == pytest.approx((110, 25, 150, 75), abs=0.6)
    ann.drag((110, 25), (105, 15))
    ann.saved()
    assert boxes_of(project)[1] == pytest.approx((105, 15, 150, 75), abs=0.6)
    ann.drag((105, 45), (95, 45))
    ann.saved()
    ann.keep_picture("boxes")
    assert boxes_of(project) == (pytest.approx(AROUND), pytest.approx((95, 15, 150, 75), abs=0.6))

    # A click chooses; Delete deletes; a drag of a pixel or two does nothing
    ann.click(60, 40)
    ann.expect(chips.nth(0)).to_have_class("on")
    events = len(project.store.events())
    ann.press("Delete")
    ann.expect(chips).to_have_count(1)
    ann.saved()
    assert boxes_of(project) == (pytest.approx((95, 15, 150, 75), abs=0.6),)
    ann.press("z")
    ann.expect(chips).to_have_count(2)
    ann.saved()
    assert len(project.store.events()) == events + 2

    # Candidates belong to the box as it is: the disc is found in the first, and choosing still works
    ann.ready()
    ann.press("Escape", "1")
    ann.saved()
    ann.confirm(1)
    rows, columns = np.mgrid[:100, :150]
    disc = np.hypot(rows - 40, columns - 60) <= 22
    mask = mask_of(project.store.work(1), (100, 150))
    assert (mask & disc).sum() / (mask | disc).sum() > 0.8

    # After a reload all is as it was; undo goes back to the boxes the frame came with
    page.reload()
    ann.ready()
    ann.expect(chips).to_have_count(2)
    for _ in range(6):
        ann.press("z")
        ann.saved()
    ann.expect(chips).to_have_count(1)
    ann.expect(page.locator("[data-action=undo]")).to_be_disabled()
    assert boxes_of(project) == (pytest.approx(AROUND),)
    assert [event.kind for event in project.store.events(1)].count("boxes") == 5
    assert ann.complaints == []


def test_a_polygon_becomes_a_mask_with_a_warning_where_it_leaves_its_box(ann: Any, project: Project) -> None:
    page, warning = ann.page, ann.page.locator("#doubts")
    ann.press("g")
    for corner in ((40, 20), (80, 20), (80, 60), (20, 80)):
        ann.click(*corner)
    ann.press("Backspace")  # that corner was a slip
    ann.click(40, 60)
    page.mouse.move(*ann.at(45, 40))
    ann.keep_picture("polygon-open")
    ann.press("Space")
    ann.expect(page.locator("#toast")).to_contain_text("Enter closes the polygon first")
    ann.press("Enter")
    ann.saved()
    ann.expect(warning).to_be_hidden()
    # A hole, begun with the right button and closed on its first corner
    for corner in ((50, 30), (70, 30), (70, 50), (50, 50), (50, 30)):
        ann.click(*corner, "right")
    ann.saved()
    ann.confirm(1)
    mask = mask_of(project.store.work(1), (100, 150))
    assert mask.sum() == pytest.approx(1600 - 400, abs=60)
    assert mask[25, 45]
    assert not mask[40, 60]

    # Half outside the box; then most of the picture
    for corner in ((60, 30), (110, 30), (110, 60), (60, 60)):
        ann.click(*corner)
    ann.press("Enter")
    ann.expect(warning).to_have_text(re.compile(r"^5\d % of this mask lies outside its box$"))
    ann.keep_picture("polygon-outside")
    ann.press("r")
    ann.expect(warning).to_be_hidden()
    for corner in ((5, 5), (145, 5), (145, 95), (5, 95)):
        ann.click(*corner)
    ann.press("Enter")
    ann.expect(warning).to_contain_text("this mask covers 8")
    ann.saved()
    ann.confirm(2)
    ann.expect(page.locator("#objects .odd")).to_have_text("object 2 ⚠")
    ann.expect(warning).to_contain_text("object 2 covers")

    # Esc drops the corners, and what was dropped is not saved
    events = len(project.store.events())
    ann.click(10, 10)
    ann.click(30, 10)
    ann.press("Escape", "Enter")
    ann.expect(page.locator("#name")).not_to_have_text("clip_000000")
    assert [event.kind for event in project.store.events()][events:] == ["done"]
    assert len(project.store.task(1).doubts) == 2
    assert ann.complaints == []


def test_boxes_that_somebody_else_changed_meanwhile_are_shown_and_kept(ann: Any, project: Project) -> None:
    project.store.release(1, "ann")
    project.store.append(1, "bob", "boxes", {"boxes": [[5, 5, 50, 50], [60, 20, 120, 90]]}, base=0)
    project.store.release(1, "bob")
    ann.press("d")
    ann.drag((100, 20), (140, 70))
    ann.expect(ann.page.locator("#banner")).to_contain_text("bob changed this frame")
    ann.expect(ann.page.locator("#boxes button")).to_have_count(2)
    assert len(project.store.events()) == 1
    ann.drag((130, 5), (148, 40))
    ann.saved()
    assert [len(event.body["boxes"]) for event in project.store.events()] == [2, 3]
    assert ann.complaints == []
