"""The page that plays a result: what it carries, and how it behaves in a browser, opened as a file."""

from __future__ import annotations

import base64
import io
import json
import re
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import sync_playwright

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.inference import page as pages
from soundwhere.inference.browser_video import browser_video, playable
from soundwhere.inference.footage import Footage
from soundwhere.inference.localiser import Localiser
from soundwhere.inference.overlays import drawn_heat
from soundwhere.inference.page import write_page
from soundwhere.inference.player import player_data, waveform
from soundwhere.media.audio import read_audio
from soundwhere.media.draw import overlay
from soundwhere.media.video import probe, read_frames

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from soundwhere.inference.result import Result

OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture
def result(red_and_blue: Any, squares_path: Path) -> Result:
    return Localiser(red_and_blue, "cpu").localise(squares_path)


def carried(folder: Path) -> dict[str, Any]:
    text = (folder / "index.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.uint8) / 255


def test_the_data_say_what_the_result_says(result: Result) -> None:
    data = player_data(result)
    maps = unpacked(data["maps"]).reshape(result.maps.shape)
    ranges = np.array(data["ranges"]).reshape(*result.maps.shape[:2], 2, 1, 1)
    said = ranges[:, :, 0] + (ranges[:, :, 1] - ranges[:, :, 0]) * maps
    np.testing.assert_allclose(said, result.maps, atol=0.003)
    assert data["title"] == "squares.mp4"
    for number, source in enumerate(data["sources"]):
        np.testing.assert_allclose(unpacked(source["confidence"]), result.confidence[:, number], atol=0.003)
        assert [letter == "1" for letter in source["sounding"]] == result.sounding[:, number].tolist()
        assert len(source["spans_s"]) == len(result.spans(number))


def test_the_waveform_is_the_outline_of_the_sound(squares_path: Path) -> None:
    footage = Footage.open(squares_path, start_s=1.0, end_s=4.0)
    outline = waveform(footage)
    sound = np.abs(read_audio(squares_path)[SAMPLE_RATE_HZ : 4 * SAMPLE_RATE_HZ])
    peaks = np.array([part.max() for part in np.array_split(sound, len(outline))])
    np.testing.assert_allclose(outline, peaks / peaks.max(), atol=0.12)
    assert len(outline) == 150
    assert outline.max() == 1
    assert waveform(Footage.open(squares_path, start_s=4.0)).max() < 0.3  # digital silence, up to what the codec adds


def test_a_clip_that_browsers_play_is_taken_as_it_is(clip_path: Path, squares_path: Path, tmp_path: Path) -> None:
    assert playable(Footage.open(clip_path)) == clip_path
    assert browser_video(Footage.open(clip_path), tmp_path).path == clip_path
    assert playable(Footage.open(clip_path, start_s=1.0)) is None
    assert playable(Footage.open(squares_path)) is None  # 4:4:4
    matroska = tmp_path / "clip.mkv"
    with av.open(clip_path) as source, av.open(matroska, "w") as target:
        copies = {stream: target.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = copies[packet.stream]
                target.mux(packet)
    assert playable(Footage.open(matroska)) is None


def test_any_other_is_written_anew(squares_path: Path, noise_path: Path, tmp_path: Path) -> None:
    plain = browser_video(Footage.open(squares_path, start_s=1.0, end_s=3.0), tmp_path)
    assert plain.start_s == 1.0
    assert probe(plain.path).duration_s == pytest.approx(2.0, abs=0.15)
    before, after = (read_frames(path, [time])[0].image for path, time in ((squares_path, 1.5), (plain.path, 0.5)))
    assert np.abs(before.astype(int) - after).mean() < 6
    assert playable(Footage.open(plain.path)) == plain.path
    Image.new("RGB", (2600, 1300), "red").save(tmp_path / "photo.png")
    photo = browser_video(Footage.open(tmp_path / "photo.png", noise_path, end_s=0.3), tmp_path)
    assert (probe(photo.path).width, probe(photo.path).height) == (1280, 640)


def test_a_short_clip_is_within_the_page_and_a_long_one_beside_it(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_page(result, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    video = carried(tmp_path)["video"]
    (tmp_path / "copy.mp4").write_bytes(base64.b64decode(video["base64"]))
    assert probe(tmp_path / "copy.mp4").duration_s == pytest.approx(5.0, abs=0.15)
    monkeypatch.setattr(pages, "MOST_BYTES", 100)
    (tmp_path / "long").mkdir()
    write_page(result, tmp_path / "long")
    assert {path.name for path in (tmp_path / "long").iterdir()} == {"index.html", "plain.mp4"}
    assert carried(tmp_path / "long")["video"]["src"] == "plain.mp4"


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def shown(browser: Browser, result: Result, tmp_path: Path) -> Iterator[Page]:
    """The page, opened as a file; whatever it complains about, and every request but for itself, fails the test."""
    result.save(tmp_path / "out", ["json", "html"])
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.set_default_timeout(60_000)
    complaints: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    address = (tmp_path / "out" / "index.html").as_uri()
    page.goto(address)
    page.wait_for_function("document.querySelector('video').readyState >= 2")
    yield page
    assert complaints == []
    assert {url for url in asked if not url.startswith("blob:")} == {address}
    page.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_axe_core_finds_no_serious_fault(shown: Page, axe: str, size: tuple[int, int]) -> None:
    shown.set_viewport_size({"width": size[0], "height": size[1]})
    shown.evaluate(f"{axe}; 0")
    found = shown.evaluate("axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html]))")
    assert [fault for fault in found if fault[0] in ("serious", "critical")] == []


def seek(page: Page, time_s: float) -> None:
    page.evaluate("time => window.soundwhere.player.seek(time)", time_s)
    page.wait_for_function(
        "time => Math.abs(soundwhere.player.time - time) < 0.06 && !document.querySelector('video').seeking", arg=time_s
    )
    page.evaluate("soundwhere.player.draw()")


def heat(page: Page) -> np.ndarray:
    """The canvas over the picture, RGBA of shape (H, W, 4), in [0, 1]."""
    address = page.evaluate("document.querySelector('.stage .heat').toDataURL('image/png')")
    picture = Image.open(io.BytesIO(base64.b64decode(address.split(",")[1])))
    return np.asarray(picture.convert("RGBA")) / 255


@pytest.mark.browser
def test_heat_lies_over_the_sources_and_goes_dark(shown: Page, result: Result) -> None:
    seek(shown, 1.0)
    drawn = heat(shown)
    height, width = drawn.shape[:2]
    red, blue = drawn[int(height * 0.4), int(width * 0.1)], drawn[int(height * 0.75), int(width * 0.9)]
    assert red[3] > 0.5
    assert blue[3] > 0.5
    assert drawn[int(height * 0.1), width // 2, 3] == 0
    assert (np.argmax(red[:3]), np.argmax(blue[:3])) in ((0, 2), (2, 0))
    seek(shown, 4.5)  # silence
    assert heat(shown).max() == 0


@pytest.mark.browser
def test_it_is_blended_as_the_video_is(shown: Page, result: Result) -> None:
    """Over one colour, at the size of the clip, by canvas here and by `draw.overlay` there."""
    height, width = result.size
    heard = result.sounding.any(1)
    ending = int(np.flatnonzero(heard[:-1] & ~heard[1:])[0])
    fading = float(result.times[ending] + 0.3 * (result.times[ending + 1] - result.times[ending]))
    plain = np.full((height, width, 3), (120, 90, 60), np.uint8)
    for time_s in (1.0, 1.07, fading):  # an analysed frame, between two of them, and where heat fades
        address = shown.evaluate(
            """([time, width, height]) => {
                const player = soundwhere.player, canvas = document.createElement("canvas");
                canvas.width = width; canvas.height = height;
                const context = canvas.getContext("2d");
                context.fillStyle = "rgb(120, 90, 60)";
                context.fillRect(0, 0, width, height);
                player.heat.paint(time, player.layers, player.opacity);
                soundwhere.lay(context, player.heat.canvas, width, height);
                return canvas.toDataURL("image/png");
            }""",
            [time_s, width, height],
        )
        ours = np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))).convert("RGB")).astype(int)
        theirs = overlay(plain, *drawn_heat(result, time_s)).astype(int)
        assert np.abs(theirs - plain).max() > 20  # there is heat at all
        assert np.abs(ours - theirs).max() <= 6
        assert np.abs(ours - theirs).mean() < 0.7


@pytest.mark.browser
def test_layers_by_hand_and_by_key(shown: Page) -> None:
    from playwright.sync_api import expect

    seek(shown, 1.0)
    both = heat(shown)[..., 3]
    shown.keyboard.press("1")
    expect(shown.get_by_label("Show source 1")).not_to_be_checked()
    shown.evaluate("soundwhere.player.draw()")
    one = heat(shown)[..., 3]
    assert 0 < one.sum() < both.sum()
    shown.get_by_label("Show source 2").click()
    shown.evaluate("soundwhere.player.draw()")
    assert heat(shown).max() == 0
    shown.keyboard.press("0")
    for label in ("Show source 1", "Show source 2"):
        expect(shown.get_by_label(label)).to_be_checked()

    shown.get_by_label("Colour of source 1").fill("#00ff00")
    shown.get_by_label("Colour of source 2").fill("#00ff00")
    shown.get_by_label("Opacity of the heat").fill("100")
    shown.evaluate("soundwhere.player.draw()")
    drawn = heat(shown)
    assert drawn[..., 3].max() > 0.97
    hot = drawn[drawn[..., 3] > 0.5]
    assert (hot[:, 1] > 0.97).all()
    assert hot[:, [0, 2]].max() < 0.03

    shown.keyboard.press("c")
    expect(shown.locator(".split")).to_be_visible()
    shown.evaluate("soundwhere.player.draw()")
    drawn = heat(shown)[..., 3]
    half = drawn.shape[1] // 2
    assert drawn[:, : half - 2].max() == 0
    assert drawn[:, half + 2 :].max() > 0.5
    shown.locator(".split").focus()
    shown.keyboard.press("ArrowRight")
    expect(shown.locator(".split")).to_have_attribute("aria-valuenow", "52")
    shown.get_by_role("button", name="Plain").click()
    shown.evaluate("soundwhere.player.draw()")
    assert heat(shown).max() == 0


@pytest.mark.browser
def test_time_by_frame_by_second_and_by_dragging(shown: Page) -> None:
    from playwright.sync_api import expect

    def at(time_s: float) -> None:
        shown.wait_for_function(
            "time => Math.abs(document.querySelector('video').currentTime - time) < 0.02", arg=time_s
        )

    seek(shown, 1.0)
    shown.keyboard.press(".")
    at(1.15)
    shown.keyboard.press(",")
    at(1.05)
    shown.keyboard.press("ArrowRight")
    at(2.05)
    shown.keyboard.press("Home")
    at(0)
    shown.keyboard.press("Shift+ArrowRight")
    at(4.95)
    box = shown.locator(".track").bounding_box()
    assert box is not None
    shown.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 20)
    shown.mouse.down()
    shown.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    shown.mouse.up()
    at(2.5)
    expect(shown.locator(".clock")).to_have_text("0:02.5 / 0:05.0")
    expect(shown.get_by_role("slider", name="Time")).to_have_attribute("aria-valuetext", "0:02.5 of 0:05.0")
    shown.keyboard.press(" ")
    shown.wait_for_function(
        "!document.querySelector('video').paused && document.querySelector('video').currentTime > 2.6"
    )
    shown.keyboard.press(" ")
    shown.wait_for_function("document.querySelector('video').paused")
    shown.keyboard.press("?")
    expect(shown.get_by_role("dialog")).to_contain_text("one frame back or forward")
    shown.keyboard.press("Escape")
    expect(shown.get_by_role("dialog")).to_be_hidden()


