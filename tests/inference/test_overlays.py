from __future__ import annotations

import errno
import threading
import time
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest

from soundwhere.errors import MediaError, OutputError
from soundwhere.inference import overlays
from soundwhere.inference.folder import finished_folder
from soundwhere.inference.footage import Footage
from soundwhere.inference.localiser import Localiser
from soundwhere.inference.result import Answer
from soundwhere.inference.writers import localise_into, write_formats
from soundwhere.media.planes import stream_both, stream_planes
from soundwhere.media.shrink import Undeveloped
from soundwhere.media.video import stream_undeveloped
from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def localiser(red_and_blue: Any) -> Localiser:
    return Localiser(red_and_blue, "cpu")


def decoded(path: Path) -> list[np.ndarray]:
    with av.open(path) as container:
        return [frame.to_ndarray() for frame in container.decode(video=0)]


@pytest.mark.parametrize(("fps", "drawn_fps", "start_s"), [(5, 10, 0.0), (10, 4, 1.0), (3, 25, 0.5)])
def test_one_decoding_gives_what_two_give(squares_path: Path, fps: float, drawn_fps: float, start_s: float) -> None:
    both = list(stream_both(squares_path, fps, drawn_fps, start_s, 3.0))
    assert [time_s for time_s, _ in both] == sorted(time_s for time_s, _ in both)
    looked = [(time_s, frame.at((32, 64))) for time_s, frame in both if isinstance(frame, Undeveloped)]
    drawn = [(time_s, frame.to_ndarray()) for time_s, frame in both if not isinstance(frame, Undeveloped)]
    alone = [(time_s, frame.at((32, 64))) for time_s, frame in stream_undeveloped(squares_path, fps, start_s, 3.0)]
    planes = [(time_s, frame.to_ndarray()) for time_s, frame in stream_planes(squares_path, drawn_fps, start_s, 3.0)]
    for ours, theirs in ((looked, alone), (drawn, planes)):
        assert [time_s for time_s, _ in ours] == [time_s for time_s, _ in theirs]
        assert all((a == b).all() for (_, a), (_, b) in zip(ours, theirs, strict=True))
    frames = [frame for _, frame in both if not isinstance(frame, Undeveloped)]
    assert len({id(frame) for frame in frames}) == len(frames)  # each is the taker's own


@pytest.mark.parametrize(("start_s", "end_s"), [(0.0, None), (1.0, 3.3)])
def test_drawn_on_the_way_it_is_the_same_video(
    localiser: Localiser, squares_path: Path, tmp_path: Path, start_s: float, end_s: float | None
) -> None:
    footage = Footage.open(squares_path, start_s=start_s, end_s=end_s)
    result = localise_into(localiser, footage, tmp_path, ("mp4",))
    overlays.write_overlay(result, tmp_path / "again.mp4")
    ours, again = decoded(tmp_path / "overlay.mp4"), decoded(tmp_path / "again.mp4")
    assert len(ours) == footage.count(footage.own_fps)
    assert all((a == b).all() for a, b in zip(ours, again, strict=True))
    drawn = (tmp_path / "overlay.mp4").stat()
    write_formats(result, tmp_path, ("mp4",))  # which has nothing to draw any more
    assert (tmp_path / "overlay.mp4").stat() == drawn


