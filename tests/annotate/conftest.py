"""A small project: discs on plain ground, which the simple segmenter finds."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image as Pillow

from soundwhere.annotate.store import Store
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CENTRES = {"clip_000000": (40, 60), "clip_000010": (50, 90), "clip_000020": (60, 40), "clip_000030": (45, 110)}
KINDS = {"clip_000000": "dog barking", "clip_000010": "violin", "clip_000020": "dog barking", "clip_000030": "saw"}
SIZE = (100, 150)
RADIUS = 22


def disc(name: str) -> np.ndarray:
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    row, column = CENTRES[name]
    return (y - row) ** 2 + (x - column) ** 2 <= RADIUS**2


def picture(name: str) -> np.ndarray:
    rng = np.random.default_rng(CENTRES[name][0])
    image = np.full((*SIZE, 3), (70, 110, 160), np.uint8)
    image[disc(name)] = (220, 120, 40)
    return np.clip(image + rng.integers(-6, 7, image.shape), 0, 255).astype(np.uint8)


def box_norm(name: str) -> list[float]:
    row, column = CENTRES[name]
    height, width = SIZE
    return [
        (column - RADIUS - 2) / width,
        (row - RADIUS - 2) / height,
        (column + RADIUS + 2) / width,
        (row + RADIUS + 2) / height,
    ]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three frames without files, the last of them to be done twice."""
    store = Store(tmp_path / "annotations.sqlite")
    for number, (name, kind) in enumerate(list(KINDS.items())[:3]):
        store.add_frame(name, kind, [tuple(box_norm(name))], SIZE, f"{number}.png", "", double=number == 2)
    return store


@pytest.fixture(scope="session")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `benchmark init` takes: vggss.json, frames/ and audio/ of four clips, and a fifth clip without media."""
    root = tmp_path_factory.mktemp("media")
    (root / "frames").mkdir()
    (root / "audio").mkdir()
    tone = (0.2 * np.sin(2 * np.pi * 330 * np.arange(3 * 22_050) / 22_050)).astype(np.float32)
    for name in CENTRES:
        Pillow.fromarray(picture(name)).save(root / "frames" / f"{name}.png")
        write_wav(root / "audio" / f"{name}.wav", tone)
    entries = [{"file": name, "class": KINDS[name], "bbox": [box_norm(name)]} for name in CENTRES]
    entries.append({"file": "gone_000040", "class": "saw", "bbox": [[0.1, 0.1, 0.5, 0.5]]})
    (root / "vggss.json").write_text(json.dumps(entries))
    return root


class Server:
    """`soundwhere annotate` in a process of its own, as a user starts it."""

    def __init__(self, root: Path, port: int = 0, *options: str) -> None:
        if not port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
        self.port, self.address = port, f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "soundwhere", "annotate", str(root), "--port", str(port), "--no-browser"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None, "the server ended"
                assert time.monotonic() < end, "the server did not start"
                time.sleep(0.05)

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Starts servers; those that still run at the end are stopped."""
    running: list[Server] = []

    def begin(root: Path, port: int = 0, *options: str) -> Server:
        running.append(Server(root, port, *options))
        return running[-1]

    yield begin
    for server in running:
        server.kill()
