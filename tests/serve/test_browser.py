"""The whole flow in a real browser: with the real worker and the built-in model."""

from __future__ import annotations

import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from playwright.sync_api import expect, sync_playwright

from soundwhere.media.audio import read_audio, write_wav
from soundwhere.media.video import read_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE_MS = 90_000


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(start: Callable[..., Any], films: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return start(tmp_path_factory.mktemp("serve") / "work", str(films), "--model", "scav-tiny", "--limit-mb", "1")


@pytest.fixture
def page(browser: Browser, server: Any) -> Iterator[Page]:
    """The page; whatever it complains about fails the test."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.set_default_timeout(PATIENCE_MS)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if "Content Security" in message.text else None)
    page.goto(server.address)
    yield page
    assert complaints == []
    page.context.close()


def soon(page: Page, what: str) -> None:
    """Wait for something in the page, without `eval`, which the page forbids."""
    end = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate(what):
        assert time.monotonic() < end, what
        page.wait_for_timeout(50)


def card(page: Page, name: str) -> Any:
    return page.locator(".card", has_text=name).first


def test_from_a_drop_to_the_player_and_its_files(page: Page, movie: Path, tmp_path: Path) -> None:
    name = "été <b>1.mp4"
    shutil.copy(movie, tmp_path / name)
    page.set_input_files("#file", tmp_path / name)
    expect(page.locator("#doing-name")).to_have_text(name)
    expect(page.locator("#doing-text")).to_have_text(re.compile(r"Uploading|About|Opening|Localising|Writing"))
    expect(page.locator(".player .stage video")).to_be_visible()
    expect(page.locator("#title")).to_have_text(name)
    expect(page.locator(".source")).to_have_count(2)
    soon(page, "document.querySelector('video').readyState >= 2")
    address = page.url

    names = set(page.locator(".downloads a > span").all_text_contents())
    assert {
        "overlay.mp4",
        "result.json",
        "result.csv",
        "result.npz",
        "coco.json",
        "index.html",
        "everything.zip",
    } <= names
    with page.expect_download() as download:
        page.locator(".downloads a", has_text="result.csv").click()
    assert download.value.suggested_filename.endswith("1-result.csv")
    assert download.value.path().read_text().startswith("time_s,source")

    page.keyboard.press(" ")
    soon(page, "document.querySelector('video').currentTime > 0.2")
    page.keyboard.press("p")
    expect(page.locator("#player")).to_have_attribute("data-view", "plain")

    # A reload finds it again; Escape leads to all clips, where it has a picture
    page.reload()
    expect(page.locator(".player .stage video")).to_be_visible()
    assert page.url == address
    page.keyboard.press("Escape")
    expect(card(page, name)).to_have_class("card done")
    soon(page, "document.querySelector('.card.done img').naturalWidth > 0")
    card(page, name).get_by_role("button").click()
    expect(page.locator(".card", has_text=name)).to_have_count(0)


def test_bad_files_are_explained_and_the_queue_goes_on(page: Page) -> None:
    for name in ("mute.mp4", "text.mp4", "short.mp4"):
        page.locator("#clips button", has_text=name).click()
        expect(page).to_have_url(re.compile("#.+"))
        page.keyboard.press("Escape")
    expect(card(page, "mute.mp4")).to_have_class("card failed")
    expect(card(page, "mute.mp4").locator(".state")).to_contain_text("mute.mp4 has a picture but no sound track")
    expect(card(page, "mute.mp4").locator(".remedy")).to_contain_text("needs both")
    expect(card(page, "text.mp4")).to_have_class("card failed")
    expect(card(page, "short.mp4")).to_have_class("card done")
    card(page, "mute.mp4").locator("a").click()
    expect(page.locator("#doing-text")).to_contain_text("no sound track")
    page.locator("#doing-act").click()
    expect(page.locator("#library")).to_be_visible()
    expect(page.locator(".card", has_text="mute.mp4")).to_have_count(0)


def test_cancelling_what_waits_and_what_is_worked_on(page: Page) -> None:
    page.locator("#clips button", has_text="long.mp4").click()
    expect(page.locator("#doing-text")).to_contain_text(re.compile(r"Localising: \d+ of \d+ frames"))
    page.reload()
    expect(page.locator("#doing-text")).to_contain_text("Localising")
    page.keyboard.press("Escape")
    page.locator("#clips button", has_text="short.mp4").click()
    expect(page.locator("#doing-text")).to_have_text("Waiting for 1 other clip")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#doing-text")).to_have_text("Cancelled")
    page.keyboard.press("Escape")
    expect(card(page, "long.mp4")).to_have_class("card working")
    card(page, "long.mp4").get_by_role("button").click()
    expect(card(page, "long.mp4")).to_have_class("card cancelled")


def test_a_file_that_is_too_large_is_not_sent(page: Page, tmp_path: Path) -> None:
    (tmp_path / "large.mp4").write_bytes(b"x" * 1_000_001)
    page.set_input_files("#file", tmp_path / "large.mp4")
    expect(page.get_by_role("status").first).to_have_text("large.mp4 is larger than 1.0 MB.")
    expect(page.get_by_text("start the server with a larger --limit-mb")).to_be_visible()


def test_the_page_waits_for_a_server_that_stops_and_comes_back(
    browser: Browser, start: Callable[..., Any], films: Path, tmp_path: Path
) -> None:
    server = start(tmp_path / "work", str(films), "--model", "scav-tiny")
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(server.address)
    page.locator("#clips button", has_text="long.mp4").click()
    expect(page.locator("#doing-name")).to_have_text("long.mp4")
    assert server.end() == 0
    assert "stopped" in server.said
    expect(page.locator("#lost")).to_be_visible()
    again = start(tmp_path / "work", str(films), "--model", "scav-tiny", "--port", server.port)
    expect(page.locator("#lost")).to_be_hidden()
    expect(page.locator("#doing-text")).to_have_text(re.compile("About|Opening|Localising|Writing"))
    assert again.end() == 0
    page.context.close()


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_the_page_fits_the_screen(page: Page, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    expect(page.locator("#clips button").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_files_chosen_together_photo_and_sound_and_settings(page: Page, movie: Path, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    Image.fromarray(read_frames(movie, [0.5])[0].image).save(photo)
    write_wav(tmp_path / "sound.wav", read_audio(movie))
    (tmp_path / "broken.mp4").write_bytes(b"x" * 500_000)  # takes longest to send, and comes first all the same
    shutil.copy(movie, tmp_path / "last.mp4")
    page.locator("#settings summary").click()
    expect(page.locator("#set-model option").first).to_have_text("as usual: scav-tiny")
    expect(page.locator("#set-sources option").first).to_have_text("as usual: those that sound")
    page.locator("#set-sources").select_option("1")
    page.locator("#set-fps").fill("2.5")
    expect(page.locator("#chosen")).to_have_text("2.5 frames a second, 1 source")
    page.set_input_files("#file", [tmp_path / name for name in ("broken.mp4", "photo.png", "sound.wav", "last.mp4")])
    expect(card(page, "last.mp4")).to_have_class("card done")
    names = page.locator(".card a").all_text_contents()
    assert [name for name in names if name in ("broken.mp4", "photo.png", "last.mp4")] == [
        *("broken.mp4", "photo.png", "last.mp4")
    ]
    expect(card(page, "broken.mp4")).to_have_class("card failed")
    card(page, "photo.png").locator("a").click()
    expect(page.locator(".source")).to_have_count(1)
    name = page.get_by_label("Name of source 1")
    name.fill("alarm clock")
    expect(page.locator(".lane-name").nth(1)).to_have_text("alarm clock")
    page.reload()
    expect(page.get_by_label("Name of source 1")).to_have_value("alarm clock")
    page.keyboard.press("Escape")
    card(page, "broken.mp4").get_by_role("button", name="Try again: broken.mp4").click()
    expect(card(page, "broken.mp4")).to_have_class(re.compile("waiting|working|failed"))


def test_on_a_phone_a_clip_opens_at_its_top_and_there_is_a_way_back(page: Page) -> None:
    page.set_viewport_size({"width": 844, "height": 390})
    for _ in range(6):  # so many that the list has to be scrolled
        page.locator("#clips button", has_text="mute.mp4").click()
        expect(page.locator("#progress")).to_be_visible()
        expect(page.locator("#doing-text")).to_contain_text("no sound track")
        page.get_by_role("link", name="soundwhere: all clips").click()
    again = card(page, "mute.mp4").get_by_role("button", name="Try again")
    state, button = card(page, "mute.mp4").locator(".state").bounding_box(), again.bounding_box()
    assert state is not None
    assert button is not None
    assert button["y"] >= state["y"] + state["height"]  # below the words, not beside them
    page.locator("#clips button", has_text="short.mp4").scroll_into_view_if_needed()
    assert page.evaluate("scrollY") > 0
    page.locator("#clips button", has_text="short.mp4").click()
    expect(page.locator(".player .stage video")).to_be_visible()
    assert page.evaluate("scrollY") == 0
    for width, height in ((667, 375), (844, 390)):
        page.set_viewport_size({"width": width, "height": height})
        for name in ("Play", "Mute", "Full screen", "Keys"):
            tool = page.get_by_role("button", name=name).last.bounding_box()
            assert tool is not None
            assert tool["y"] + tool["height"] <= height
        lanes = page.get_by_role("slider", name="Time").bounding_box()
        assert lanes is not None
        assert lanes["y"] + 50 <= height  # the sound at least
        page.mouse.move(100, height - 20)
        page.mouse.wheel(0, 400)
        soon(page, f"document.querySelector('.track').getBoundingClientRect().bottom <= {height}")
        page.mouse.wheel(0, -400)
    page.get_by_role("button", name="Full screen").click()
    soon(page, "document.fullscreenElement !== null")
    stage = page.locator(".player .stage").bounding_box()
    assert stage is not None
    assert stage["height"] > 250  # most of the screen
    page.get_by_role("button", name="Full screen").click()
    page.get_by_role("link", name="soundwhere: all clips").click()
    expect(page.locator("#library")).to_be_visible()


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_axe_core_finds_no_serious_fault(page: Page, axe: str, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    faults = []
    page.locator("#clips button", has_text="short.mp4").click()
    for view in (".player .stage video", "#library"):
        expect(page.locator(view)).to_be_visible()
        page.evaluate(f"{axe}; 0")
        found = page.evaluate("axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html]))")
        faults += [fault for fault in found if fault[0] in ("serious", "critical")]
        page.keyboard.press("Escape")
    assert faults == []
