"""Jobs with the real worker and a built-in model, over HTTP."""

from __future__ import annotations

import html
import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

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


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--runtime", "openvino"], "The runtime openvino cannot run "),
        (["--runtime", "torch", "--model", "a.onnx"], "The runtime torch cannot run a.onnx."),
        (["--sources", "8"], "Give --sources from 1 to 7."),
    ],
)
def test_what_no_job_could_be_done_with_ends_the_server(options: list[str], says: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "soundwhere", "serve", "--no-browser", "--port", "0", *options]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 2
    assert says in answer.stderr
