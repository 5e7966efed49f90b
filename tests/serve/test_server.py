"""The server: uploads, the folder, results, and who may ask for what."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from soundwhere.cli.main import run
from soundwhere.errors import ConfigError
from soundwhere.serve.jobs import Jobs, Shelf
from soundwhere.serve.server import make_app, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from soundwhere.serve.runner import Runner

    Until = Callable[[Callable[[], bool]], None]

LIMIT = 5_000_000


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "good one.mp4").write_bytes(b"film")
    return Shelf(tmp_path / "films")


@pytest.fixture
def client(jobs: Jobs, runner: Runner, shelf: Shelf) -> Iterator[TestClient]:
    with TestClient(make_app(jobs, runner, shelf, LIMIT), base_url="http://127.0.0.1:8766") as client:
        yield client


def upload(client: TestClient, name: str, content: Any = b"film") -> Any:
    return client.post("/api/uploads", params={"name": name}, content=content)


def finished(client: TestClient, until: Until, name: str = "good.mp4") -> str:
    number = str(upload(client, name).json()["id"])
    until(lambda: client.get(f"/api/jobs/{number}").json()["state"] == "done")
    return number


def test_an_upload_becomes_a_job_and_then_files(client: TestClient, until: Until) -> None:
    number = finished(client, until)
    found = client.get(f"/api/jobs/{number}/player").json()
    assert found["title"] == "good.mp4"
    assert "plain" not in found
    assert {file["name"] for file in found["files"]} == {
        *("result.json", "overlay.png", "heatmaps/1.png", "index.html", "everything.zip")
    }
    for file in found["files"]:
        answer = client.get(file["href"])
        assert answer.status_code == 200
        assert "attachment" in answer.headers["content-disposition"]
    video = client.get(found["video"]["src"], headers={"Range": "bytes=1-2"})
    assert (video.status_code, video.content) == (206, b"il")
    assert client.get(f"/api/jobs/{number}/picture").content == b"overlay.png"


def test_everything_comes_as_one_file_and_leaves_none(client: TestClient, until: Until, jobs: Jobs) -> None:
    number = finished(client, until)
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"/api/jobs/{number}/everything").content))
    assert "good.soundwhere/heatmaps/1.png" in archive.namelist()
    assert list(jobs.folder(jobs.get(number)).glob(".*")) == []


def test_files_that_vanished_are_missing_and_no_defect(client: TestClient, until: Until, jobs: Jobs) -> None:
    number = finished(client, until)
    folder = jobs.folder(jobs.get(number))
    for path in (folder / "result" / "overlay.png", folder / "result" / "index.html", folder / "clip.mp4"):
        path.unlink()
    assert client.get(f"/api/jobs/{number}/picture").status_code == 404
    assert client.get(f"/api/jobs/{number}/video").status_code == 404
    assert client.get(f"/api/jobs/{number}/files/index.html").status_code == 404
    assert client.get(f"/api/jobs/{number}/everything").status_code == 200
    (folder / "player.json").write_text("{")
    assert "is damaged" in client.get(f"/api/jobs/{number}/player").json()["error"]
    assert list(folder.glob(".*")) == []


def test_a_full_disk_is_told_and_leaves_nothing(
    client: TestClient, until: Until, jobs: Jobs, no_space: Callable[[], AbstractContextManager[None]]
) -> None:
    number = finished(client, until)
    with no_space():
        archive, added = client.get(f"/api/jobs/{number}/everything"), upload(client, "good.mp4")
    for answer in (archive, added):
        assert answer.status_code == 507
        assert "cannot be written" in answer.json()["error"]
        assert "--work" in answer.json()["remedy"]
    assert [job.id for job in jobs.all()] == [number]
    assert list(jobs.folder(jobs.get(number)).glob(".*")) == []
    assert len(list(jobs.folder(jobs.get(number)).parent.iterdir())) == 1


def test_a_clip_is_picked_from_the_folder(client: TestClient, until: Until) -> None:
    (clip,) = client.get("/api/clips").json()
    assert (clip["name"], clip["bytes"]) == ("good one.mp4", 4)
    number = client.post("/api/jobs", json={"clip": clip["id"]}).json()["id"]
    until(lambda: client.get(f"/api/jobs/{number}").json()["state"] == "done")
    assert client.get(f"/api/jobs/{number}/video").content == b"film"
    assert client.post("/api/jobs", json={"clip": "../../x"}).status_code == 400


def test_a_bad_clip_is_told_and_the_next_one_done(client: TestClient, until: Until) -> None:
    bad = upload(client, "bad.mp4").json()["id"]
    finished(client, until)
    job = client.get(f"/api/jobs/{bad}").json()
    assert (job["state"], job["error"], job["remedy"]) == ("failed", "bad.mp4 has no sound track.", "Give another.")
    assert client.get(f"/api/jobs/{bad}/player").status_code == 404


def test_cancel_and_remove(client: TestClient, until: Until, jobs: Jobs) -> None:
    slow = upload(client, "slow.mp4").json()["id"]
    behind = upload(client, "good.mp4").json()
    assert behind["before"] == 1
    until(lambda: client.get(f"/api/jobs/{slow}").json()["done"] == 1)
    assert client.post(f"/api/jobs/{slow}/cancel").json()["state"] == "cancelled"
    until(lambda: client.get(f"/api/jobs/{behind['id']}").json()["state"] == "done")
    folder = jobs.folder(jobs.get(slow))
    assert client.delete(f"/api/jobs/{slow}").json() == {"removed": True}
    assert not folder.exists()
    assert client.get(f"/api/jobs/{slow}").status_code == 404


@pytest.mark.parametrize("stated", [True, False])
def test_uploads_are_limited_however_they_are_sent(
    client: TestClient, jobs: Jobs, tmp_path: Path, stated: bool
) -> None:
    large = b"x" * (LIMIT + 1)
    pieces = (large[start : start + 65536] for start in range(0, len(large), 65536))
    answer = upload(client, "large.mp4", large if stated else pieces)
    assert answer.status_code == 413
    assert "larger than 5 MB" in answer.json()["error"]
    assert jobs.all() == []
    assert list((tmp_path / "jobs").iterdir()) == []


def test_names_never_become_paths(client: TestClient, until: Until, jobs: Jobs) -> None:
    number = finished(client, until, "../../../evil good.mp4/..\\x.sh")
    job = jobs.get(number)
    assert job.name == "x.sh"
    assert {path.name for path in jobs.folder(job).iterdir()} == {"clip", "job.json", "result", "player.json"}
    for name in ("../job.json", "..%2fjob.json", "%2e%2e/clip", "heatmaps/../../job.json", "result.json/x", ".hidden"):
        assert client.get(f"/api/jobs/{number}/files/{name}").status_code == 404
    assert client.get("/api/jobs/..%2f..%2fx/player").status_code == 404
    assert client.get("/web/..%2findex.html").status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_only_the_page_itself_may_ask(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert client.get("/api/jobs", headers=headers).status_code == status
    assert client.post("/api/uploads?name=bad", headers=headers, content=b"x").status_code == status


def test_a_link_on_another_site_leads_to_the_page_and_does_nothing_else(client: TestClient) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/", headers=link).status_code == 200
    assert client.post("/api/uploads?name=bad", headers=link, content=b"x").status_code == 403


@pytest.mark.parametrize("key", ["", "secret"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "["},
        {"Host": "studio/enter?"},
        {"Host": "127.0.0.1:port"},
        {"Origin": "http://["},
        {"Cookie": "soundwhere=\xff"},
        {"Range": "bytes=99999999999999999999999-,-"},
        {"Content-Length": "9" * 5000},
    ],
)
def test_malformed_headers_are_no_defect(jobs: Jobs, runner: Runner, headers: dict[str, str], key: str) -> None:
    raw = [(name.encode(), value.encode("latin1")) for name, value in headers.items()]
    with TestClient(make_app(jobs, runner, key=key), base_url="http://127.0.0.1:8766") as client:
        allowed = {400, 403, 413} | ({401} if key else {200} if not {"Host", "Origin"} & set(headers) else set())
        assert client.get("/api/jobs", headers=raw).status_code in allowed


@pytest.mark.parametrize(
    "body",
    [b'{"clip":"\\ud800"}', b'{"clip":1e999}', b'{"clip":' + b"9" * 5000 + b"}", b'{"\\ud800":1}', b"\xff", b"{"],
)
def test_malformed_bodies_are_no_defect(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/jobs", headers={"Content-Type": "application/json"}, content=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]


@pytest.mark.parametrize("odd", ["%ed%a0%80", "%00", "%ff", "9" * 5000, "%f0%9f%a5%81"])
def test_odd_names_are_no_defect(client: TestClient, odd: str, until: Until) -> None:
    number = finished(client, until)
    assert client.get(f"/api/jobs/{odd}").status_code in (404, 405)
    assert client.get(f"/api/jobs/{number}/files/{odd}").status_code == 404
    assert client.get(f"/web/{odd}").status_code == 404
    added = client.post(f"/api/uploads?name={odd}", content=b"film")
    assert added.status_code == 200
    assert added.json()["name"].isprintable()


def test_clips_whose_names_are_not_text(jobs: Jobs, runner: Runner, tmp_path: Path, until: Until) -> None:
    films = tmp_path / "films\udcff"
    films.mkdir()
    (films / "good \udce9.mp4").write_bytes(b"film")  # Latin-1 on a disk that is read as UTF-8
    app = make_app(jobs, runner, Shelf(films))
    with TestClient(app, base_url="http://127.0.0.1:8766") as client:
        assert client.get("/api/session").json()["folder"] == "films?"
        (clip,) = client.get("/api/clips").json()
        assert clip["name"] == "good ?.mp4"
        number = client.post("/api/jobs", json={"clip": clip["id"]}).json()["id"]
        until(lambda: client.get(f"/api/jobs/{number}").json()["state"] == "done")
        assert client.get(f"/api/jobs/{number}/video").content == b"film"


def test_from_other_machines_only_with_the_key(jobs: Jobs, runner: Runner) -> None:
    with TestClient(make_app(jobs, runner, key="secret"), base_url="http://studio:8766") as client:
        for path in ("/", "/api/jobs", "/web/app.js"):
            assert client.get(path).status_code == 401
        assert upload(client, "good.mp4").status_code == 401
        assert client.get("/enter", params={"key": "guess"}).status_code == 401
        somebody = client.get("/", headers={"Accept": "text/html,*/*"})  # reads plain words
        assert somebody.status_code == 401
        assert somebody.text == "Follow the link that the server printed when it started."
        assert client.get("/enter", params={"key": "secret"}).status_code == 200  # and on to the page
        assert client.get("/api/jobs").json() == []
    with pytest.raises(ConfigError, match="without a key"):
        serve(jobs, None, {}, host="0.0.0.0")


def test_a_port_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert run(["serve", "--work", str(tmp_path / "work"), "--no-browser", "--port", port]) == 2
    assert "--port" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "says"), [(["missing"], "not a folder"), (["--limit-mb", "0"], "--limit-mb")])
def test_bad_options(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_the_server_itself_does_without_torch() -> None:
    code = "import sys, soundwhere.cli.serve, soundwhere.serve.server; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_a_cancelled_clip_is_tried_again(client: TestClient, until: Until) -> None:
    number = upload(client, "slow.mp4").json()["id"]
    until(lambda: client.get(f"/api/jobs/{number}").json()["state"] == "working")
    client.post(f"/api/jobs/{number}/cancel")
    assert client.post(f"/api/jobs/{number}/retry").json()["state"] == "waiting"
    until(lambda: client.get(f"/api/jobs/{number}").json()["state"] == "working")
    assert client.post("/api/jobs/0123456789abcdef/retry").status_code == 404


def test_what_was_chosen_goes_with_the_clip(client: TestClient, jobs: Jobs, shelf: Shelf) -> None:
    models = client.get("/api/session").json()["models"]
    assert {"scav-tiny", "scav-mobile"} <= set(models)
    assert client.get("/api/session").json()["usual"] == {"fps": 5.0, "sources": None}
    about = {"name": "good.mp4", "model": models[0], "fps": "2.5", "sources": "3", "batch": "7"}
    number = client.post("/api/uploads", params=about, content=b"film").json()["id"]
    assert jobs.get(number).options == {"model": models[0], "fps": 2.5, "sources": 3}
    assert jobs.get(number).batch == "7"
    clip = client.get("/api/clips").json()[0]["id"]
    picked = client.post("/api/jobs", json={"clip": clip, "sources": 1}).json()
    assert (picked["options"], jobs.get(picked["id"]).options) == ({"sources": 1}, {"sources": 1})


@pytest.mark.parametrize(
    "about",
    [{"model": "../secret"}, {"fps": "0"}, {"fps": "nan"}, {"sources": "8"}, {"sources": "x"}, {"batch": "x" * 99}],
)
def test_what_cannot_be_chosen_is_refused_and_leaves_nothing(
    client: TestClient, jobs: Jobs, about: dict[str, str], tmp_path: Path
) -> None:
    answer = client.post("/api/uploads", params={"name": "good.mp4", **about}, content=b"film")
    assert answer.status_code in (404, 422)
    assert answer.json()["error"]
    assert jobs.all() == []
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_photo_and_its_sound_become_one_job(client: TestClient, jobs: Jobs) -> None:
    half = client.post("/api/uploads", params={"name": "bark.wav", "half": "true"}, content=b"sound").json()
    assert jobs.all() == []
    answer = client.post("/api/uploads", params={"name": "dog.JPG", "sound": half["sound"]}, content=b"photo")
    job = jobs.get(answer.json()["id"])
    folder = jobs.folder(job)
    assert (job.name, job.clip) == ("dog.JPG", str(folder.absolute() / "clip.jpg"))
    assert ((folder / "clip.jpg").read_bytes(), (folder / "sound").read_bytes()) == (b"photo", b"sound")
    assert job.audio == str(folder.absolute() / "sound")
    for wrong in (half["sound"], "../../etc", "0123456789abcdef"):
        answer = client.post("/api/uploads", params={"name": "dog.jpg", "sound": wrong}, content=b"photo")
        assert answer.status_code == 404
        assert "Choose both" in answer.json()["remedy"]
