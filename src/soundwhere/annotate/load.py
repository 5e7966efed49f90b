"""Many annotators at once, simulated: is everything saved, and how long does an answer take?"""

from __future__ import annotations

import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image as Pillow

from soundwhere.annotate.project import Project, initialise
from soundwhere.data.benchmarks.media import MediaFolder
from soundwhere.errors import SoundwhereError
from soundwhere.files import make_folder, write_json

if TYPE_CHECKING:
    from pathlib import Path

_START_S = 180.0  # on a busy machine; usually 3
_SIDE = (96, 128)


@dataclass
class LoadReport:
    """What a load test found.

    Attributes:
        confirmed: Decisions that the server said are saved.
        stored: Decisions that are in the store afterwards.
        lost: Confirmed but not stored.
        errors: Answers that were neither success nor conflict.
        seconds: How long each answer took.
    """

    confirmed: int = 0
    stored: int = 0
    lost: int = 0
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        late = quantiles(self.seconds, n=20)[-1] if len(self.seconds) > 1 else float("nan")
        return (
            f"{self.confirmed} decisions confirmed, {self.stored} stored, {self.lost} lost, {len(self.errors)} errors; "
            f"median answer {1000 * median(self.seconds):.0f} ms, 95 % within {1000 * late:.0f} ms"
        )


def load_test(folder: Path, annotators: int = 8, decisions: int = 2000) -> LoadReport:
    """Start a server on made-up frames and let simulated annotators decide as fast as they are answered.

    Args:
        folder: An empty folder for the project.
        annotators: How many at once.
        decisions: How many together.
    """
    frames = max(annotators * 2, decisions // 40)
    project = _made_up(folder, frames)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "soundwhere", "annotate", str(project.root), "--port", str(port), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    report, confirmed = LoadReport(), set[int]()
    try:
        _wait(port, process)
        lock = threading.Lock()
        shares = [decisions // annotators + (number < decisions % annotators) for number in range(annotators)]
        people = [
            threading.Thread(target=_work, args=(port, str(number), share, number, report, confirmed, lock))
            for number, share in enumerate(shares)
        ]
        for person in people:
            person.start()
        for person in people:
            person.join()
    finally:
        process.kill()
        process.wait()
    stored = {event.number for event in Project(project.root).store.events()}
    report.confirmed, report.stored, report.lost = len(confirmed), len(stored), len(confirmed - stored)
    return report


def _work(
    port: int, name: str, decisions: int, seed: int, report: LoadReport, confirmed: set[int], lock: threading.Lock
) -> None:
    """One annotator: choose, click, confirm, undo, go on."""
    rng = random.Random(seed)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        connection.request("POST", path, json.dumps(body), {"X-Annotator": name, "Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    view: dict[str, Any] = {}
    done = 0
    try:
        while done < decisions:
            if not view or rng.random() < 0.05:
                _, view = ask("/api/next", {"after": view.get("task", 0), "state": "all"})
                continue
            kind, more = _decide(rng, view)
            body = {"kind": kind, "base": view["revision"], "request": str(uuid.UUID(int=rng.getrandbits(128))), **more}
            start = time.perf_counter()
            status, answer = ask(f"/api/tasks/{view['task']}/decisions", body)
            took = time.perf_counter() - start
            with lock:
                report.seconds.append(took)
                if status == 200:
                    confirmed.add(answer["saved"])
                    done += 1
                elif status != 409:
                    report.errors.append(f"{status} {answer}")
                    done += 1
            view = answer.get("view", {})
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        with lock:
            report.errors.append(f"{name}: {error!r}")


def _decide(rng: random.Random, view: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    draft = view["draft"] or {"box": None, "candidate": None, "points": [], "strokes": []}
    if view["mask"] is not None and rng.random() < 0.3:
        return "object", {}
    if view["undoable"] and rng.random() < 0.1:
        return "undo", {}
    if view["redoable"] and rng.random() < 0.3:
        return "redo", {}
    if view["objects"] and rng.random() < 0.2:
        return "done", {}
    if rng.random() < 0.6 or len(draft.get("points", [])) > 5:
        prompts = {"box": 0, "candidate": rng.randrange(3), "points": [], "strokes": []}
        return "prompt", {"prompts": prompts}
    point = [rng.randrange(_SIDE[1]), rng.randrange(_SIDE[0]), rng.randrange(2)]
    return "prompt", {"prompts": {**draft, "points": [*draft.get("points", []), point]}}


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SoundwhereError("The server did not start.", "Run `soundwhere annotate` on a project to see why.")


def _made_up(folder: Path, frames: int) -> Project:
    """A project of small discs on noise."""
    rng = np.random.default_rng(0)
    pictures = make_folder(folder / "media" / "frames")
    y, x = np.mgrid[: _SIDE[0], : _SIDE[1]]
    entries = []
    for number in range(frames):
        image = rng.integers(60, 100, (*_SIDE, 3)).astype(np.uint8)
        row, column = rng.integers(30, 60, 2)
        image[(y - row) ** 2 + (x - column) ** 2 < 400] = (220, 130, 40)
        Pillow.fromarray(image).save(pictures / f"made_{number:06d}.png")
        box = [(column - 22) / _SIDE[1], (row - 22) / _SIDE[0], (column + 22) / _SIDE[1], (row + 22) / _SIDE[0]]
        entries.append({"file": f"made_{number:06d}", "class": f"kind {number % 5}", "bbox": [[float(v) for v in box]]})
    write_json(folder / "media" / "vggss.json", entries)
    initialise(folder / "project", folder / "media" / "vggss.json", MediaFolder(folder / "media"))
    return Project(folder / "project")
