"""Jobs with the real worker and a built-in model, over HTTP."""

from __future__ import annotations

import html
import io
import struct
import wave
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from PIL import Image

from soundwhere.cli.main import run
from soundwhere.media.video import read_frames
from soundwhere.web.addresses import page_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Until = Callable[[Callable[[], bool]], None]


@pytest.fixture(scope="module")
def client(start: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    work = tmp_path_factory.mktemp("worker") / "work"
    server = start(work, "--model", "scav-tiny", "--runtime", "torch", "--sources", "3", "--fps", "2")
    with httpx.Client(base_url=server.address) as client:
        yield client
    assert server.end() == 0


def localised(client: httpx.Client, movie: Path, name: str, until: Until) -> str:
    """Upload a clip under a name, wait until it is done, and return the address of its job."""
    number = client.post("/api/uploads", params={"name": name}, content=movie.read_bytes()).json()["id"]
    until(lambda: client.get(f"/api/jobs/{number}").json()["state"] not in ("waiting", "working"))
    assert client.get(f"/api/jobs/{number}").json()["state"] == "done"
    return f"/api/jobs/{number}"


def test_jobs_are_done_as_the_command_says(client: httpx.Client, movie: Path, until: Until) -> None:
    job = localised(client, movie, "clip.mp4", until)
    result = client.get(f"{job}/files/result.json").json()
    assert (result["settings"]["sources"], result["settings"]["fps"]) == (3, 2)
    assert [source["number"] for source in result["sources"]] == [1, 2, 3]
    assert len(client.get(f"{job}/player").json()["sources"]) == 3


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Große Trommel 太鼓 🥁.mp4", "Große Trommel 太鼓 🥁.mp4"),
        ("<script>alert('1')<\\script>.mp4", "script>.mp4"),
        ("<script>alert('1') & $data.mp4", "<script>alert('1') & $data.mp4"),
        ("../../films/../<img src=x>.mp4", "<img src=x>.mp4"),
        ("..", ".."),
    ],
)
def test_results_carry_the_name_that_the_upload_came_with(
    client: httpx.Client, movie: Path, until: Until, given: str, name: str
) -> None:
    job = localised(client, movie, given, until)
    assert client.get(f"{job}/files/result.json").json()["file"] == name
    assert {image["file_name"] for image in client.get(f"{job}/files/coco.json").json()["images"]} == {name}
    assert client.get(f"{job}/player").json()["title"] == name
    page = client.get(f"{job}/files/index.html").text
    assert f"<h1>{html.escape(name)}</h1>" in page
    assert not any(tag in page for tag in ("<script>alert", "<img src=x"))
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"{job}/everything").content))
    top = {Path(inside).parts[0] for inside in archive.namelist()}
    assert len(top) == 1
    assert top.pop() not in ("..", ".", "/")


def test_other_machines_are_told_a_link_they_can_open(start: Callable[..., Any], tmp_path: Path) -> None:
    server = start(tmp_path / "work", "--model", "scav-tiny", "--host", "0.0.0.0")
    assert server.address.startswith("http://127.0.0.1:")
    expected = page_addresses("0.0.0.0", int(server.port))
    door = server.address.removeprefix(expected[0])
    for address in expected:
        assert httpx.get(address).status_code == 401
        assert httpx.get(address + door, follow_redirects=True).status_code == 200
    assert server.end() == 0
    printed = [line.split()[0] for line in server.said.splitlines() if line.startswith("http")]
    assert printed == [address + door for address in expected]


@pytest.mark.usefixtures("warm_workers")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--runtime", "openvino"], "The runtime openvino cannot run "),
        (["--runtime", "torch", "--model", "a.onnx"], "The runtime torch cannot run a.onnx."),
        (["--sources", "8"], "Give --sources from 1 to 7."),
        (["--model", "nowhere"], "There is no model named 'nowhere'"),
    ],
)
def test_what_no_job_could_be_done_with_ends_the_server(
    options: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["serve", "--no-browser", "--port", "0", *options]) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.out == ""  # no link to what is over


def failed(client: httpx.Client, name: str, content: bytes, until: Until) -> dict[str, Any]:
    number = client.post("/api/uploads", params={"name": name}, content=content).json()["id"]
    until(lambda: client.get(f"/api/jobs/{number}").json()["state"] not in ("waiting", "working"))
    job: dict[str, Any] = client.get(f"/api/jobs/{number}").json()
    assert job["state"] == "failed"
    return job


