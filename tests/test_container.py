"""What compose.yaml runs, on a root file system that cannot be written to, as nobody in particular and without a home.

No container engine is needed: a mount namespace gives the same walls. .ci/run does so with what the wheel installs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text(encoding="utf-8")
USER = 10001

# Mounts are made while everything can still be written to; what was bound before stays as it was.
WALLS = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt && mkdir /mnt/python /mnt/home /mnt/data
mount --bind "$1" /mnt/python && mount --bind "$2" /mnt/home && mount --bind "$3" /mnt/data
mount -t tmpfs -o mode=755 tmpfs /root
[ "${2#/root/}" = "$2" ] || { mkdir -p "$2" && mount --bind /mnt/home "$2"; }
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -o remount,bind,ro /
cd /mnt/data && shift 3
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
  env -i PATH=/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 XDG_CACHE_HOME=/tmp/cache \
  /mnt/python/bin/python -m soundwhere "$@"
"""


def walled(folder: Path, *arguments: str) -> list[str]:
    """The command behind walls; `/mnt/data` is the folder, and all that can be written to besides /tmp."""
    bare = os.environ.get("SOUNDWHERE_README_BIN")
    if bare is None:
        pytest.skip("needs the environment that `.ci/run wheel` makes: SOUNDWHERE_README_BIN")
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv"))):
        pytest.skip("needs root, unshare and setpriv")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("mount namespaces are not allowed here")
    os.chown(folder, USER, USER)
    home = Path(os.path.realpath(f"{bare}/python")).parents[1]
    places = (str(Path(bare).parent), str(home), str(folder))
    return ["unshare", "--mount", "sh", "-c", WALLS, "sh", *places, *arguments]


def ask(host: str, path: str, headers: dict[str, str]) -> HTTPResponse:
    connection = HTTPConnection(host, timeout=30)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def test_a_clip_is_localised_and_nothing_else_is_written(tmp_path: Path, clip_path: Path) -> None:
    shutil.copy(clip_path, tmp_path / "clip.mp4")
    run = subprocess.run(walled(tmp_path, "clip.mp4"), capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stderr
    assert json.loads((tmp_path / "clip.soundwhere" / "result.json").read_text())["sources"] is not None
    refused = subprocess.run(walled(tmp_path, "clip.mp4", "--out", "/var/tmp/found"), capture_output=True, text=True)
    assert refused.returncode == 2
    assert "cannot be written" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_command_of_the_image_serves(tmp_path: Path) -> None:
    command = json.loads(re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)[-1])
    command = [word.replace("/data", "/mnt/data") for word in command] + ["--port", "0"]
    with subprocess.Popen(walled(tmp_path, *command), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            link = next(found[0] for line in iter(server.stdout.readline, "") if (found := re.search(r"http\S+", line)))
            host, path = re.fullmatch(r"http://([^/]+)(/enter\?key=.+)", link).groups()  # type: ignore[union-attr]
            # as a proxy passes it on: under another name, from a page of that name
            outside = {"Host": "clips.localhost", "Origin": "https://clips.localhost"}
            assert ask(host, "/api/clips", outside).status == 401
            cookie = ask(host, path, outside).headers["set-cookie"].split(";")[0]
            assert ask(host, "/api/clips", outside | {"Cookie": cookie}).status == 200
            assert (tmp_path / "clips" / "key").stat().st_uid == USER
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def test_the_image_runs_as_the_user_that_is_tested() -> None:
    assert f"USER {USER}:{USER}\n" in DOCKERFILE
    assert f"--uid {USER} " in DOCKERFILE
    serve = re.findall(r"^    command: \[(.*)\]$", COMPOSE, re.MULTILINE)[0]
    assert [word.strip() for word in serve.split(",")] == json.loads(re.findall(r"^CMD (.*)$", DOCKERFILE, re.M)[-1])
    for wall in ("read_only: true", "cap_drop: [ALL]", "no-new-privileges:true", "internal: true"):
        assert wall in COMPOSE
