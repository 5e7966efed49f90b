"""What people do on the page, in a real browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from soundwhere.annotate.agreement import mask_iou, mask_of
from soundwhere.annotate.project import Project, initialise
from soundwhere.data.benchmarks.media import MediaFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.browser


def disc(project: Project, name: str) -> np.ndarray:
    frame = next(frame for frame in project.store.frames() if frame.name == name)
    return project.picture(frame)[..., 0] > 150


def middle(mask: np.ndarray) -> tuple[float, float]:
    row, column = (float(place.mean()) for place in np.nonzero(mask))
    return column, row


def work_of(project: Project, name: str) -> Any:
    store = project.store
    frame = next(frame for frame in store.frames() if frame.name == name)
    return store.work(next(task.id for task in store.tasks() if task.frame == frame.id))


def jump(person: Any, name: str) -> None:
    person.page.fill("#jump", name)
    person.press("Enter")
    person.expect(person.page.locator("#name")).to_have_text(name)
    person.ready()


def red_at(person: Any, x: float, y: float, opacity: int) -> int:
    """How red the large picture is at a pixel of the frame with the slider for opacity at a place."""
    box = person.page.locator("#stage").bounding_box()
    left, top = person.at(x, y)
    script = """async ([x, y, opacity]) => {
        const slider = document.getElementById("opacity");
        slider.value = opacity;
        slider.dispatchEvent(new Event("input"));
        for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
        return document.getElementById("stage").getContext("2d").getImageData(x, y, 1, 1).data[0];
    }"""
    return int(person.page.evaluate(script, [round(left - box["x"]), round(top - box["y"]), opacity]))


def test_candidates_points_undo_and_a_killed_server(
    project: Project, start: Callable[..., Any], visit: Callable[..., Any]
) -> None:
    server = start(project.root)
    ann = visit(server.address, "ann")

    # A candidate that fits
    first = ann.name()
    ann.expect(ann.page.locator("#kind")).to_have_text("dog barking")
    ann.press("2")
    ann.expect(ann.page.locator("[data-candidate='1']")).to_have_class("on")
    ann.confirm(1)
    ann.leave()
    work = work_of(project, first)
    assert (work.state, work.objects[0]["prompts"]["candidate"]) == ("done", 1)
    assert mask_iou(mask_of(work, (100, 150)), disc(project, first)) > 0.85

    # No candidate fits: points, one of them wrong and undone; then a second object by brush
    second = ann.name()
    x, y = middle(disc(project, second))
    ann.click(x, y)
    ann.saved()
    ann.click(4, 4)
    ann.saved()
    ann.press("z")
    ann.expect(ann.page.locator("[data-action=redo]")).to_be_enabled()
    assert len(work_of(project, second).draft["points"]) == 1
    ann.click(4, 96, "right")
    ann.confirm(1)
    ann.press("b")
    ann.click(8, 8)
    ann.saved()
    ann.confirm(2)
    work = work_of(project, second)
    assert [label for *_, label in work.objects[0]["prompts"]["points"]] == [1, 0]
    assert mask_iou(mask_of(work, (100, 150))[20:], disc(project, second)[20:]) > 0.8
    assert mask_of(work, (100, 150))[8, 8]

    # The server dies and comes back, the page is loaded again: all is there, and can still be undone
    server.kill()
    start(project.root, server.port)
    ann.page.reload()
    ann.ready()
    assert ann.name() == second
    ann.objects(2)
    ann.press("z")
    ann.objects(1)
    ann.press("Shift+Z")
    ann.objects(2)
    ann.saved()
    ann.leave("Enter")

    # Cannot tell, with a reason; then nothing but the last is left
    third = ann.name()
    ann.press("x")
    ann.expect(ann.page.locator("#reason")).to_be_visible()
    ann.leave("1")
    assert (work_of(project, third).state, work_of(project, third).reason) == ("unsure", "The source is not in view")
    ann.press("1")
    ann.confirm(1)
    ann.press("c")
    ann.objects(0)
    ann.saved()
    ann.press("z")
    ann.objects(1)
    ann.leave()
    ann.expect(ann.page.locator("#kind")).to_have_text("You are done")
    assert ann.complaints == []


def test_a_click_is_answered_at_once_and_survives_a_dead_server(
    project: Project, start: Callable[..., Any], visit: Callable[..., Any]
) -> None:
    server = start(project.root)
    ann = visit(server.address, "ann")
    name = ann.name()
    server.kill()
    ann.press("2")
    ann.expect(ann.page.locator("[data-candidate='1']")).to_have_class("on")
    ann.expect(ann.page.locator("#saved")).to_have_text("no connection, trying again")
    assert work_of(project, name).revision == 0
    start(project.root, server.port)
    ann.saved()
    assert work_of(project, name).draft["candidate"] == 1
    assert len(project.store.events()) == 1


def test_without_a_token_there_is_nothing_to_press(
    project: Project, start: Callable[..., Any], visit: Callable[..., Any]
) -> None:
    project.store.people.invite("ann")
    mallory = visit(start(project.root).address, "mallory", wait=False)
    mallory.expect(mallory.page.locator("#banner")).to_contain_text("no valid token")
    for control in mallory.page.locator("#strip, #tools, #task").all():
        mallory.expect(control).to_be_hidden()


def test_two_annotators_conflict_and_review(
    project: Project, start: Callable[..., Any], visit: Callable[..., Any]
) -> None:
    tokens = {name: project.store.people.invite(name, "reviewer") for name in ("ann", "bob")}
    server = start(project.root)
    people = {name: visit(f"{server.address}/#{name}:{token}", "") for name, token in tokens.items()}
    ann, bob = people["ann"], people["bob"]
    first, second = ann.name(), bob.name()
    assert first != second

    # Bob looks at what Ann has, and cannot change it
    jump(bob, first)
    bob.expect(bob.page.locator("#banner")).to_contain_text("ann is working on this frame")
    bob.ready()
    bob.press("2", "Space")
    assert work_of(project, first).revision == 0

    # Ann's frame changes behind her back, as after a lease that ran out
    task = next(task for task in project.store.tasks() if project.store.frame(task.frame).name == first)
    project.store.release(task.id, "ann")
    project.store.append(task.id, "bob", "unsure", {"reason": "dark"}, base=0)
    project.store.release(task.id, "bob")
    ann.press("2")
    ann.expect(ann.page.locator("#banner")).to_contain_text("bob changed this frame")
    ann.state("cannot tell: dark")
    assert len(project.store.events(task.id)) == 1

    # Ann annotates it after all; Bob, who touched it, is given only the other one to review, and reopens that
    ann.press("2")
    ann.confirm(1)
    ann.leave()
    ann.press("2")
    ann.confirm(1)
    third = ann.name()
    ann.leave()
    bob.page.select_option("#mode", "review")
    bob.expect(bob.page.locator("#name")).to_have_text(third)
    bob.ready()
    bob.press("2")
    bob.expect(bob.page.locator("#toast")).to_have_text("review: A accepts, O reopens")
    bob.press("o")
    bob.expect(bob.page.locator("#reason")).to_be_visible()
    bob.press("2")
    bob.expect(bob.page.locator("#kind")).to_have_text("Nothing to review")
    assert (work_of(project, third).state, work_of(project, third).reviewer) == ("reopened", "bob")

    # Ann does it again, Bob accepts, and then she cannot change it
    jump(ann, third)
    ann.state("reopened: Something else is marked too")
    ann.press("1")
    ann.confirm(2)
    ann.leave()
    bob.press("ArrowRight")
    bob.expect(bob.page.locator("#name")).to_have_text(third)
    bob.press("a")
    bob.expect(bob.page.locator("#kind")).to_have_text("Nothing to review")
    assert (work_of(project, third).state, work_of(project, third).reviewer) == ("accepted", "bob")
    jump(ann, third)
    ann.state("accepted")
    ann.press("1")
    ann.expect(ann.page.locator("#toast")).to_have_text("accepted: a reviewer must reopen it first")

    # Bob had second thoughts
    jump(ann, first)
    jump(bob, third)
    bob.press("o", "1")
    bob.expect(bob.page.locator("#kind")).to_have_text("Nothing to review")
    assert work_of(project, third).state == "reopened"
    assert ann.complaints == bob.complaints == []


def test_eraser_opacity_boxes_sound_and_the_open_guidelines(
    tmp_path: Path, media: Path, start: Callable[..., Any], visit: Callable[..., Any]
) -> None:
    boxes = [[0.24, 0.16, 0.56, 0.64], [0.6, 0.4, 0.9, 0.8]]  # around the disc, and around nothing
    entry = {"file": "clip_000000", "class": "playing violin", "bbox": boxes}
    (tmp_path / "two.json").write_text(json.dumps([entry]))
    initialise(tmp_path / "project", tmp_path / "two.json", MediaFolder(media), "open")
    project = Project(tmp_path / "project")
    ann = visit(start(project.root).address, "ann")
    page = ann.page

    # The open set of rules, with the one for instruments pointed out
    ann.expect(page.locator("#guidelines dt")).to_have_text(["Every source", "Boxes may be wrong", "Instruments"])
    ann.expect(page.locator("#guidelines dt.applies")).to_have_text(["Instruments"])

    # N goes from box to box, whose candidates differ; confirming goes on to the next by itself
    chips = page.locator("#boxes button")
    ann.expect(chips).to_have_count(2)
    scores = page.locator("[data-candidate] span")
    before = scores.all_text_contents()
    ann.press("n")
    ann.expect(chips.nth(1)).to_have_class("on")
    assert scores.all_text_contents() != before
    ann.press("n", "2")
    ann.saved()

    # More opacity, more of the mask's colour in the middle of the disc
    x, y = middle(disc(project, "clip_000000"))
    faint, strong = (red_at(ann, x, y, opacity) for opacity in (10, 100))
    assert strong > faint + 10

    # The eraser takes away, and the key ] makes it larger
    size = int(page.locator("#size").input_value())
    ann.press("e", "]")
    ann.click(x, y)
    ann.saved()
    ann.confirm(1)
    ann.expect(chips.nth(1)).to_have_class("on")
    mask = mask_of(work_of(project, "clip_000000"), (100, 150))
    rows, columns = np.mgrid[:100, :150]
    away = np.hypot(columns + 0.5 - x, rows + 0.5 - y)
    assert not mask[away < size].any()
    assert mask[(away > size + 4) & (away < 18)].mean() > 0.95

    # P plays the sound in a loop, and stops it
    assert page.evaluate("document.getElementById('sound').loop")
    ann.press("p")
    assert page.evaluate(
        """async () => {
            const sound = document.getElementById("sound");
            const heard = () => sound.currentTime > 0.05 && !sound.paused;
            for (let turn = 0; turn < 400 && !heard(); turn++) await new Promise((go) => setTimeout(go, 50));
            return heard();
        }"""
    )
    ann.press("p")
    assert page.evaluate("document.getElementById('sound').paused")
    assert ann.complaints == []


def test_touch_pinch_and_keys_help(project: Project, start: Callable[..., Any], visit: Callable[..., Any]) -> None:
    ann = visit(start(project.root).address, "ann", has_touch=True)
    name = ann.name()
    ann.press("?")
    ann.expect(ann.page.locator("#keys")).to_contain_text("cannot tell, with a reason")
    assert ann.page.evaluate("document.getElementById('keys').scrollTop") == 0  # it begins with its first key
    ann.press("Escape")
    ann.page.locator("[data-tool=exclude]").tap()
    ann.page.touchscreen.tap(*ann.at(75, 50))
    ann.saved()
    ann.page.touchscreen.tap(*ann.at(85, 50))
    ann.saved()

    # Two fingers moved apart to twice their distance zoom by two around their middle, and mark nothing
    x, y = ann.at(75, 50)
    touches = ann.page.context.new_cdp_session(ann.page)
    for kind, apart in (("touchStart", 50), ("touchMove", 75), ("touchMove", 100), ("touchEnd", 0)):
        places = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}] if apart else []
        touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})
    ann.page.touchscreen.tap(*ann.at(85, 50))
    ann.saved()
    ann.press("0")
    ann.page.touchscreen.tap(*ann.at(95, 50))
    ann.saved()
    points = work_of(project, name).draft["points"]
    assert [point[:2] for point in points] == [pytest.approx([x, 50], abs=0.7) for x in (75, 85, 80, 95)]
    assert {point[2] for point in points} == {0}
    ann.press("r")
    ann.expect(ann.page.locator("[data-action=reset]")).to_be_disabled()
    ann.page.set_viewport_size({"width": 240, "height": 500})
    assert ann.page.locator("#kind").evaluate("e => e.scrollWidth <= e.clientWidth")  # the class is never cut
    assert ann.complaints == []
