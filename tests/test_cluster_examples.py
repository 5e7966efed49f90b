"""The scripts of examples/cluster/, run by the real thing: a Slurm with two nodes in a temporary folder, and ray."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from soundwhere.media.audio import write_wav
from soundwhere.preparation.verify import verify
from soundwhere.training.checkpoint import read_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPTS = Path(__file__).parents[1] / "examples" / "cluster"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not os.environ.get("SOUNDWHERE_CLUSTER_TESTS"),
        reason="takes minutes and the machine for itself: set SOUNDWHERE_CLUSTER_TESTS=1",
    ),
]

FLAGS = (
    "--model scav-tiny --frame-px 32 --dimension 16 --decoupler-layers 1 --decoupler-heads 2 --batch-size 4 "
    "--device cpu --checkpoint-every-s 100000 --log-every 1 --steps-one 30 --steps-two 1 --source shards"
)
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=60
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where `soundwhere` and `torchrun` are those of this Python."""
    folder = tmp_path_factory.mktemp("bin")
    for name, module in (("soundwhere", "soundwhere"), ("torchrun", "torch.distributed.run")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (folder / name).chmod(0o755)
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"])
    python = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PATH": path, "PYTHONPATH": python, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment of a Slurm with two nodes of one processor each, and a munge, started here."""
    path = environment["PATH"]
    programs = {name: shutil.which(name, path=path) for name in ("munged", "slurmctld", "slurmd", "sbatch")}
    if not all(programs.values()) or os.geteuid() != 0:
        pytest.skip("needs Slurm and munge (Debian: slurm-wlm, munge), and root to start them")
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    configuration = folder / "slurm.conf"
    host = socket.gethostname().split(".")[0]
    configuration.write_text(CONFIGURATION.format(folder=folder, host=host, ports=free_ports(3)))
    settings = {**environment, "SLURM_CONF": str(configuration)}
    places = {"key-file": key} | {f"{name}-file": folder / f"munge.{name}" for name in ("pid", "log", "seed")}
    places["socket"] = folder / "munge.socket"
    munge = ["--foreground", "--force", *(f"--{name}={place}" for name, place in places.items())]
    commands = [
        ["munged", *munge],
        ["slurmctld", "-D", "-i"],
        ["slurmd", "-D", "-N", "n1"],
        ["slurmd", "-D", "-N", "n2"],
    ]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        deadline = time.monotonic() + 60
        for name, *flags in commands:
            quiet = subprocess.DEVNULL
            daemons.append(subprocess.Popen([str(programs[name]), *flags], env=settings, stdout=quiet, stderr=quiet))
            while not places["socket"].exists() and time.monotonic() < deadline:  # the others ask munge at once
                time.sleep(0.1)
        while call(settings, "sinfo", "-h", "-N", "-p", "all", "-o", "%T").split() != ["idle", "idle"]:
            if time.monotonic() > deadline or any(daemon.poll() is not None for daemon in daemons):
                logs = "\n".join(log.read_text()[-1500:] for log in folder.glob("*log"))
                pytest.skip(f"Slurm does not start here: {logs}")
            time.sleep(0.5)
        yield settings
    finally:
        call(settings, "scancel", "--user", "root")
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)


def call(settings: dict[str, str], *arguments: str | Path) -> str:
    run = subprocess.run([*map(str, arguments)], env=settings, capture_output=True, text=True, timeout=120)
    return run.stdout + run.stderr


def finished(settings: dict[str, str], job: str, log: Path) -> str:
    """Wait until a job has left the queue; what it said."""
    deadline = time.monotonic() + 600
    while call(settings, "squeue", "-h", "-j", job).strip().startswith(tuple("0123456789")):
        assert time.monotonic() < deadline, call(settings, "squeue")
        time.sleep(0.5)
    return "\n".join(path.read_text() for path in sorted(log.parent.glob(f"{log.name}*")))


