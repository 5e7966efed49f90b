"""The server: who may ask for what, what is saved, and what is left after kill -9."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from soundwhere.annotate.agreement import mask_iou
from soundwhere.annotate.people import Person
from soundwhere.annotate.segmenter.simple import SimpleSegmenter
from soundwhere.annotate.server import allowed_hosts, make_app
from soundwhere.annotate.store import Store
from soundwhere.cli.main import run
from soundwhere.data.annotation.rle import decode_rle
from soundwhere.errors import ConfigError
from soundwhere.web.addresses import page_addresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.annotate.project import Project

NONE: dict[str, Any] = {"box": None, "candidate": None, "points": [], "strokes": []}


@pytest.fixture
def client(project: Project) -> TestClient:
    return TestClient(make_app([project], SimpleSegmenter()), base_url="http://127.0.0.1:8765")


@pytest.fixture
def ann(client: TestClient, caller: Any) -> Any:
    return caller(client, "ann")


def disc_of(project: Project, frame: int) -> np.ndarray:
    picture = project.picture(project.store.frame(frame))
    return picture[..., 0] > 150


def test_from_a_candidate_to_a_mask(ann: Any, project: Project) -> None:
    view = ann.post("/api/next", state="open").json()
    candidates = ann.get(f"/api/tasks/{view['task']}/candidates").json()["candidates"]
    assert [len(three) for three in candidates] == [3]
    answer = ann.decide(view["task"], "prompt", view["revision"], prompts={**NONE, "box": 0, "candidate": 1}).json()
    assert answer["view"]["mask"] == candidates[0][1]["mask"]
    answer = ann.decide(view["task"], "object", answer["view"]["revision"]).json()
    answer = ann.decide(view["task"], "done", answer["view"]["revision"]).json()
    assert answer["view"]["state"] == "done"
    mask = decode_rle(answer["view"]["objects"][0])
    assert mask_iou(mask, disc_of(project, view["frame"]["id"])) > 0.85
    event = project.store.events(view["task"])[1]
    assert (event.segmenter, event.body["prompts"]["candidate"]) == ("simple-1", 1)
    assert ann.post("/api/next", after=view["task"], state="open").json()["task"] != view["task"]


def test_points_and_strokes_make_masks(ann: Any, project: Project) -> None:
    view = ann.post("/api/next").json()
    disc = disc_of(project, view["frame"]["id"])
    row, column = (int(value.mean()) for value in np.nonzero(disc))
    answer = ann.decide(view["task"], "prompt", 0, prompts={**NONE, "points": [[column, row, 1]]}).json()
    assert mask_iou(decode_rle(answer["view"]["mask"]), disc) > 0.8
    stroke = {"points": [[5, 5], [30, 5]], "radius": 4, "add": True}
    prompts = {**NONE, "points": [[column, row, 1]], "strokes": [stroke]}
    answer = ann.decide(view["task"], "prompt", answer["view"]["revision"], prompts=prompts).json()
    painted = decode_rle(answer["view"]["mask"])
    assert painted[5, 5:30].all()
    erase = {**stroke, "add": False}
    answer = ann.decide(
        view["task"], "prompt", answer["view"]["revision"], prompts={**prompts, "strokes": [stroke, erase]}
    ).json()
    assert not decode_rle(answer["view"]["mask"])[5, 5:30].any()


def test_a_conflict_is_shown_with_what_is_there_now(
    caller: Any, ann: Any, client: TestClient, project: Project
) -> None:
    view = ann.post("/api/next").json()
    ann.decide(view["task"], "unsure", 0, reason="dark")
    ann.post(f"/api/tasks/{view['task']}/release")
    answer = caller(client, "bob").decide(view["task"], "unsure", 0, reason="no")
    assert answer.status_code == 409
    assert "ann changed this frame" in answer.json()["error"]
    assert answer.json()["view"]["reason"] == "dark"
    assert len(project.store.events()) == 1


def test_two_people_never_get_one_frame(caller: Any, ann: Any, client: TestClient) -> None:
    bob = caller(client, "bob")
    first, second = ann.post("/api/next").json(), bob.post("/api/next").json()
    assert first["task"] != second["task"]
    assert bob.post(f"/api/tasks/{first['task']}/open").json()["holder"] == "ann"
    assert bob.decide(first["task"], "unsure", 0).status_code == 409


def test_a_lost_answer_can_be_asked_for_again(ann: Any, project: Project) -> None:
    view = ann.post("/api/next").json()
    prompts = {**NONE, "box": 0, "candidate": 0}
    revision = ann.decide(view["task"], "prompt", 0, prompts=prompts).json()["saved"]
    first = ann.decide(view["task"], "object", revision, request="the-same-one").json()
    again = ann.decide(view["task"], "object", revision, request="the-same-one").json()
    assert first["saved"] == again["saved"]
    assert len(project.store.events()) == 2


def test_nothing_is_confirmed_without_a_mask(ann: Any, project: Project) -> None:
    view = ann.post("/api/next").json()
    answer = ann.decide(view["task"], "object", 0)
    assert (answer.status_code, answer.json()["error"]) == (409, "There is nothing to confirm yet.")
    assert not project.store.events()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://127.0.0.1:8765"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Content-Length": "99999999"}, 413),
    ],
)
def test_only_the_page_itself_may_ask(ann: Any, headers: dict[str, str], status: int) -> None:
    answer = ann.client.get("/api/progress", headers={**ann.headers, **headers})
    assert answer.status_code == status
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


MALFORMED: list[tuple[dict[str, str], int]] = [
    ({"Host": "["}, 400),
    ({"Host": "[::1"}, 400),
    ({"Host": "127.0.0.1:port"}, 400),
    ({"Host": "127.0.0.1/api/session?"}, 400),
    ({"Host": ""}, 400),
    ({"Host": "[::1]:8765"}, 200),
    ({"Host": "LOCALHOST"}, 200),
    ({"Origin": "http://["}, 403),
    ({"Origin": "http://127.0.0.1:8765@evil.example"}, 403),
    ({"Content-Length": "²"}, 413),
    ({"Content-Length": "9" * 5000}, 413),
    ({"X-Annotator": "%ed%a0%80"}, 200),  # is read as characters that cannot be read, which is a name
    ({"X-Annotator": "a%00b"}, 401),
    ({"Authorization": "Bearer \xff"}, 200),
    ({"Range": "bytes=99999999999999999999999-"}, 200),
]


def test_malformed_headers_are_no_defect(ann: Any) -> None:
    for headers, status in MALFORMED:
        raw = [(name.encode(), value.encode("latin1")) for name, value in {**ann.headers, **headers}.items()]
        assert ann.client.get("/api/progress", headers=raw).status_code == status, headers


HALF = r'"\ud800"'  # of a surrogate pair: JSON, but not text
ODD = (
    HALF,
    "1e999",
    "NaN",
    str(1 << 63),
    str(-(1 << 63) - 1),
    "9" * 5000,
    "[" * 5000 + "]" * 5000,
    "null",
    "true",
    "{}",
)
FIELDS = {
    "/api/next": {"after": "0", "back": "false", "kind": '""', "state": '"open"'},
    "/api/tasks/1/decisions": {
        "kind": '"unsure"', "base": "0", "request": '"a-new-name"', "reason": '"dark"', "prompts": "null",
    },
}  # fmt: skip


def send(ann: Any, path: str, body: str | bytes) -> Any:
    return ann.client.post(path, headers={**ann.headers, "Content-Type": "application/json"}, content=body)


def test_malformed_bodies_are_no_defect(ann: Any) -> None:
    for odd in ODD:
        for path, usual in FIELDS.items():
            for field in usual:
                fields = {**usual, field: odd}
                answer = send(ann, path, "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}")
                assert answer.status_code in (200, 400, 409, 422), (path, field, odd[:20])
                assert answer.status_code == 200 or answer.json()["error"]
    for path in FIELDS:
        for body in (b"{", b"\xff\xfe", b"\xed\xa0\x80", b"[]", b"", b'"\\ud800"', b"nan"):
            assert send(ann, path, body).status_code in (400, 422), (path, body)


def test_malformed_prompts_are_no_defect(ann: Any) -> None:
    for odd in ODD:
        for prompts in (
            f'{{"box":{odd}}}', f'{{"points":{odd}}}', f'{{"points":[[{odd},{odd},{odd}]]}}', f"{{{HALF}:1}}",
            f'{{"strokes":[{{"points":[[1,{odd}]],"radius":{odd},"add":{odd}}}]}}',
        ):  # fmt: skip
            body = f'{{"kind":"prompt","base":0,"request":"a-new-name","prompts":{prompts}}}'
            assert send(ann, "/api/tasks/1/decisions", body).status_code in (200, 400, 409, 422), prompts[:30]


def test_numbers_beyond_the_database_are_no_defect(ann: Any) -> None:
    for number in (1 << 63, -1, -(1 << 70), "9" * 5000, "%ed%a0%80", "1e3", "٣"):
        for path in ("/api/frames/{}/picture", "/api/frames/{}/sound", "/api/tasks/{}/candidates"):
            assert ann.get(path.format(number)).status_code in (400, 404, 422), (path, number)
        for path in ("/api/tasks/{}/open", "/api/tasks/{}/renew", "/api/tasks/{}/release"):
            assert ann.post(path.format(number)).status_code in (400, 404, 422), (path, number)


def test_requests_are_limited_however_they_are_sent(ann: Any) -> None:
    large = json.dumps({"kind": "prompt", "base": 0, "request": "x" * 8, "reason": "y" * (1 << 20)}).encode()
    pieces = (large[start : start + 65536] for start in range(0, len(large), 65536))
    answer = ann.client.post("/api/tasks/1/decisions", headers=ann.headers, content=pieces)
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["../project.json", "..%2fproject.json", "%2e%2e/annotations.sqlite", "index.js.map"])
def test_file_names_never_become_paths(ann: Any, path: str) -> None:
    for root in ("/web/", "/api/frames/", "/api/frames/1/", "/"):
        assert ann.get(f"{root}{path}").status_code in (404, 422)
    assert ann.get("/api/frames/..%2f1/picture").status_code in (404, 422)
    assert ann.get("/api/frames/99/picture").status_code == 400


def test_a_name_that_was_invited_needs_its_token(caller: Any, client: TestClient, project: Project) -> None:
    assert client.get("/api/progress").status_code == 422  # no name at all
    assert caller(client, "ann").get("/api/progress").status_code == 200
    token = project.store.people.invite("ann")
    assert caller(client, "ann").get("/api/progress").status_code == 401
    assert caller(client, "bob", token).get("/api/progress").status_code == 401
    assert caller(client, "ann", token).get("/api/progress").status_code == 200


def test_who_is_invited_gets_a_link_for_their_own_machine(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["annotate", str(project.root), "--invite", "ann b", "--host", "0.0.0.0"]) == 0
    local, *others = page_addresses("0.0.0.0", 8765)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("#")[0] for line in lines] == [f"ann b  {address}" for address in (*others, local)]
    (door,) = {line.partition("#")[2] for line in lines}
    assert door.startswith("ann%20b:")
    assert project.store.people.find("ann b", door.partition(":")[2]) == Person("ann b", "annotator")


def test_a_port_that_is_taken_is_said(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert run(["annotate", str(project.root), "--no-browser", "--port", port]) == 2
    assert "--port" in capsys.readouterr().err


def test_other_machines_are_let_in_with_tokens_only(project: Project) -> None:
    assert "127.0.0.1" in allowed_hosts([project], "127.0.0.1")
    with pytest.raises(ConfigError, match="nobody has a token"):
        allowed_hosts([project], "0.0.0.0")
    project.store.people.invite("ann")
    assert allowed_hosts([project], "0.0.0.0") == frozenset()


def test_the_next_frames_are_made_ready_meanwhile(ann: Any, project: Project) -> None:
    ann.post("/api/next")
    end = time.monotonic() + 120
    wanted = 3
    while time.monotonic() < end and len(list((project.root / "candidates").rglob("*.json"))) < wanted:
        time.sleep(0.05)
    assert len(list((project.root / "candidates").rglob("*.json"))) >= wanted


def test_the_server_starts_without_torch(project: Project) -> None:
    code = """
