"""Several people at the page: filters, the end, reviews, agreement and the overview, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from soundwhere.annotate.project import Project, initialise
from soundwhere.data.benchmarks.media import MediaFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.browser

CONTROLS = "#strip, #tools, #task, #guidelines, .sound"


def faults(page: Any, axe: str) -> list[str]:
    """What keeps people out, as axe-core finds it."""
    page.evaluate(axe)
    script = """async () => (await axe.run()).violations
        .filter((one) => ["serious", "critical"].includes(one.impact))
        .map((one) => `${one.id} ${one.nodes[0].html}`)"""
    found: list[str] = page.evaluate(script)
    return found


def finish(person: Any, key: str = "1") -> None:
    person.press(key)
    person.saved()
    person.confirm(1)
    person.leave()


def test_the_class_filter_and_an_end_without_stale_controls(
    project: Project, start: Callable[..., Any], visit: Callable[..., Any], axe: str
) -> None:
    ann = visit(start(project.root).address, "ann")
    page = ann.page
    page.select_option("#class", "dog barking")
    seen = []
    for _ in range(2):
        ann.ready()
        ann.expect(page.locator("#kind")).to_have_text("dog barking")
        seen.append(ann.name())
        finish(ann)
    assert seen == ["clip_000000", "clip_000020"]

    # The end: nothing that needs a frame is left, to see or to press
    ann.expect(page.locator("#kind")).to_have_text("Class done")
    ann.expect(page.locator("#end")).to_have_text("No “dog barking” is left for you to do.")
    ann.expect(page.locator("#toast")).not_to_have_class("on")
    ann.keep_picture("end")
    assert faults(page, axe) == []
    for control in page.locator(CONTROLS).all():
        ann.expect(control).to_be_hidden()
    for place in ("#name", "#state", "#saved", "#boxes", "#objects"):
        ann.expect(page.locator(place)).to_have_text("")
    assert "#" not in page.url
    events = len(project.store.events())
    ann.press("1", "Space", "z", "c", "p", "Delete", "g", "d")
    page.mouse.click(400, 300)
    assert page.evaluate("document.getElementById('sound').paused")
    ann.expect(page.locator("#toast")).not_to_have_class("on")
    assert len(project.store.events()) == events

    # Another class: all is back
    page.select_option("#class", "violin")
    ann.ready()
    for control in page.locator(CONTROLS).all():
        ann.expect(control).to_be_visible()
    assert ann.name() == "clip_000010"
    assert ann.complaints == []


def test_agreement_and_cannot_tell_in_review(
    tmp_path: Path, media: Path, start: Callable[..., Any], visit: Callable[..., Any]
) -> None:
    initialise(tmp_path / "twice", media / "vggss.json", MediaFolder(media), double=1.0)
    project = Project(tmp_path / "twice")
    tokens = {name: project.store.people.invite(name) for name in ("ann", "bob")}
    tokens["rob"] = project.store.people.invite("rob", "reviewer")
    address = start(project.root).address
    ann, bob = (visit(f"{address}/#{name}:{tokens[name]}") for name in ("ann", "bob"))
    text = ann.page.locator("#agreement")
    ann.expect(text).to_have_text("")

    # Both do the first frame, one pass each, without seeing the other's
    finish(ann)
    assert project.store.task(1).annotator == "ann"
    second = next(task.id for task in project.store.tasks() if task.second and task.frame == 1)
    unclear = next(task.id for task in project.store.tasks() if not task.second and task.frame == 2)
    bob.page.goto(f"{address}/#task={second}")
    bob.page.reload()
    bob.ready()
    bob.expect(bob.page.locator("#name")).to_have_text("clip_000000 · second pass")
    bob.objects(0)
    finish(bob)
    bob.expect(bob.page.locator("#agreement")).to_have_text(
        "Agreement on 1 doubly annotated frame: mask IoU 1.00 (median 1.00)"
    )
    assert bob.page.locator("#mode option[value=review]").count() == 0

    # Ann cannot tell what the second frame is; Rob looks at that in review, agrees, and thinks again
    ann.page.fill("#jump", "clip_000010")
    ann.press("Enter")
    ann.expect(ann.page.locator("#name")).to_have_text("clip_000010")
    ann.ready()
    ann.press("x")
    ann.expect(ann.page.locator("#reason")).to_be_visible()
    ann.leave("2")
    rob = visit(f"{address}/#rob:{tokens['rob']}")
    rob.page.select_option("#mode", "review")
    rob.page.select_option("#class", "violin")
    rob.expect(rob.page.locator("#name")).to_have_text("clip_000010")
    rob.state("cannot tell: Too dark or blurred to outline")
    rob.expect(rob.page.locator("#review")).to_be_visible()
    rob.keep_picture("review-unsure")
    rob.press("a")
    rob.expect(rob.page.locator("#kind")).to_have_text("Nothing to review")
    assert project.store.task(unclear).state == "excluded"
    rob.page.select_option("#mode", "excluded")
    rob.expect(rob.page.locator("#name")).to_have_text("clip_000010")
    rob.state("left out: Too dark or blurred to outline")
    rob.page.goto(f"{address}/#task={unclear}&mode=review")
    rob.page.reload()
    rob.ready()
    rob.press("o")
    rob.expect(rob.page.locator("#reason")).to_be_visible()
    rob.press("5")
    rob.expect(rob.page.locator("#reason")).to_be_hidden()
    rob.expect(rob.page.locator("#toast")).to_have_text("reopened")
    assert project.store.work(unclear).reason == "It can be told what sounds"
    assert ann.complaints == bob.complaints == rob.complaints == []


def test_the_overview_of_two_projects_leads_to_what_needs_a_look(
    tmp_path: Path, media: Path, start: Callable[..., Any], visit: Callable[..., Any], axe: str
) -> None:
    projects = []
    for name in ("street", "stage"):
        initialise(tmp_path / name, media / "vggss.json", MediaFolder(media))
        projects.append(Project(tmp_path / name))
    token = projects[0].store.people.invite("owen", "owner")
    projects[1].store.people.invite("owen", "reviewer", token)
    annie = projects[0].store.people.invite("annie")
    address = start([project.root for project in projects]).address

    # Annie may come into the first only, annotates a frame, and sees her own figures
    ann = visit(f"{address}/#annie:{annie}", wait=False)
    sections = ann.page.locator(".project")
    ann.expect(sections.locator("h2")).to_have_text(["street"])
    ann.expect(sections.first).to_contain_text("you are annotator here")
    assert ann.page.locator("text=Who may come in").count() == 0
    ann.page.click("text=annotate")
    ann.ready()
    ann.press("g")
    for corner in ((5, 5), (145, 5), (145, 95), (5, 95)):
        ann.click(*corner)
    ann.press("Enter")
    ann.saved()
    ann.confirm(1)
    ann.leave()
    ann.page.click("#home")
    ann.expect(ann.page.locator(".project")).to_contain_text("1 of 4 finished")

    # Owen sees both, with what is doubtful first, and follows it into the review
    owen = visit(f"{address}/#owen:{token}", wait=False)
    page = owen.page
    owen.expect(page.locator(".project h2")).to_have_text(["street", "stage"])
    assert token not in page.url
    street = page.locator(".project").first
    owen.expect(street).to_contain_text("object 1 covers 8")
    owen.expect(street).to_contain_text("you are owner here")
    owen.keep_picture("overview")
    assert faults(page, axe) == []

    # He invites Eve, whose link is shown once and works, makes her a reviewer, and sends her away
    street.locator("[aria-label='name to invite']").fill("eve")
    street.locator("text=invite >> nth=-1").click()
    owen.expect(page.locator("#banner")).to_contain_text(f"{address}/#eve:")
    owen.expect(page.locator("#banner")).to_be_in_viewport()  # however far down the form is
    owen.keep_picture("overview-invited")
    link = (page.locator("#banner").text_content() or "").split(" ")[-1]
    eve = visit(link, wait=False)
    eve.expect(eve.page.locator(".project")).to_contain_text("you are annotator here")
    with page.expect_response(lambda answer: answer.request.method != "GET"):  # the server knows before Eve asks
        page.locator("[aria-label='role of eve']").select_option("reviewer")
    eve.expect(page.locator("[aria-label='role of eve']")).to_have_value("reviewer")
    eve.page.click("#refresh")
    eve.expect(eve.page.locator(".project")).to_contain_text("you are reviewer here")
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("[aria-label='remove eve']").click()
    owen.expect(page.locator("[aria-label='remove eve']")).to_have_count(0)
    eve.page.click("#refresh")
    eve.expect(eve.page.locator("#banner")).to_contain_text("no valid token")

    page.click("text=clip_000000")
    owen.ready()
    owen.expect(page.locator("#doubts")).to_contain_text("object 1 covers")
    owen.expect(page.locator("#mode")).to_have_value("review")
    owen.expect(page.locator("#size")).to_be_hidden()  # of a brush that nobody has here
    assert faults(page, axe) == []
    owen.press("o")
    owen.expect(page.locator("#reason")).to_be_visible()
    owen.press("2")
    owen.expect(page.locator("#kind")).to_have_text("Nothing to review")
    assert projects[0].store.task(1).state == "reopened"
    assert ann.complaints == owen.complaints == eve.complaints == []


def test_the_page_is_open_to_everybody(
    project: Project, start: Callable[..., Any], visit: Callable[..., Any], axe: str
) -> None:
    ann = visit(start(project.root).address, "ann")
    assert faults(ann.page, axe) == []
    ann.page.set_viewport_size({"width": 390, "height": 844})  # by finger
    assert ann.page.evaluate("document.documentElement.scrollWidth") <= 390
    low = """() => [...document.querySelectorAll("button, select, input")].filter((one) => one.checkVisibility())
        .filter((one) => one.getBoundingClientRect().height < 44).map((one) => one.outerHTML)"""
    assert ann.page.evaluate(low) == []