def submit(settings: dict[str, str], folder: Path, *arguments: str | Path) -> tuple[str, Path]:
    log = folder / "job"
    said = call(settings, "sbatch", "--parsable", "--chdir", folder, "--output", f"{log}-%A-%a.txt", *arguments)
    assert said.strip().isdigit(), said
    return said.strip(), log


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    for number in range(6):
        Image.new("RGB", (40, 40), (40 * number, 0, 200)).save(folder / f"{number}.png")
        tone = np.sin(np.arange(4 * 22_050) * (0.02 + 0.01 * number)).astype(np.float32)
        write_wav(folder / f"{number}.wav", 0.3 * tone)
    return folder


@pytest.fixture(scope="module")
def shards(slurm: dict[str, str], films: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a job array made."""
    folder = tmp_path_factory.mktemp("array")
    shards = folder / "shards"
    what = (SCRIPTS / "prepare.sbatch", films, "--out", shards, "--clips-per-shard", "2")
    job, log = submit(slurm, folder, "--array=0-1", *what)
    said = finished(slurm, job, log)
    assert (shards / "index.bin").exists(), said
    return shards


def test_an_array_of_slurm_prepares_a_set(shards: Path) -> None:
    assert len(list(shards.glob("*.tar"))) == 3
    result = verify(shards, workers=1)
    assert (result.clips, result.findings) == (6, ())


def test_slurm_trains_is_preempted_and_goes_on(slurm: dict[str, str], shards: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = slurm | {"HEAD_ADDRESS": "127.0.0.1", "PORT": str(free_ports(1)[0])}
    what = (SCRIPTS / "train.sbatch", *FLAGS.split(), "--root", shards, "--out", run)
    job, log = submit(settings, tmp_path, "--nodes=2", *what)
    deadline = time.monotonic() + 400
    while not (run / "metrics.jsonl").exists() or len((run / "metrics.jsonl").read_text().splitlines()) < 3:
        assert time.monotonic() < deadline, finished(settings, job, log)
        time.sleep(0.2)
    urgent, _ = submit(settings, tmp_path, "--partition=urgent", "--nodes=2", "--wrap=sleep 1")  # gets the room
    while not (run / "latest.safetensors").exists():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    saved = read_progress(run / "latest.safetensors")[1]
    assert saved.stage == "one"
    assert saved.step >= 3
    finished(settings, urgent, log)
    call(settings, "scontrol", "release", job)
    call(settings, "scontrol", "update", f"JobId={job}", "StartTime=now")
    said = finished(settings, job, log)
    place = read_progress(run / "latest.safetensors")[1]
    assert (place.stage, place.step) == ("two", 1), said
    assert "PREEMPTION" in said


def test_slurm_queues_a_training_again_whose_time_is_up(slurm: dict[str, str], shards: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = slurm | {"HEAD_ADDRESS": "127.0.0.1", "PORT": str(free_ports(1)[0])}
    what = (SCRIPTS / "train.sbatch", *FLAGS.replace("one 30", "one 100000").split(), "--root", shards, "--out", run)
    job, log = submit(settings, tmp_path, "--nodes=2", "--time=3", "--signal=B:USR1@45", *what)
    deadline = time.monotonic() + 400
    while "Restarts=1" not in (state := call(settings, "scontrol", "show", "job", job)):
        assert time.monotonic() < deadline, state
        assert "JobState=FAILED" not in state
        time.sleep(0.5)
    call(settings, "scancel", job)
    said = finished(settings, job, log)
    assert (run / "latest.safetensors").exists(), said
    saved = read_progress(run / "latest.safetensors")[1]
    assert saved.stage == "one"
    assert 0 < saved.step < 100000


def test_the_ray_job_prepares_a_set(environment: dict[str, str], films: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs ray: pip install 'soundwhere[scale]'")
    settings = environment | {"PORT": str(free_ports(1)[0])}
    settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    settings |= {"RAY_HEAD_FLAGS": "--num-cpus=1 --object-store-memory=80000000"}
    run = subprocess.run(
        [SCRIPTS / "prepare_on_ray.sh", films, "--out", tmp_path / "shards", "--clips-per-shard", "3"],
        env=settings,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert "the set is complete" in run.stderr, run.stderr
    result = verify(tmp_path / "shards", workers=1)
    assert (result.clips, result.findings) == (6, ())
