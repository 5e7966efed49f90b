"""Answers as things happen: the right ones, the newest ones, and none in silence."""

from __future__ import annotations

import math
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import soundwhere
from soundwhere.errors import MediaError
from soundwhere.inference.live import Live
from soundwhere.inference.localiser import Localiser
from soundwhere.media.audio import read_audio
from soundwhere.media.video import stream_frames

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 60.0
PICTURE = np.zeros((48, 64, 3), np.uint8)
NOISE = (0.1 * np.random.default_rng(0).standard_normal(22_050)).astype(np.float32)


@pytest.fixture(scope="module")
def localiser() -> Localiser:
    return Localiser("scav-tiny", device="cpu", smooth=False)


@pytest.fixture
def live(localiser: Localiser) -> Iterator[Live]:
    with Live(localiser) as live:
        yield live


class Slow:
    """Stands before a localiser and takes its time."""

    def __init__(self, localiser: Localiser, seconds: float = 0.0) -> None:
        self._localiser, self.seconds = localiser, seconds
        self.seen: list[int] = []
        self.go = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._localiser, name)

    def look(self, image: np.ndarray, sound: np.ndarray) -> Any:
        self.go.wait(PATIENCE_S)
        self.seen.append(int(image[0, 0, 0]))
        return self._localiser.look(image, sound)


def answered(live: Live) -> Any:
    answer = live.pull(PATIENCE_S)
    assert answer is not None
    return answer


def test_it_says_what_the_localiser_says_of_the_same_picture_and_sound(
    localiser: Localiser, live: Live, movie: Path
) -> None:
    frame = next(iter(stream_frames(movie, 5)))
    sound = read_audio(movie)
    live.push_samples(sound, 22_050, time_s=7.0)
    live.push_frame(frame.image, 0.25)
    answer = answered(live)
    window = np.concatenate([np.zeros(66_150, np.float32), sound])[-66_150:]
    maps, confidence, _ = localiser.look(frame.image, window)
    assert np.allclose(answer.maps, maps, atol=1e-5)
    assert np.allclose(answer.confidence, confidence, atol=1e-5)
    assert (answer.time_s, answer.sound_s, answer.size, answer.dropped) == (0.25, 7.0, frame.image.shape[:2], 0)
    assert 0 < answer.latency_s < PATIENCE_S
    assert live.pull() is None  # each answer once


def test_heat_follows_the_thing_that_sounds(tmp_path: Path) -> None:
    from soundwhere.data.synthetic.movie import write_movie
    from soundwhere.data.synthetic.world import World

    truth = write_movie(tmp_path / "one.mp4", World(seed=3), 1, seconds=4, fps=5, sounding=1, silent=1)
    sound, hits = read_audio(tmp_path / "one.mp4"), []
    with Live(model="scav-tiny", sources=1) as live:
        for number, frame in enumerate(stream_frames(tmp_path / "one.mp4", 5)):
            live.push_samples(sound[number * 4410 : (number + 1) * 4410], 22_050)
            live.push_frame(frame.image, frame.time_s)
            answer = answered(live)
            if answer.sounding[0]:
                left, top, right, bottom = truth.things[0].boxes[number]
                x, y = answer.peaks[0]
                hits.append(left - 8 <= x <= right + 8 and top - 8 <= y <= bottom + 8)
                assert answer.places[0]
    assert len(hits) >= 5
    assert np.mean(hits) >= 0.8


def test_it_is_dark_before_any_sound_and_half_a_second_after_the_last(live: Live) -> None:
    live.push_frame(PICTURE, 0.0)
    first = answered(live)
    assert first.maps.shape == (2, *live.localiser.grid(48, 64))
    assert not first.maps.any()
    assert not first.sounding.any()
    assert first.places == ["", ""]
    assert (first.level_db, math.isnan(first.sound_s)) == (-math.inf, True)
    live.push_samples(NOISE, 22_050)
    live.push_frame(PICTURE, 1.0)
    assert answered(live).level_db == pytest.approx(-20, abs=0.5)
    live.push_samples(np.zeros(25_000, np.float32), 48_000)  # the window still reaches back into the noise
    live.push_frame(PICTURE, 2.0)
    last = answered(live)
    assert last.level_db < -60
    assert not last.sounding.any()