def test_what_would_take_too_much_memory_is_read_again(
    localiser: Localiser, squares_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    footage = Footage.open(squares_path)
    assert overlays.fits(footage, 5.0)
    monkeypatch.setattr(overlays, "MOST_BYTES", 1 << 20)
    assert not overlays.fits(footage, 5.0)
    localise_into(localiser, footage, tmp_path, ("mp4",))
    assert list(tmp_path.iterdir()) == []


def test_frames_that_wait_are_as_many_as_was_said(
    localiser: Localiser, tmp_path: Path, squares_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = 0
    keep = overlays.Drawing._keep

    def noted(self: overlays.Drawing, time_s: float, frame: av.VideoFrame) -> None:
        nonlocal held
        keep(self, time_s, frame)
        held = max(held, len(self._waiting))

    monkeypatch.setattr(overlays.Drawing, "_keep", noted)
    footage = Footage.open(squares_path)
    localise_into(localiser, footage, tmp_path, ("mp4",))
    assert 0 < held <= overlays._BACKLOG + overlays._UNDER_WAY * footage.own_fps / localiser.settings.fps


def test_a_full_disk_ends_it_and_leaves_nothing(
    localiser: Localiser, squares_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OutputError(f"{tmp_path} cannot be written: {errno.ENOSPC}.", "Make room.")

    monkeypatch.setattr(VideoWriter, "_mux_video", full)
    before = threading.active_count()
    with pytest.raises(OutputError, match="cannot be written"):
        localise_into(localiser, Footage.open(squares_path), tmp_path, ("mp4",))
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == before


@pytest.mark.parametrize("error", [MediaError("The end.", "Do something."), KeyboardInterrupt()])
def test_an_error_on_the_way_leaves_nothing(
    localiser: Localiser, squares_path: Path, tmp_path: Path, error: BaseException
) -> None:
    def progress(done: int, _: int) -> None:
        if done == 7:
            raise error

    before = threading.active_count()
    with pytest.raises(type(error)):
        localise_into(localiser, Footage.open(squares_path), tmp_path, ("mp4",), progress)
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == before


@pytest.mark.parametrize("begun", [True, False])
def test_an_interruption_while_the_thread_starts_leaves_nothing(
    squares_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """On a busy machine Ctrl-C may come before the thread that draws has begun, or before it opens its file."""
    opened, enter, draw = threading.Event(), VideoWriter.__enter__, overlays.Drawing._draw
    interrupted = threading.Event()

    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            assert opened.wait(60) if begun else True
            interrupted.set()
            raise KeyboardInterrupt

    def open_slowly(writer: VideoWriter) -> VideoWriter:
        opened.set()
        assert interrupted.wait(60)
        time.sleep(0.2)  # longer than it takes to clear the folder away
        return enter(writer)

    def draw_late(drawing: overlays.Drawing) -> None:
        if not begun:
            assert interrupted.wait(60)
            time.sleep(0.2)
        draw(drawing)

    monkeypatch.setattr(overlays, "Thread", Interrupted)
    monkeypatch.setattr(VideoWriter, "__enter__", open_slowly)
    monkeypatch.setattr(overlays.Drawing, "_draw", draw_late)
    target = tmp_path / "clip.soundwhere"
    with (
        pytest.raises(KeyboardInterrupt),
        finished_folder(target) as folder,
        overlays.Drawing(Footage.open(squares_path), folder / "overlay.mp4", counted=False),
    ):
        pytest.fail("it was interrupted before")
    for thread in threading.enumerate():
        if isinstance(thread, Interrupted):
            thread.join(60)
    assert list(tmp_path.iterdir()) == []


def test_counted_sources_have_the_colours_of_the_result() -> None:
    """The second of the network's sources is heard first, and so becomes source 1, whoever asks when."""
    sounding = [[False, False], [False, True], [True, True], [True, False]]
    maps = np.stack([np.zeros((2, 2)), np.eye(2)]).astype(np.float32)
    sofar = overlays.HeatSoFar(counted=True)
    for time_s, heard in enumerate(sounding):
        sofar.add(Answer(float(time_s), maps, np.ones(2, np.float32), np.array(heard), -20.0, (4, 4)))
        assert sofar.presence(float(time_s)).tolist() == [float(heard[1]), float(heard[0])][:time_s]
    assert (sofar.grid(3.0) == maps[::-1]).all()
    assert sofar.presence(2.5).tolist() == [0.5, 1.0]
    assert overlays.drawn_heat(sofar, 3.0)[1] == [(0, 114, 178)]  # source 2 alone, in blue
