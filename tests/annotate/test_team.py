"""Several people and projects: what each role may do, and what the overview says."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from soundwhere.annotate.people import ROLES, Person
from soundwhere.annotate.project import Project, initialise
from soundwhere.annotate.segmenter.simple import SimpleSegmenter
from soundwhere.annotate.server import allowed_hosts, make_app
from soundwhere.cli.main import run
from soundwhere.data.benchmarks.media import MediaFolder
from soundwhere.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pathlib import Path

NONE: dict[str, Any] = {"box": None, "candidate": None, "points": [], "strokes": []}
BASE = "http://127.0.0.1:8765"


@pytest.fixture
def client(project: Project) -> TestClient:
    return TestClient(make_app([project], SimpleSegmenter()), base_url=BASE)


@pytest.fixture
def team(project: Project, client: TestClient, caller: Any) -> dict[str, Any]:
    """Ann and Abe annotate, Rob and Ria review, Owen owns."""
    roles = {"ann": "annotator", "abe": "annotator", "rob": "reviewer", "ria": "reviewer", "owen": "owner"}
    return {name: caller(client, name, project.store.people.invite(name, role)) for name, role in roles.items()}


def finish(person: Any, task: int, points: list[list[float]] | None = None) -> None:
    """Confirm a mask, a small square if nothing else is given, and say that it is done."""
    square = {"points": points or [[50, 30], [70, 30], [70, 50], [50, 50]], "fill": True, "add": True}
    revision = person.post(f"/api/tasks/{task}/open").json()["revision"]
    revision = person.decide(task, "prompt", revision, prompts={**NONE, "strokes": [square]}).json()["saved"]
    revision = person.decide(task, "object", revision).json()["saved"]
    assert person.decide(task, "done", revision).status_code == 200
    person.post(f"/api/tasks/{task}/release")


def test_annotators_neither_review_nor_see_what_others_finished(team: dict[str, Any], project: Project) -> None:
    finish(team["ann"], 1)
    revision = project.store.task(1).revision
    for kind in ("accept", "reopen"):
        answer = team["abe"].decide(1, kind, revision)
        assert answer.status_code == 403
        assert "Only reviewers and owners" in answer.json()["error"]
    assert team["abe"].post("/api/next", state="review").status_code == 403
    assert team["abe"].get("/api/tasks?state=review").status_code == 403
    for path in ("open", "renew"):
        assert team["abe"].post(f"/api/tasks/1/{path}").status_code == 403
    assert team["abe"].get("/api/tasks/1/candidates").status_code == 403
    assert team["abe"].decide(1, "clear", revision).status_code == 403
    stale = team["abe"].decide(1, "clear", 0)
    assert (stale.status_code, "view" in stale.json()) == (409, False)
    assert 1 not in [task["id"] for task in team["abe"].get("/api/tasks").json()]
    assert 1 in [task["id"] for task in team["ann"].get("/api/tasks").json()]
    assert project.store.task(1).revision == revision


def test_reviewers_review_and_owners_do_so_too(team: dict[str, Any], project: Project) -> None:
    for task, name in ((1, "rob"), (2, "owen")):
        finish(team["ann"], task)
        view = team[name].post("/api/next", state="review").json()
        assert view["task"] == task
        assert team[name].decide(task, "accept", view["revision"]).status_code == 200
        assert project.store.task(task).state == "accepted"
    # What is accepted is closed to everybody until a reviewer reopens it
    revision = project.store.task(1).revision
    assert team["ann"].decide(1, "clear", revision).status_code == 409
    assert team["ria"].decide(1, "reopen", revision, reason="the hands").status_code == 409  # it is with rob
    team["rob"].post("/api/tasks/1/release")
    assert team["ria"].decide(1, "reopen", revision, reason="the hands").status_code == 200
    assert team["ria"].decide(2, "accept", project.store.task(2).revision).status_code == 409  # it is accepted already


def test_cannot_tell_is_reviewed_like_a_mask(team: dict[str, Any], project: Project) -> None:
    team["ann"].post("/api/tasks/1/open")
    team["ann"].decide(1, "unsure", 0, reason="dark")
    team["ann"].post("/api/tasks/1/release")
    view = team["rob"].post("/api/next", state="review").json()
    assert (view["task"], view["state"], view["reason"]) == (1, "unsure", "dark")
    answer = team["rob"].decide(1, "accept", view["revision"]).json()
    assert (answer["view"]["state"], answer["view"]["reason"]) == ("excluded", "dark")
    assert team["rob"].post("/api/next", state="review").json()["none"]
    team["rob"].post("/api/tasks/1/release")
    assert team["ann"].decide(1, "undo", answer["saved"]).status_code == 409
    answer = team["rob"].decide(1, "reopen", answer["saved"], reason="it can be told").json()
    assert answer["view"]["state"] == "reopened"


def test_owners_say_who_may_do_what(team: dict[str, Any], project: Project, client: TestClient, caller: Any) -> None:
    owen, people = team["owen"], project.store.people
    for name in ("ann", "rob"):
        for path, body in (
            ("invite", {"name": "eve", "role": "owner"}),
            ("role", {"name": name, "role": "owner"}),
            ("remove", {"name": "owen"}),
        ):
            assert team[name].post(f"/api/people/{path}", **body).status_code == 403
        assert team[name].get("/api/people").status_code == 403
    listed = owen.get("/api/people").json()
    assert listed["roles"] == list(ROLES)
    assert {each["name"]: each["role"] for each in listed["people"]}["rob"] == "reviewer"
    answer = owen.post("/api/people/invite", name="eve b", role="reviewer").json()
    start, _, token = answer["door"].partition(":")
    assert start == "#eve%20b"
    eve = caller(client, "eve%20b", token)
    assert eve.get("/api/session").json()["role"] == "reviewer"
    owen.post("/api/people/role", name="eve b", role="annotator")
    assert eve.get("/api/session").json()["role"] == "annotator"
    owen.post("/api/people/remove", name="eve b")
    assert eve.get("/api/session").status_code == 401
    before = people.list()
    for path, body, status in (
        ("role", {"name": "nobody", "role": "owner"}, 400),
        ("role", {"name": "ann", "role": "king"}, 422),
        ("remove", {"name": "nobody"}, 400),
        ("remove", {"name": ""}, 422),
        ("invite", {"name": "x" * 41, "role": "annotator"}, 422),
        ("invite", {"name": "a\tb", "role": "annotator"}, 400),
        ("invite", {"name": " a", "role": "annotator"}, 400),
        ("invite", {"role": "annotator"}, 422),
        ("role", {"name": "owen", "role": "annotator"}, 409),
        ("remove", {"name": "owen"}, 409),
        ("invite", {"name": "owen", "role": "owner"}, 409),
    ):
        answer = owen.post(f"/api/people/{path}", **body)
        assert answer.status_code == status, (path, body)
        assert answer.json()["error"]
    assert people.list() == before


def test_whoever_is_alone_on_their_machine_may_do_everything_but_lock_themselves_out(
    client: TestClient, caller: Any, project: Project
) -> None:
    ann = caller(client, "ann")
    assert ann.get("/api/session").json()["role"] == "owner"
    answer = ann.post("/api/people/invite", name="bob", role="owner")
    assert (answer.status_code, "--invite" in answer.json()["remedy"]) == (409, True)
    assert project.store.people.list() == []


def test_what_is_no_role_is_refused(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match="no role 'king'"):
        project.store.people.invite("ann", "king")  # type: ignore[arg-type] # as a program might
    with pytest.raises(SystemExit):
        run(["annotate", str(project.root), "--invite", "ann", "--role", "king"])
    assert "king" in capsys.readouterr().err
    assert project.store.people.list() == []


def test_the_overview_counts_by_class_and_person(team: dict[str, Any], project: Project) -> None:
    finish(team["ann"], 1)
    finish(team["ann"], 3, [[5, 5], [145, 5], [145, 95], [5, 95]])
    team["abe"].post("/api/tasks/2/open")
    team["abe"].decide(2, "unsure", 0, reason="dark")
    found = team["rob"].get("/api/overview").json()
    assert (found["states"]["done"], found["states"]["unsure"], found["states"]["todo"]) == (2, 1, 1)
    kinds = {each["kind"]: each["states"] for each in found["kinds"]}
    assert (kinds["dog barking"]["done"], kinds["violin"]["unsure"], kinds["saw"]["todo"]) == (2, 1, 1)
    people = {each["annotator"]: each for each in found["people"]}
    assert (people["ann"]["frames"], people["ann"]["objects"], people["ann"]["role"]) == (2, 2, "annotator")
    assert (people["abe"]["frames"], people["owen"]["frames"], people["owen"]["last"]) == (1, 0, None)
    assert found["working"] == ["abe"]
    # The most doubtful comes first, and what one did oneself is not there
    assert [one["task"] for one in found["review"]] == [3, 2, 1]
    assert found["review"][0]["why"][1] == "object 1 covers 84 % of the picture"
    assert found["review"][1]["why"] == ["cannot tell: dark"]
    own = team["ann"].get("/api/overview").json()
    assert [each["annotator"] for each in own["people"]] == ["ann"]
    assert (own["review"], own["to_review"], own["working"]) == ([], 0, [])
    assert [each["annotator"] for each in team["ann"].get("/api/progress").json()["annotators"]] == ["ann"]


def test_low_agreement_is_reviewed_first(tmp_path: Path, media: Path, caller: Any) -> None:
    initialise(tmp_path / "twice", media / "vggss.json", MediaFolder(media), double=1.0)
    project = Project(tmp_path / "twice")
    client = TestClient(make_app([project], SimpleSegmenter()), base_url=BASE)
    ann, bob, rob = (caller(client, name) for name in ("ann", "bob", "rob"))
    second = {task.frame: task.id for task in project.store.tasks() if task.second}
    first = {task.frame: task.id for task in project.store.tasks() if not task.second}
    square, half = [[40, 20], [80, 20], [80, 60], [40, 60]], [[40, 20], [80, 20], [80, 40], [40, 40]]
    finish(ann, first[3], [[20, 40], [60, 40], [60, 80], [20, 80]])
    finish(bob, second[3], [[20, 40], [60, 40], [60, 80], [20, 80]])
    finish(ann, first[1], square)
    finish(bob, second[1], half)
    found = rob.get("/api/overview").json()
    assert found["agreement"]["frames"] == 2
    assert found["agreement"]["mean"] == pytest.approx(0.75)
    assert [one["why"] for one in found["review"]] == [["two people agree to 0.50 only"]] * 2 + [[]] * 2
    assert {each["annotator"]: each["agreement"] for each in found["people"]} == {"ann": 0.75, "bob": 0.75}


@pytest.fixture
def two(tmp_path: Path, media: Path) -> list[Project]:
    """Two projects whose folders have the same name."""
    roots = [tmp_path / place / "my masks" for place in ("here", "there")]
    for root in roots:
        initialise(root, media / "vggss.json", MediaFolder(media))
    return [Project(root) for root in roots]


def test_several_projects_keep_apart(two: list[Project], caller: Any, capsys: pytest.CaptureFixture[str]) -> None:
    places = [str(project.root) for project in two]
    assert run(["annotate", *places, "--invite", "ann", "--role", "reviewer"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    token = line.partition("#ann:")[2]
    only = two[1].store.people.invite("bob")
    client = TestClient(make_app(two, SimpleSegmenter()), base_url=BASE)
    ann, bob = caller(client, "ann", token), caller(client, "bob", only)
    listed = ann.get("/api/projects").json()
    assert listed == [{"name": "my masks", "path": "p/my-masks/"}, {"name": "my masks", "path": "p/my-masks-2/"}]
    assert [each["path"] for each in bob.get("/api/projects").json()] == ["p/my-masks-2/"]
    assert caller(client, "eve").get("/api/projects").status_code == 401
    assert ann.post("/p/my-masks/api/tasks/1/open").json()["frame"]["name"] == "clip_000000"
    answer = ann.post("/p/my-masks/api/tasks/1/decisions", kind="unsure", base=0, request="one-decision")
    assert answer.status_code == 200
    assert [len(project.store.events()) for project in two] == [1, 0]
    assert bob.get("/p/my-masks/api/session").status_code == 401
    session = bob.get("/p/my-masks-2/api/session").json()
    assert (session["role"], session["home"]) == ("annotator", "../../web/overview.html")
    page = client.get("/")
    assert page.url.path == "/web/overview.html"
    for path in ("/p/my-masks/", "/p/my-masks-2/web/app.js", "/web/overview.js"):
        assert client.get(path).status_code == 200
    assert client.get("/p/other/").status_code == 404


def test_a_project_without_people_is_not_open_beside_one_that_has_some(two: list[Project], caller: Any) -> None:
    token = two[0].store.people.invite("ann")
    client = TestClient(make_app(two, SimpleSegmenter()), base_url=BASE)
    assert caller(client, "ann", token).get("/p/my-masks-2/api/session").status_code == 401


def test_a_public_address_needs_tokens_and_is_answered_to(project: Project, caller: Any) -> None:
    with pytest.raises(ConfigError, match="nobody has a token"):
        allowed_hosts([project], "127.0.0.1", "https://masks.example.org/")
    token = project.store.people.invite("ann")
    for wrong in ("masks.example.org", "ftp://masks.example.org/", "https://", "https://masks.example.org/a"):
        with pytest.raises(ConfigError, match="is not the address of a page"):
            allowed_hosts([project], "127.0.0.1", wrong)
    hosts = allowed_hosts([project], "127.0.0.1", "https://masks.example.org/")
    client = TestClient(
        make_app([project], SimpleSegmenter(), hosts, tokens=True), base_url="https://masks.example.org"
    )
    ann = caller(client, "ann", token)
    assert ann.get("/api/session").status_code == 200
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
    origin = {**ann.headers, "Origin": "https://evil.example"}
    assert client.get("/api/session", headers=origin).status_code == 403


def test_links_carry_the_public_address(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    public = ["--public", "https://masks.example.org/annotate/"]
    assert run(["annotate", str(project.root), "--invite", "ann", "--role", "owner", *public]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("ann  https://masks.example.org/annotate/#ann:")
    assert project.store.people.find("ann", line.rpartition(":")[2]) == Person("ann", "owner")


def test_no_project_at_all_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["annotate"]) == 2
    assert "benchmark init" in capsys.readouterr().err


def test_roles_are_what_the_database_says_now(team: dict[str, Any], project: Project) -> None:
    """A role that was changed counts from the next request on, also if another program changed it."""
    assert team["rob"].get("/api/tasks?state=review").status_code == 200
    with sqlite3.connect(project.store.path) as connection:
        connection.execute("UPDATE annotators SET role = 'annotator' WHERE name = 'rob'")
    assert team["rob"].get("/api/tasks?state=review").status_code == 403