def bomb() -> bytes:
    """A small png that claims 900 megapixels."""

    def part(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    size = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", size) + part(b"IDAT", zlib.compress(b"\0" * 1000)) + part(b"IEND", b"")


def test_remedies_fit_what_was_dropped(client: httpx.Client, until: Until) -> None:
    photo, sound = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (40, 30)).save(photo, "JPEG")
    with wave.open(sound, "wb") as file:
        file.setparams((1, 2, 22_050, 0, "NONE", ""))
        file.writeframes(b"\0" * 44_100)
    svg = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    told = {
        name: failed(client, name, content, until)
        for name, content in {
            "evil.svg": svg,
            "bomb.png": bomb(),
            "photo.jpg": photo.getvalue(),
            "bark.wav": sound.getvalue(),
        }.items()
    }
    assert all("--" not in job["remedy"] for job in told.values())  # nobody types options on a page
    assert "video that plays" in told["evil.svg"]["remedy"]
    assert "megapixels" in told["bomb.png"]["error"]
    assert told["bomb.png"]["remedy"] == "Scale it down first."
    assert "together" in told["photo.jpg"]["remedy"]
    assert told["bark.wav"]["remedy"] == "Choose it together with a photo."
    assert all(job["error"].startswith(name) for name, job in told.items())


def test_a_photo_with_its_sound_and_what_was_chosen_for_it(client: httpx.Client, movie: Path, until: Until) -> None:
    photo = io.BytesIO()
    Image.fromarray(read_frames(movie, [0.5])[0].image).save(photo, "JPEG")
    half = client.post("/api/uploads", params={"name": "sound.mp4", "half": "true"}, content=movie.read_bytes()).json()
    about = {"name": "photo.jpg", "sound": half["sound"], "sources": "1", "fps": "4", "model": "scav-tiny"}
    number = client.post("/api/uploads", params=about, content=photo.getvalue()).json()["id"]
    until(lambda: client.get(f"/api/jobs/{number}").json()["state"] not in ("waiting", "working"))
    result = client.get(f"/api/jobs/{number}/files/result.json").json()
    assert (result["file"], len(result["sources"])) == ("photo.jpg", 1)
    assert result["end_s"] == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no sound", "The sound beside photo.jpg is not a media file that can be read."),
        (
            b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
            "The sound beside photo.jpg cannot be heard.",
        ),
    ],
)
def test_a_sound_that_is_none_is_told_without_its_place(
    content: bytes, words: str, client: httpx.Client, until: Until
) -> None:
    photo = io.BytesIO()
    Image.new("RGB", (40, 30)).save(photo, "JPEG")
    half = client.post("/api/uploads", params={"name": "bark.wav", "half": "true"}, content=content).json()
    about = {"name": "photo.jpg", "sound": half["sound"]}
    number = client.post("/api/uploads", params=about, content=photo.getvalue()).json()["id"]
    until(lambda: client.get(f"/api/jobs/{number}").json()["state"] == "failed")
    job = client.get(f"/api/jobs/{number}").json()
    assert job["error"] == words
    assert "--" not in job["remedy"]


def test_cancelling_leaves_no_traceback_in_the_log(
    start_program: Callable[..., Any], films: Path, tmp_path: Path, until: Until
) -> None:
    options = ["--work", str(tmp_path / "work"), "--no-browser", "--port", "0", "--model", "scav-tiny"]
    server = start_program("serve", str(films), *options)
    with httpx.Client(base_url=server.stdout.readline().split()[0]) as client:
        clip = next(each["id"] for each in client.get("/api/clips").json() if each["name"] == "long.mp4")
        for stage, done in (("localising", 0), ("localising", 1), ("", 0)):  # at different moments of a job
            number = client.post("/api/jobs", json={"clip": clip, "fps": 0.1}).json()["id"]

            def reached(number: int = number, least: tuple[str, int] = (stage, done)) -> bool:
                job = client.get(f"/api/jobs/{number}").json()
                return job["stage"] == least[0] and job["done"] >= least[1]

            until(reached)
            client.post(f"/api/jobs/{number}/cancel")
            until(lambda n=number: client.get(f"/api/jobs/{n}").json()["state"] == "cancelled")
    server.terminate()
    _, log = server.communicate(timeout=60)
    assert log == ""