def test_the_network_rests_in_silence(localiser: Localiser) -> None:
    slow = Slow(localiser)  # which would never answer
    with Live(slow) as live:  # type: ignore[arg-type]
        live.push_samples(np.zeros(22_050, np.float32), 22_050)
        live.push_frame(PICTURE, 0.0)
        assert answered(live).confidence.tolist() == [0, 0]
    assert slow.seen == []


def test_frames_that_it_cannot_keep_up_with_are_dropped_and_the_newest_is_answered(localiser: Localiser) -> None:
    slow = Slow(localiser)
    with Live(slow) as live:  # type: ignore[arg-type]
        live.push_samples(NOISE, 22_050)
        live.push_frame(PICTURE, 0.0)
        time.sleep(0.1)  # it is being looked at
        for number in range(1, 10):
            live.push_frame(np.full_like(PICTURE, number), float(number))
        slow.go.set()
        end = time.monotonic() + PATIENCE_S
        while len(slow.seen) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        answer = answered(live)
        if answer.time_s == 0:
            answer = answered(live)
        assert (answer.time_s, answer.dropped) == (9.0, 8)
    assert slow.seen == [0, 9]


def test_a_buffer_that_is_used_again_does_no_harm(localiser: Localiser) -> None:
    slow = Slow(localiser)
    with Live(slow) as live:  # type: ignore[arg-type]
        live.push_samples(NOISE, 22_050)
        buffer = np.full_like(PICTURE, 5)
        live.push_frame(buffer, 0.0)
        buffer[:] = 9
        slow.go.set()
        answered(live)
    assert slow.seen == [5]


def test_a_picture_that_is_turned_starts_afresh(live: Live) -> None:
    live.push_samples(NOISE, 22_050)
    for time_s, shape in ((0.0, (48, 96, 3)), (1.0, (96, 48, 3)), (2.0, (48, 96, 3))):
        live.push_frame(np.full(shape, 90, np.uint8), time_s)
        answer = answered(live)
        assert answer.size == shape[:2]
        assert answer.maps.shape[1:] == live.localiser.grid(*shape[:2])


def test_two_share_a_model_and_nothing_else(localiser: Localiser) -> None:
    with Live(localiser) as first, Live(localiser) as second:
        first.push_samples(NOISE, 22_050)
        for each in (first, second):
            each.push_frame(PICTURE, 0.0)
        assert answered(first).level_db > -30
        assert answered(second).level_db == -math.inf


@pytest.mark.parametrize("image", [np.zeros((4, 4)), np.zeros((4, 4, 4), np.uint8), np.zeros((0, 4, 3), np.uint8)])
def test_what_is_not_a_frame_is_refused(live: Live, image: np.ndarray) -> None:
    with pytest.raises(MediaError, match="is not a frame"):
        live.push_frame(image, 0.0)


def test_frames_come_in_order(live: Live) -> None:
    live.push_frame(PICTURE, 1.0)
    for time_s in (1.0, 0.5, math.nan, math.inf):
        with pytest.raises(MediaError, match="does not follow"):
            live.push_frame(PICTURE, time_s)


def test_what_goes_wrong_is_raised_where_answers_are_awaited(localiser: Localiser) -> None:
    class Broken(Slow):
        def look(self, image: np.ndarray, sound: np.ndarray) -> Any:
            raise RuntimeError("out of order")

    with Live(Broken(localiser)) as live:  # type: ignore[arg-type]
        live.push_samples(NOISE, 22_050)
        live.push_frame(PICTURE, 0.0)
        with pytest.raises(RuntimeError, match="out of order"):
            live.pull(PATIENCE_S)


def test_who_waits_for_an_answer_is_let_go_at_the_end(localiser: Localiser) -> None:
    live, got = Live(localiser), []
    waiting = threading.Thread(target=lambda: got.append(live.pull(PATIENCE_S)))
    waiting.start()
    live.close()
    waiting.join(PATIENCE_S)
    assert got == [None]


def test_the_example_of_the_documentation_runs(
    movie: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[2] / "docs" / "live.md"
    example = re.search(r'```python title="live.py"\n(.*?)```', page.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    assert len(example[1].strip().splitlines()) <= 12
    (tmp_path / "clip.mp4").write_bytes(movie.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(soundwhere, "Live", lambda: Live(model="scav-tiny"), raising=False)
    exec(compile(example[1], "live.py", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 15
    assert any("left" in line or "right" in line or "centre" in line for line in lines)
