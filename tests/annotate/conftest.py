"""A small project: discs on plain ground, which the simple segmenter finds."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow

from soundwhere.annotate.project import Project, initialise
from soundwhere.annotate.store import Store
from soundwhere.data.benchmarks.media import MediaFolder
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

CENTRES = {"clip_000000": (40, 60), "clip_000010": (50, 90), "clip_000020": (60, 40), "clip_000030": (45, 110)}
KINDS = {"clip_000000": "dog barking", "clip_000010": "violin", "clip_000020": "dog barking", "clip_000030": "saw"}
SIZE = (100, 150)
RADIUS = 22

CHROMIUM = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
PATIENCE_MS = 60_000


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


class Caller:
    """Somebody whose page asks the server."""

    def __init__(self, client: Any, name: str, token: str = "") -> None:
        self.client = client
        self.headers = {"X-Annotator": name} | ({"Authorization": f"Bearer {token}"} if token else {})
        self.sent = 0

    def get(self, path: str) -> Any:
        return self.client.get(path, headers=self.headers)

    def post(self, path: str, **body: Any) -> Any:
        return self.client.post(path, headers=self.headers, json=body)

    def decide(self, task: int, kind: str, base: int, **more: Any) -> Any:
        self.sent += 1
        request = more.pop("request", f"{self.headers['X-Annotator']}-{task}-{self.sent}-{time.time_ns()}")
        return self.post(f"/api/tasks/{task}/decisions", kind=kind, base=base, request=request, **more)


@pytest.fixture
def caller() -> type[Caller]:
    """`caller(client, "ann", token)`: somebody whose page asks the server."""
    return Caller


@pytest.fixture
def project(tmp_path: Path, media: Path) -> Project:
    """Four frames to do."""
    initialise(tmp_path / "project", media / "vggss.json", MediaFolder(media), licence="CC BY 4.0")
    return Project(tmp_path / "project")


class Server:
    """`soundwhere annotate` in a process of its own."""

    def __init__(
        self, start_program: Callable[..., Any], roots: Path | list[Path], port: int = 0, *options: str
    ) -> None:
        if not port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
        self.port, self.address = port, f"http://127.0.0.1:{port}"
        places = [str(root) for root in (roots if isinstance(roots, list) else [roots])]
        self.process = start_program("annotate", *places, "--port", str(port), "--no-browser", *options)
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
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)


@pytest.fixture
def start(start_program: Callable[..., Any]) -> Iterator[Callable[..., Server]]:
    """Starts servers; those that still run at the end are stopped."""
    running: list[Server] = []

    def begin(roots: Path | list[Path], port: int = 0, *options: str) -> Server:
        running.append(Server(start_program, roots, port, *options))
        return running[-1]

    yield begin
    for server in running:
        server.kill()


class Person:
    """Somebody at the page; whatever the page complains about in its console is kept in `complaints`."""

    def __init__(self, browser: Browser, address: str, name: str, wait: bool = True, **options: Any) -> None:
        from playwright.sync_api import expect

        expect.set_options(timeout=PATIENCE_MS)
        self.expect = expect
        self.page: Page = browser.new_context(viewport={"width": 1280, "height": 800}, **options).new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
        if name:
            self.page.fill("#login-name", name)
            self.page.keyboard.press("Enter")
        if wait:
            self.ready()

    def ready(self) -> None:
        """Wait until the candidates are there."""
        self.expect(self.page.locator("[data-candidate='2'] span")).to_have_text(re.compile(r"^[01]\.\d\d$"))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def saved(self) -> None:
        self.expect(self.page.locator("#saved")).to_have_text("saved")

    def at(self, x: float, y: float, size: tuple[int, int] = SIZE) -> tuple[float, float]:
        """Where a pixel of the frame lies on the screen when the whole picture is shown."""
        box = self.page.locator("#stage").bounding_box()
        assert box is not None
        height, width = size
        scale = min(box["width"] / width, (box["height"] - 56) / height)
        left = box["x"] + (box["width"] - width * scale) / 2
        top = box["y"] + (box["height"] - 50 - height * scale) / 2
        return left + x * scale, top + y * scale

    def click(self, x: float, y: float, button: Any = "left") -> None:
        """Click a pixel of the frame."""
        self.page.mouse.click(*self.at(x, y), button=button)

    def drag(self, start: tuple[float, float], end: tuple[float, float], button: Any = "left") -> None:
        """Drag from a pixel of the frame to another."""
        self.page.mouse.move(*self.at(*start))
        self.page.mouse.down(button=button)
        self.page.mouse.move(*self.at(*((a + b) / 2 for a, b in zip(start, end, strict=True))))
        self.page.mouse.move(*self.at(*end))
        self.page.mouse.up(button=button)

    def keep_picture(self, name: str) -> None:
        """Keep what the page looks like, if SOUNDWHERE_SCREENSHOTS names a folder."""
        folder = os.environ.get("SOUNDWHERE_SCREENSHOTS")
        if folder:
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)

    def name(self) -> str:
        return (self.page.locator("#name").text_content() or "").split(" ")[0]

    def state(self, text: str) -> None:
        self.expect(self.page.locator("#state")).to_have_text(text)

    def objects(self, count: int) -> None:
        self.expect(self.page.locator("#objects .object")).to_have_count(count)

    def confirm(self, count: int) -> None:
        """Confirm an object, the frame's `count`-th."""
        self.press("Space")
        self.objects(count)
        self.saved()

    def leave(self, key: str = "ArrowRight") -> None:
        """Go on to the next frame and wait for it; at the end wait for that."""
        before = self.page.locator("#name").text_content() or ""
        self.press(key)
        self.expect(self.page.locator("#name")).not_to_have_text(before)
        if self.page.locator("#empty").is_hidden():
            self.ready()


@pytest.fixture(scope="module")  # a second playwright in one thread is refused, so it ends with the module
def browser(chromium: str) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Person]]:
    """Brings somebody to the page at an address; at the end all pages are closed, or they would go on asking."""
    yield lambda address, name="", **options: Person(browser, address, name, **options)
    for context in browser.contexts:
        context.close()
