"""The same work on a ray cluster: the same bytes, one lost node costs its shards only, a lost head is told."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from soundwhere.data.shard_index import read_index
from soundwhere.preparation.lists import Listing
from soundwhere.preparation.prepare import prepare
from soundwhere.preparation.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

if not os.environ.get("SOUNDWHERE_REQUIRE_RAY"):
    pytest.importorskip("ray", reason="needs ray: pip install 'soundwhere[scale]'")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "150",
    "RAY_agent_register_timeout_ms": "150000",
    "RAY_worker_register_timeout_seconds": "300",
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
    log: Path

    def came_up(self) -> bool:
        """Wait until it says that it is part of the cluster; False if it gives up instead."""
        deadline = time.monotonic() + 150
        while time.monotonic() < deadline and self.process.poll() is None:
            if b"Ray runtime started" in self.log.read_bytes():
                return True
            time.sleep(0.1)
        self.kill()
        return False

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


def ray_start(folder: Path, *arguments: str) -> Node:
    flags = ["--block", "--disable-usage-stats", "--object-store-memory=80000000"]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", *flags, *arguments]
    log = folder / f"{secrets.token_hex(4)}.log"
    with log.open("wb") as out:
        return Node(subprocess.Popen(command, env=ENVIRONMENT, stdout=out, stderr=out, start_new_session=True), log)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster that has come up: ray gives its parts half a minute each, which a busy machine may exceed."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as place:  # sockets: short
        folder = Path(place)
        started: list[Node] = []

        def one(*arguments: str) -> Node:
            for _ in range(4):
                started.append(ray_start(folder, *arguments))
                if started[-1].came_up():
                    return started[-1]
            return pytest.fail(f"ray does not start: {started[-1].log.read_text()[-3000:]}")

        address = f"127.0.0.1:{free_port()}"
        try:
            port = address.split(":")[1]
            head = one("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={place}")
            yield Cluster(address, head, [one(f"--address={address}", "--num-cpus=1") for _ in range(2)])
        finally:
            for node in reversed(started):
                node.kill()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start(cluster: Cluster, *arguments: Any, environment: Mapping[str, str] = ENVIRONMENT) -> subprocess.Popen[str]:
    environment = {**ENVIRONMENT, **environment, "RAY_ADDRESS": cluster.address}
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


def test_a_lost_head_is_told_and_the_work_goes_on_elsewhere(cluster: Cluster, videos: Path, tmp_path: Path) -> None:
    """With far more to do than can be done in the seconds for which ray waits for its head."""
    films = sorted(path.relative_to(videos) for path in videos.glob("*/*.mp4"))
    rows = [f"{film},{start / 100},{start / 100 + 1}" for start in range(300) for film in films]
    table = tmp_path / "list.csv"
    table.write_text("file,start,end\n" + "\n".join(rows) + "\n")
    shards = tmp_path / "shards"
    flags = ("--roots", videos, "--out", shards, "--short-px", "32", "--clips-per-shard", "2")
    run = start(cluster, "prepare", table, *flags, environment={"RAY_gcs_rpc_server_reconnect_timeout_s": "10"})
    wait_until(lambda: list(shards.glob("shard-*.index")), run)
    cluster.head.kill()
    said = run.communicate(timeout=600)
    assert run.returncode == 2, said
    assert f"The ray cluster {cluster.address} was lost" in said[1]
    assert "what is done is kept" in said[1]
    assert "Traceback" not in said[1]
    for node in cluster.nodes:
        node.kill()
    done = sorted(shards.glob("shard-*.index"))
    for index in done:
        header, _ = read_index(index)
        assert hashlib.sha256(index.with_suffix(".tar").read_bytes()).hexdigest() == header["tar_sha256"]
    first = sum(int(index.stem[-6:]) < 4 for index in done)
    report = prepare(
        shards, Listing([table], [videos]), Recipe(short_px=32), clips_per_shard=2, shard_range=(0, 4), workers=1
    )
    assert (report.kept, report.made) == (first, 4 - first)
    assert first > 0


def test_films_are_localised_on_ray_as_by_workers(tmp_path: Path, videos: Path) -> None:
    """Also where a cluster was that is no more, whose address ray remembers."""
    films = tmp_path / "films"
    films.mkdir()
    for number in range(3):
        shutil.copy(next(videos.glob(f"{number}/*.mp4")), films / f"{number}.mp4")
    (films / "bad.mp4").write_text("not a video")
    arguments = ["localise", str(films), "--model", "scav-tiny", "--formats", "json", "--workers", "1", "--fps", "1"]
    command = [sys.executable, "-m", "soundwhere", *arguments]
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as place:
        (Path(place) / "ray").mkdir()
        (Path(place) / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{free_port()}")
        environment = {**ENVIRONMENT, "RAY_TMPDIR": place}
        outs = {"ray": ["--on", "ray"], "workers": []}
        for name, engine in outs.items():
            how = [*command, *engine, "--out", str(tmp_path / name)]
            run = subprocess.run(how, env=environment, capture_output=True, text=True, timeout=600)
            assert run.returncode == 1, run  # one of the films is none
            assert "3 localised, 0 skipped, 1 failed" in run.stdout
        how = [*command, *outs["ray"], "--out", str(tmp_path / "ray")]
        (films / "bad.mp4").unlink()
        run = subprocess.run(how, env=environment, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, run
        assert "0 localised, 3 skipped, 0 failed" in run.stdout
    found = [
        {path.parent.name: json.loads(path.read_text()) for path in (tmp_path / name).glob("*/result.json")}
        for name in outs
    ]
    assert sorted(found[0]) == [f"{number}.soundwhere" for number in range(3)]
    assert found[0] == found[1]


def test_a_cluster_that_is_not_there_is_told(tmp_path: Path, videos: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "soundwhere", "prepare", str(videos), "--out", str(tmp_path), "--on", "ray"]
    environment = ENVIRONMENT | {"RAY_ADDRESS": address}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert run.returncode == 2
    assert f"The ray cluster {address} cannot be reached: [Errno 111] Connection refused" in run.stderr
    assert "ray start --head" in run.stderr
    assert "Traceback" not in run.stderr
