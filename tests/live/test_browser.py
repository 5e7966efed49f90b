"""The live page in a real browser, whose camera and microphone are a scene of the made-up world."""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect, sync_playwright

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.synthetic.world import World, boxes
from soundwhere.media.audio import write_wav
from soundwhere.media.video import probe
from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

    Scene = dict[str, Any]

pytestmark = pytest.mark.browser

OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    "--host-resolver-rules=MAP camera.example 127.0.0.1",
]
PATIENCE_MS = 120_000
FIGURES = "({answers: soundwhere.live.answers, latencies: soundwhere.live.latencies, onsets: soundwhere.live.onsets})"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A trumpet and a phone. It is silent for 1.5 s, then the trumpet sounds for 4 s; over and over again."""
    folder = tmp_path_factory.mktemp("scene")
    world = World(seed=3, size=(240, 320), seconds=4.0)
    things = world.cast(5, 1, 1)
    image, masks = world.picture(5, things)
    sound = np.concatenate([np.zeros(round(1.5 * SAMPLE_RATE_HZ), np.float32), world.sound(5, things[0])])
    with (folder / "camera.y4m").open("wb") as file:
        file.write(b"YUV4MPEG2 W320 H240 F10:1 Ip A1:1 C420jpeg\n")
        planes = av.VideoFrame.from_ndarray(image, format="rgb24").to_ndarray(format="yuv420p").tobytes()
        file.write((b"FRAME\n" + planes) * 10)
    write_wav(folder / "microphone.wav", sound)
    with VideoWriter(folder / "clip.mp4", 320, 240, 10, waveform=sound) as video:
        for _ in range(55):
            video.write(image)
    return {"folder": folder, "boxes": boxes(masks), "image": image}


@pytest.fixture(scope="module")
def browser(chromium: str, scene: Scene) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    fake = [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-video-capture={scene['folder'] / 'camera.y4m'}",
        f"--use-file-for-fake-audio-capture={scene['folder'] / 'microphone.wav'}",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*OPTIONS, *fake])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(start_live: Callable[..., Any]) -> Any:
    return start_live("--sources", "1")


def opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address)
    return page


@pytest.fixture
def page(browser: Browser, server: Any) -> Iterator[Page]:
    """The page; whatever it complains about fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    complaints: list[str] = []
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if "Content Security" in message.text else None)
    page.goto(server.address)
    yield page
    context.close()
    assert complaints == []


def soon(page: Page, what: str, patience_ms: int = PATIENCE_MS) -> Any:
    """Wait for something in the page, without `eval`, which the page forbids."""
    end = time.monotonic() + patience_ms / 1000
    while not (found := page.evaluate(what)):
        assert time.monotonic() < end, what
        page.wait_for_timeout(50)
    return found


def alpha(page: Page) -> np.ndarray:
    """How opaque the heat over the picture is, on a grid of 24 by 32, in [0, 1]."""
    values = page.evaluate(
        """() => { const small = document.createElement("canvas"), from = document.getElementById("heat");
        small.width = 32; small.height = 24; const context = small.getContext("2d");
        context.drawImage(from, 0, 0, 32, 24);
        return Array.from(context.getImageData(0, 0, 32, 24).data).filter((_, i) => i % 4 === 3); }"""
    )
    return np.array(values).reshape(24, 32) / 255


def centre(heat: np.ndarray) -> tuple[float, float]:
    """The middle of what is hottest, in pixels of the scene."""
    rows, columns = np.nonzero(heat > 0.9 * heat.max())
    return 10 * (columns.mean() + 0.5), 10 * (rows.mean() + 0.5)


def within(place: tuple[float, float], box: np.ndarray, margin: float = 12) -> bool:
    left, top, right, bottom = box
    return left - margin <= place[0] <= right + margin and top - margin <= place[1] <= bottom + margin


