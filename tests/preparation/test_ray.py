"""The same work on a ray cluster: the same bytes, one lost node costs its shards only, a lost head is told."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from soundwhere.preparation.lists import Listing
from soundwhere.preparation.prepare import prepare
from soundwhere.preparation.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator

if not os.environ.get("SOUNDWHERE_REQUIRE_RAY"):
    pytest.importorskip("ray", reason="needs ray: pip install 'soundwhere[scale]'")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),  # of the clusters that are started here, and of nothing else
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
}


def descendants(process: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True).stdout.split()
    return [process, *(further for child in found for further in descendants(int(child)))]


@dataclass
class Node:
    """One machine of a cluster: `ray start --block` and all it started."""

    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Take it away."""
        if self.process.poll() is None:
            for process in descendants(self.process.pid):
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.process.wait()


@dataclass
class Cluster:
    """A head without processors, and nodes with one each."""

    address: str
    head: Node
    nodes: list[Node]


def ray_start(*arguments: str) -> Node:
    program = shutil.which("ray", path=str(Path(sys.executable).parent)) or "ray"
    command = [program, "start", "--block", "--include-dashboard=false", "--disable-usage-stats", *arguments]
    out = subprocess.DEVNULL
    return Node(subprocess.Popen(command, env=ENVIRONMENT, stdout=out, stderr=out, start_new_session=True))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster that has come up: ray gives its parts half a minute, which a busy machine may exceed."""
    for _ in range(4):
        made = start_cluster()
        if made is not None:
            break
    else:
        pytest.skip("ray does not start within its half minute on this machine")
    try:
        yield made
    finally:
        for node in (*made.nodes, made.head):
            node.kill()


def start_cluster() -> Cluster | None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    store = "--object-store-memory=80000000"
    made = Cluster(address, ray_start("--head", f"--port={port}", "--num-cpus=0", store), [])
    if not came_up(made, 1):
        made.head.kill()
        return None
    for _ in range(6):  # one after the other: each has half a minute
        made.nodes.append(ray_start(f"--address={address}", "--num-cpus=1", store))
        if not came_up(made, len(made.nodes) + 1):
            made.nodes.pop().kill()
        elif len(made.nodes) == 2:
            return made
    for node in (*made.nodes, made.head):
        node.kill()
    return None


LISTED = """
import ray, sys
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
print(sum(node["Alive"] for node in ray.nodes()))
"""


def came_up(cluster: Cluster, nodes: int) -> bool:
    """Whether so many nodes are there before one of them gives up."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        if any(node.process.poll() is not None for node in (cluster.head, *cluster.nodes)):
            return False
        command = [sys.executable, "-c", LISTED, cluster.address]
        listed = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
        if listed.stdout.strip() == str(nodes):
            return True
        time.sleep(1)
    return False


def start(cluster: Cluster | None, *arguments: Any) -> subprocess.Popen[str]:
    environment = ENVIRONMENT | ({"RAY_ADDRESS": cluster.address} if cluster else {})
    command = [sys.executable, "-m", "soundwhere", *map(str, arguments), "--on", "ray"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def peace(tmp_path_factory: pytest.TempPathFactory, videos: Path) -> Path:
    folder = tmp_path_factory.mktemp("peace")
    prepare(folder, Listing([videos]), Recipe(short_px=32), clips_per_shard=2, workers=1)
    return folder


def wait_until(condition: Any, run: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 400
    while not condition():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_node_costs_its_shards_only(
    cluster: Cluster, videos: Path, tmp_path: Path, peace: Path, hashes: Any
) -> None:
    run = start(cluster, "prepare", videos, "--out", tmp_path, "--short-px", "32", "--clips-per-shard", "2")
    wait_until(lambda: list(tmp_path.glob("shard-*.tar")), run)
    cluster.nodes[1].kill()
    said = run.communicate(timeout=600)
    assert run.returncode == 0, said
    assert "the set is complete" in said[1]
    assert hashes(tmp_path) == hashes(peace)


def test_a_lost_head_is_told_and_the_work_goes_on_elsewhere(
    cluster: Cluster, videos: Path, tmp_path: Path, peace: Path, hashes: Any
) -> None:
    arguments = ("prepare", videos, "--out", tmp_path, "--short-px", "32", "--clips-per-shard", "2")
    run = start(cluster, *arguments)
    wait_until(lambda: list(tmp_path.glob("shard-*.index")), run)
    cluster.head.kill()
    said = run.communicate(timeout=600)
    if run.returncode:  # unless it had finished
        assert run.returncode == 2
        assert "was lost" in said[1]
        assert "what is done is kept" in said[1]
    for node in cluster.nodes:
        node.kill()
    assert prepare(tmp_path, Listing([videos]), Recipe(short_px=32), clips_per_shard=2, workers=1).complete
    assert hashes(tmp_path) == hashes(peace)


def test_films_are_localised_on_ray(tmp_path: Path, videos: Path) -> None:
    films = tmp_path / "films"
    films.mkdir()
    for number in range(3):
        shutil.copy(next(videos.glob(f"{number}/*.mp4")), films / f"{number}.mp4")
    (films / "bad.mp4").write_text("not a video")
    arguments = ("localise", films, "--model", "scav-tiny", "--formats", "json", "--workers", 1, "--fps", 1)
    run = start(None, *arguments)
    said = run.communicate(timeout=800)
    assert run.returncode == 1, said  # one of the films is none
    assert sorted(path.parent.name for path in films.glob("*/result.json")) == [f"{n}.soundwhere" for n in range(3)]
    assert "3 localised, 0 skipped, 1 failed" in said[0]


def test_a_cluster_that_is_not_there_is_told(tmp_path: Path, videos: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = ENVIRONMENT | {"RAY_ADDRESS": f"127.0.0.1:{port}", "RAY_gcs_rpc_server_reconnect_timeout_s": "3"}
    command = [sys.executable, "-m", "soundwhere", "prepare", str(videos), "--out", str(tmp_path), "--on", "ray"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 2
    assert "cannot be reached" in run.stderr or "was lost" in run.stderr
    assert "Traceback" not in run.stderr