import sys
import soundwhere.cli.annotate
from pathlib import Path
from soundwhere.annotate.project import Project
from soundwhere.annotate.segmenter.protocol import open_segmenter
from soundwhere.annotate.server import make_app
make_app([Project(Path(sys.argv[1]))], open_segmenter("simple"))
print("torch" in sys.modules)
"""
    answer = subprocess.run([sys.executable, "-c", code, project.root], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_killing_the_server_loses_nothing_it_confirmed(
    caller: Any, project: Project, start: Callable[..., Any]
) -> None:
    confirmed: list[int] = []
    for _ in range(3):
        server = start(project.root)
        with httpx.Client(base_url=server.address, timeout=60) as client:
            ann = caller(client, "ann")
            view = ann.post("/api/tasks/1/open").json()
            deadline, once = time.monotonic() + 0.5, len(confirmed)
            while time.monotonic() < deadline or len(confirmed) == once:
                point = [int(time.time_ns() % 97), 40, 1]
                answer = ann.decide(1, "prompt", view["revision"], prompts={**NONE, "points": [point]}).json()
                confirmed.append(answer["saved"])
                view = answer["view"]
            server.kill()
    found = [event.number for event in Store(project.store.path).events(1)]
    assert len(confirmed) >= 3
    assert set(confirmed) <= set(found)