def test_heat_lies_on_the_thing_that_sounds_and_silence_is_dark(
    page: Page, scene: Scene, record_property: Callable[[str, Any], None]
) -> None:
    quiet = os.getloadavg()[0] < 0.5 * (os.cpu_count() or 1)  # then the figures are asserted, too
    page.get_by_role("button", name="Use camera and microphone").click()
    soon(page, "soundwhere.live.answers.length > 3")
    page.evaluate("soundwhere.live.answers.length = soundwhere.live.latencies.length = 0")
    hits, dark, began = [], 0, time.monotonic()
    while time.monotonic() - began < 8 or not hits or not dark:  # the scene lasts 5.5 s
        assert time.monotonic() - began < 90
        heat = alpha(page)
        if heat.max() > 0.3:
            hits.append(within(centre(heat), scene["boxes"][0]))
        elif heat.max() == 0:
            dark += 1
        page.wait_for_timeout(150)
    took = time.monotonic() - began
    figures = page.evaluate(FIGURES)
    late = sorted(each["seconds"] for each in figures["latencies"])
    report = {
        "answers a second": round(len(figures["answers"]) / took, 1),
        "sound to heat, median s": round(late[len(late) // 2], 3),
        "sound to heat, 95th percentile s": round(late[int(0.95 * len(late))], 3),
        "in the server, median s": round(float(np.median([each["server"] for each in figures["latencies"]])), 3),
        "onset to heat s": [round(each, 2) for each in figures["onsets"]],
        "hits": f"{sum(hits)}/{len(hits)}",
        "dark": dark,
        "load": os.getloadavg()[0],
    }
    print(json.dumps(report))
    record_property("live", json.dumps(report))
    assert np.mean(hits) >= 0.8
    places = soon(page, "Array.from(document.querySelectorAll('.source.sounding .place'), e => e.textContent)[0]")
    assert places.startswith("right")  # where the trumpet is
    expect(page.locator("#latency")).to_have_text(re.compile(r"\d\.\d\d s"))
    assert report["answers a second"] >= (5 if quiet else 0.5)
    assert report["sound to heat, median s"] < (0.4 if quiet else 5)


def test_pause_snapshot_and_the_last_seconds_as_a_clip(page: Page, scene: Scene, tmp_path: Path) -> None:
    page.get_by_role("button", name="Use camera and microphone").click()
    soon(page, "soundwhere.live.answers.length > 3 && soundwhere.live.hot")
    page.keyboard.press(" ")
    expect(page.locator("#live")).to_have_attribute("data-state", "paused")
    page.wait_for_timeout(1000)
    before = page.evaluate("soundwhere.live.answers.length")
    page.wait_for_timeout(1000)
    assert page.evaluate("soundwhere.live.answers.length") <= before
    with page.expect_download() as download:
        page.get_by_role("button", name="Save a picture").click()
    download.value.save_as(tmp_path / "picture.png")
    picture = np.asarray(Image.open(tmp_path / "picture.png").convert("RGB")).astype(int)
    assert picture.shape[1] / picture.shape[0] == pytest.approx(4 / 3, abs=0.01)
    page.get_by_role("button", name="Go on").click()
    page.wait_for_timeout(2500)
    with page.expect_download() as download:
        page.locator("#clip").click()
    assert re.fullmatch(r"soundwhere-\d{8}-\d{6}\.mp4", download.value.suggested_filename)
    download.value.save_as(tmp_path / "clip.mp4")
    info = probe(tmp_path / "clip.mp4")
    assert info.has_video
    assert info.has_audio
    assert 2 < info.duration_s < 31


def test_a_reload_goes_on_and_a_second_tab_has_a_stream_of_its_own(page: Page, server: Any) -> None:
    page.get_by_role("button", name="Use camera and microphone").click()
    soon(page, "soundwhere.live.answers.length > 1")
    page.reload()
    soon(page, "soundwhere.live.answers.length > 1")  # without another click
    other = opened(page.context, server.address)
    other.get_by_role("button", name="Use camera and microphone").click()
    soon(other, "soundwhere.live.answers.length > 1")
    page.bring_to_front()
    page.evaluate("soundwhere.live.answers.length = 0")
    soon(page, "soundwhere.live.answers.length > 1")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Use camera and microphone")).to_be_visible()
    assert alpha(page).max() == 0
    expect(page.locator(".source .place").first).to_have_text("–")  # and nothing is said about what is over
    expect(page.locator(".source.sounding")).to_have_count(0)
    expect(page.locator("#latency")).to_have_text("–")
    assert page.evaluate("document.querySelector('.source .meter i').offsetWidth") == 0


def test_a_file_is_played_and_localised(page: Page, scene: Scene) -> None:
    page.set_input_files("#file", scene["folder"] / "clip.mp4")
    soon(page, "soundwhere.live.hot")
    heat = alpha(page)
    assert heat.max() == 0 or within(centre(heat), scene["boxes"][0])
    (scene["folder"] / "text.mp4").write_text("once upon a time")
    for name, words in (("text.mp4", "cannot play text.mp4"), ("microphone.wav", "microphone.wav has no picture")):
        page.set_input_files("#file", scene["folder"] / name)
        expect(page.get_by_role("alert")).to_contain_text(words)
        expect(page.locator("#live")).to_have_attribute("data-state", "idle")


def test_what_went_wrong_is_still_said_when_the_server_is_back(browser: Browser, server: Any, tmp_path: Path) -> None:
    page = browser.new_page()
    page.add_init_script(
        """window.sockets = []; window.WebSocket = class extends WebSocket {
            constructor(address) { super(address); sockets.push(this); } };"""
    )
    page.goto(server.address)
    page.get_by_role("button", name="Use camera and microphone").click()
    soon(page, "soundwhere.live.answers.length > 0")
    page.evaluate("sockets[0].close()")
    expect(page.get_by_role("alert")).to_contain_text("not answering")
    (tmp_path / "text.mp4").write_text("once upon a time")
    page.set_input_files("#file", tmp_path / "text.mp4")
    expect(page.get_by_role("alert")).to_contain_text("cannot play text.mp4")
    soon(page, "sockets.length > 1 && sockets[1].readyState === WebSocket.OPEN")
    page.wait_for_timeout(100)
    expect(page.get_by_role("alert")).to_contain_text("cannot play text.mp4")
    page.close()


@pytest.mark.parametrize(
    ("error", "words"), [("NotAllowedError", "Allow both beside the address"), ("AbortError", "did not start")]
)
def test_what_a_camera_refuses_is_explained(page: Page, error: str, words: str) -> None:
    page.evaluate(
        "name => { navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('no', name); }; }", error
    )
    page.get_by_role("button", name="Use camera and microphone").click()
    expect(page.get_by_role("alert")).to_contain_text(words)
    expect(page.get_by_role("button", name="Use camera and microphone")).to_be_enabled()


def test_a_permission_that_is_denied_in_the_browser(browser: Browser, chromium: str, server: Any) -> None:
    options = [*OPTIONS, "--use-fake-device-for-media-stream", "--deny-permission-prompts"]
    strict = browser.browser_type.launch(executable_path=chromium, args=options)
    page = opened(strict.new_context(), server.address)
    page.get_by_role("button", name="Use camera and microphone").click()
    expect(page.get_by_role("alert")).to_contain_text("was not allowed")
    strict.close()


def test_without_a_microphone_the_picture_stays_dark_and_says_so(page: Page) -> None:
    page.evaluate(
        """() => { const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = async wanted => {
            if (wanted.audio) throw new DOMException("none", "NotFoundError");
            return ask(wanted); }; }"""
    )
    page.get_by_role("button", name="Use camera and microphone").click()
    expect(page.get_by_role("alert")).to_contain_text("no microphone")
    soon(page, "soundwhere.live.answers.length > 1")
    assert alpha(page).max() == 0


def test_from_another_machine_it_says_what_tls_needs_and_the_key_leaves_the_address(
    browser: Browser, start_live: Callable[..., Any], scene: Scene
) -> None:
    server = start_live("--host", "0.0.0.0")
    context = browser.new_context()
    page = opened(context, f"http://camera.example:{server.port}/")
    assert "Follow the link" in str(page.text_content("body"))
    link = f"<a href='{server.address.replace('127.0.0.1', 'camera.example')}'>come in</a>"
    page.route("http://mail.example/", lambda route: route.fulfill(content_type="text/html", body=link))
    page.goto("http://mail.example/")  # where people read their mail
    page.get_by_role("link").click()
    expect(page.locator("#model")).to_have_text("scav-tiny")
    assert page.url == f"http://camera.example:{server.port}/"
    expect(page.locator("#why")).to_contain_text("over TLS (https)")
    expect(page.locator("#why")).to_contain_text(f"ssh -L {server.port}:127.0.0.1:{server.port} camera.example")
    expect(page.locator("#why")).to_contain_text(f"http://127.0.0.1:{server.port}/ with the key")
    expect(page.get_by_role("button", name="Use camera and microphone")).to_be_disabled()
    page.set_input_files("#file", scene["folder"] / "clip.mp4")  # which works over plain http, too
    soon(page, "soundwhere.live.hot")
    code, errors = server.end()
    assert (code, errors) == (0, "")
    expect(page.get_by_role("alert")).to_contain_text("not answering")
    again = start_live("--host", "0.0.0.0", "--port", str(server.port))  # with another key
    expect(page.get_by_role("alert")).to_contain_text("Follow the link")
    context.close()
    again.end()


def test_the_page_waits_for_a_server_that_stops(browser: Browser, start_live: Callable[..., Any]) -> None:
    server = start_live()
    page = opened(browser.new_context(), server.address)
    page.get_by_role("button", name="Use camera and microphone").click()
    soon(page, "soundwhere.live.answers.length > 1")
    code, errors = server.end()
    assert (code, errors) == (0, "")
    expect(page.get_by_role("alert")).to_contain_text("not answering")
    again = start_live("--port", str(server.port))
    page.evaluate("soundwhere.live.answers.length = 0")
    soon(page, "soundwhere.live.answers.length > 1")
    expect(page.get_by_role("alert")).to_be_hidden()
    page.context.close()
    again.end()


@pytest.mark.parametrize("size", [(1280, 800), (390, 844), (844, 390)])
def test_the_page_fits_the_screen_and_fingers(page: Page, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    if size[0] < 800:
        for box in (page.locator(name).bounding_box() for name in ("#use-camera", "#use-file", "#clip", "#stop")):
            assert box is not None
            assert box["height"] >= 44
    for element in page.get_by_role("button").all():
        assert element.evaluate("e => (e.getAttribute('aria-label') || e.textContent).trim()")


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_axe_core_finds_no_serious_fault(page: Page, axe: str, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.evaluate(f"{axe}; 0")
    found = page.evaluate("axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html]))")
    assert [fault for fault in found if fault[0] in ("serious", "critical")] == []