@pytest.mark.browser
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_the_page_fits_the_screen(shown: Page, size: tuple[int, int]) -> None:
    shown.set_viewport_size({"width": size[0], "height": size[1]})
    inside, high = shown.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert inside <= size[0]
    assert size[0] < 800 or high <= size[1]
    video, canvas = (shown.locator(name).bounding_box() for name in (".stage video", ".stage .heat"))
    assert video == canvas
    assert video is not None
    assert video["width"] / video["height"] == pytest.approx(2, rel=0.02)


@pytest.mark.browser
def test_names_stay_beside_their_lanes(shown: Page) -> None:
    shown.set_viewport_size({"width": 1280, "height": 800})
    track = shown.get_by_role("slider", name="Time").bounding_box()
    assert track is not None
    shown.get_by_label("Name of source 1").fill("a long name for a thing that is heard")
    for name, whole in (("a long name for", False), ("Source 2", True)):
        lane = shown.locator(".lane-name", has_text=name)
        place = lane.bounding_box()
        assert place is not None
        assert place["x"] + place["width"] <= track["x"]
        assert lane.evaluate("e => e.scrollWidth <= e.clientWidth") == whole
        assert lane.evaluate("e => getComputedStyle(e).display") == "block"  # so that what is cut ends in an ellipsis
