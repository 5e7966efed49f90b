"""The whole flow in a real browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

from soundwhere.annotate.agreement import mask_iou, mask_of
from soundwhere.annotate.export import export
from soundwhere.annotate.project import Project, initialise
from soundwhere.annotate.verify import verify
from soundwhere.data.benchmarks.catalogue import open_benchmark
from soundwhere.data.benchmarks.media import MediaFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def project(tmp_path: Path, media: Path) -> Project:
    initialise(tmp_path / "project", media / "vggss.json", MediaFolder(media), licence="CC BY 4.0")
    return Project(tmp_path / "project")


class Person:
    """Somebody at the page; whatever the page complains about in its console fails the test."""

    def __init__(self, browser: Browser, address: str, name: str, **options: Any) -> None:
        from playwright.sync_api import expect

        expect.set_options(timeout=PATIENCE_MS)
        self.expect = expect
        self.page: Page = browser.new_context(viewport={"width": 1280, "height": 800}, **options).new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
        if name:
            self.page.fill("#login-name", name)
            self.page.keyboard.press("Enter")
        self.ready()

    def ready(self) -> None:
        """Wait until the candidates are there."""
        self.expect(self.page.locator("[data-candidate='2'] span")).to_have_text(re.compile(r"^[01]\.\d\d$"))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def saved(self) -> None:
        self.expect(self.page.locator("#saved")).to_have_text("saved")

    def click(self, project: Project, x: float, y: float, button: Any = "left") -> None:
        """Click a pixel of the frame, as it lies on the canvas when the whole picture is shown."""
        box = self.page.locator("#stage").bounding_box()
        assert box is not None
        height, width = 100, 150
        scale = min(box["width"] / width, (box["height"] - 56) / height)
        left = box["x"] + (box["width"] - width * scale) / 2
        top = box["y"] + (box["height"] - 50 - height * scale) / 2
        self.page.mouse.click(left + x * scale, top + y * scale, button=button)

    def name(self) -> str:
        return (self.page.locator("#name").text_content() or "").split(" ")[0]

    def state(self, text: str) -> None:
        self.expect(self.page.locator("#state")).to_have_text(text)

    def objects(self, count: int) -> None:
        self.expect(self.page.locator("#objects .object")).to_have_count(count)


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


def test_from_boxes_to_masks_to_a_set(
    browser: Browser, project: Project, start: Callable[..., Any], tmp_path: Path
) -> None:
    server = start(project.root)
    ann = Person(browser, server.address, "ann")

    # A candidate that fits
    first = ann.name()
    ann.expect(ann.page.locator("#kind")).to_have_text("dog barking")
    assert ann.page.locator("#sound").get_attribute("src") is not None
    ann.press("2")
    ann.expect(ann.page.locator("[data-candidate='1']")).to_have_class("on")
    ann.press("Space")
    ann.objects(1)
    ann.saved()
    ann.press("ArrowRight")
    ann.expect(ann.page.locator("#name")).not_to_have_text(first)
    ann.ready()
    work = work_of(project, first)
    assert (work.state, work.objects[0]["prompts"]["candidate"]) == ("done", 1)
    assert mask_iou(mask_of(work, (100, 150)), disc(project, first)) > 0.85

    # No candidate fits: points, one of them wrong and undone; then a second object by brush
    second = ann.name()
    x, y = middle(disc(project, second))
    ann.click(project, x, y)
    ann.saved()
    ann.click(project, 4, 4)
    ann.saved()
    ann.press("z")
    ann.expect(ann.page.locator("[data-action=redo]")).to_be_enabled()
    assert len(work_of(project, second).draft["points"]) == 1
    ann.click(project, 4, 96, "right")
    ann.press("Space")
    ann.objects(1)
    ann.saved()
    ann.press("b")
    ann.click(project, 8, 8)
    ann.saved()
    ann.press("Space")
    ann.objects(2)
    ann.saved()
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
    ann.press("Enter")
    ann.expect(ann.page.locator("#name")).not_to_have_text(second)
    ann.ready()

    # Cannot tell, with a reason; then nothing but the last is left
    third = ann.name()
    ann.press("x")
    ann.expect(ann.page.locator("#reason")).to_be_visible()
    ann.press("1")
    ann.expect(ann.page.locator("#name")).not_to_have_text(third)
    assert (work_of(project, third).state, work_of(project, third).reason) == ("unsure", "The source is not in view")
    ann.ready()
    ann.press("1", "Space")
    ann.objects(1)
    ann.saved()
    ann.press("c")
    ann.objects(0)
    ann.saved()
    ann.press("z")
    ann.objects(1)
    ann.press("ArrowRight")
    ann.expect(ann.page.locator("#kind")).to_have_text("All done")
    assert ann.complaints == []

    card = export(project, tmp_path / "set", media=True)
    assert (card["frames"], card["objects"]) == (3, 4)
    assert verify(tmp_path / "set") == []
    assert len(open_benchmark("folder", tmp_path / "set").scenes) == 3


def test_a_click_is_answered_at_once_and_survives_a_dead_server(
    browser: Browser, project: Project, start: Callable[..., Any]
) -> None:
    server = start(project.root)
    ann = Person(browser, server.address, "ann")
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


def test_two_annotators_conflict_and_review(browser: Browser, project: Project, start: Callable[..., Any]) -> None:
    tokens = {name: project.store.invite(name) for name in ("ann", "bob")}
    server = start(project.root)
    people = {name: Person(browser, f"{server.address}/#{name}:{token}", "") for name, token in tokens.items()}
    ann, bob = people["ann"], people["bob"]
    first, second = ann.name(), bob.name()
    assert first != second

    # Bob looks at what Ann has, and cannot change it
    bob.page.fill("#jump", first)
    bob.page.keyboard.press("Enter")
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

    # Ann annotates it after all; Bob reviews
    ann.press("2", "Space")
    ann.objects(1)
    ann.saved()
    project.store.release(task.id, "bob")
    ann.press("ArrowRight")
    ann.expect(ann.page.locator("#name")).not_to_have_text(first)
    ann.ready()
    ann.press("2", "Space")
    ann.objects(1)
    ann.saved()
    third = ann.name()
    ann.press("ArrowRight")
    ann.expect(ann.page.locator("#name")).not_to_have_text(third)
    bob.page.select_option("#mode", "review")
    bob.expect(bob.page.locator("#name")).to_have_text(third)
    bob.ready()
    bob.press("o")
    bob.expect(bob.page.locator("#reason")).to_be_visible()
    bob.press("2")
    bob.expect(bob.page.locator("#kind")).to_have_text("All done")
    assert (work_of(project, third).state, work_of(project, third).reviewer) == ("reopened", "bob")
    assert ann.complaints == bob.complaints == []


def test_touch_and_keys_help(browser: Browser, project: Project, start: Callable[..., Any]) -> None:
    server = start(project.root)
    ann = Person(browser, server.address, "ann", has_touch=True)
    ann.press("?")
    ann.expect(ann.page.locator("#keys")).to_contain_text("cannot tell, with a reason")
    ann.press("Escape")
    ann.page.locator("[data-tool=exclude]").tap()
    box = ann.page.locator("#stage").bounding_box()
    assert box is not None
    ann.page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    ann.saved()
    assert [point[2] for point in work_of(project, ann.name()).draft["points"]] == [0]
    ann.page.mouse.move(box["x"] + 300, box["y"] + 200)
    ann.page.mouse.wheel(0, -400)
    ann.press("0", "r")
    ann.expect(ann.page.locator("[data-action=reset]")).to_be_disabled()
    assert ann.complaints == []
