"""The overlay video: the clip's own frames with the heat of their times on them, of a result or while it is found.

While a clip is being localised, every frame is decoded once: it waits for the answers around its time, is drawn, and
goes to the encoder. Where those that wait would take too much memory, the clip is read again afterwards.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from contextlib import closing
from functools import partial
from threading import Condition, Thread
from typing import TYPE_CHECKING, Final, Protocol, Self

import numpy as np
from av.video.frame import VideoFrame

from soundwhere.inference.ahead import ahead, at_once, spread
from soundwhere.inference.geometry import between, finer, upsample
from soundwhere.inference.player import warm
from soundwhere.media.blend import HeatBlender
from soundwhere.media.draw import source_colour
from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.inference.footage import Footage
    from soundwhere.inference.result import Answer, Result
    from soundwhere.media.draw import Colour
    from soundwhere.media.shrink import Undeveloped

    Progress = Callable[[int, int], None] | None
    Floats = NDArray[np.float32]

MOST_BYTES: Final = 288 << 20
"""Frames that may wait: those of 720p at 30 frames a second take 190 MB, of 1080p at 25 some 270."""
_UNDER_WAY = 18  # analysed frames that are read, at most, before the first of them is answered
_BACKLOG = 12  # frames that could be drawn, at which reading waits for drawing


class Heat(Protocol):
    """What is to be drawn, of every time."""

    def grid(self, time_s: float) -> Floats:
        """The maps on the network's grid, shape (K, h, w)."""

    def presence(self, time_s: float) -> Floats:
        """How much each source sounds, shape (K,), in [0, 1]."""


def drawn_heat(heat: Heat, time_s: float) -> tuple[Floats, list[Colour]]:
    """The maps as an overlay shows them, (K, h, w) in [0, 1], and their colours: the upper half of those that sound.

    They come on a grid finer than the network's, enlarged bicubically: drawing goes on from there bilinearly, which
    alone looks edgy.
    """
    presence, maps = heat.presence(time_s), heat.grid(time_s)
    sounding = np.flatnonzero(presence)
    shown = warm(maps[sounding]) * presence[sounding, None, None]
    return upsample(shown, finer(maps.shape[1:]), smooth=True), [source_colour(int(number))[1] for number in sounding]


def write_overlay(result: Result, path: Path, progress: Progress = None) -> None:
    """Write the clip with its sound and the heatmaps on it, at its own rate and size."""
    footage = result.footage
    total = footage.count(footage.own_fps)
    with closing(ahead(footage.planes(footage.own_fps), depth=8)) as frames:
        for number in _write(footage, path, frames, result):
            if progress is not None:
                progress(number, total)


def _write(
    footage: Footage, path: Path, frames: Iterable[tuple[float, VideoFrame]], heat: Heat
) -> Generator[int, None, None]:
    """Draw on frames and write them with the clip's sound; after each, how many there are."""
    height, width = footage.size
    with (
        VideoWriter(
            path, width, height, footage.own_fps, audio_from=footage.sound, start_s=footage.start_s, end_s=footage.end_s
        ) as video,
        closing(spread(partial(_drawn, heat, threading.local()), frames, at_once())) as pictures,
    ):
        for number, picture in enumerate(pictures, 1):
            video.write(picture)
            yield number


def _drawn(heat: Heat, own: threading.local, frame: tuple[float, VideoFrame]) -> VideoFrame:
    """A frame with the heatmaps of its time on it; `own` keeps what a thread draws with."""
    time_s, picture = frame
    if not heat.presence(time_s).any():
        return picture
    if not hasattr(own, "blender"):
        own.blender = HeatBlender()
    drawn: VideoFrame = own.blender.blend(picture, *drawn_heat(heat, time_s))
    return drawn


class HeatSoFar:
    """The heat of the answers that have come, up to the time of the latest; sources have the numbers of `Result`.

    Args:
        counted: Whether sources that never sound are left out, so that the others are numbered as they begin to.
    """

    def __init__(self, counted: bool) -> None:
        self._counted = counted
        self._answers: list[Answer] = []
        self._times_s: list[float] = []
        self._order: list[int] = []

    def add(self, answer: Answer) -> None:
        """Take the next answer."""
        heard = np.flatnonzero(answer.sounding) if self._counted else np.arange(len(answer.sounding))
        self._order = [*self._order, *(number for number in heard.tolist() if number not in self._order)]
        self._answers.append(answer)
        self._times_s.append(answer.time_s)  # last: other threads look here first

    def grid(self, time_s: float) -> Floats:
        """See `Heat`."""
        return self._mixed(time_s, lambda answer: answer.maps)

    def presence(self, time_s: float) -> Floats:
        """See `Heat`."""
        return self._mixed(time_s, lambda answer: answer.sounding)

    def _mixed(self, time_s: float, part: Callable[[Answer], NDArray[np.generic]]) -> Floats:
        before, after, share = between(self._times_s, time_s)
        order = self._order
        first, second = (part(self._answers[number])[order].astype(np.float32) for number in (before, after))
        return first + np.float32(share) * (second - first)


def fits(footage: Footage, fps: float) -> bool:
    """Whether the frames that wait for their answers, at a rate of analysis, are few enough to be held."""
    height, width = footage.size
    held = _BACKLOG + _UNDER_WAY * footage.own_fps / fps
    return footage.info.duration_s > 0 and held * height * width * 3 / 2 <= MOST_BYTES


class Drawing:
    """An overlay that is written while its clip is being localised; whole at the end of the `with` block, or not there.

        with Drawing(footage, path, counted) as drawing:
            for answer in answers_to(drawing.frames(fps)):
                drawing.add(answer)

    Args:
        footage: The clip.
        path: The mp4 file.
        counted: See `HeatSoFar`.
    """

    batch: Final = 1  # analysed frames that go through the network together, while frames of the overlay wait for them

    def __init__(self, footage: Footage, path: Path, counted: bool) -> None:
        self._footage, self._path = footage, path
        self._heat = HeatSoFar(counted)
        self._waiting: deque[tuple[float, VideoFrame]] = deque()
        self._until_s = -math.inf  # the time up to which frames can be drawn
        self._read = self._drawing = self._ended = False
        self._failure: BaseException | None = None
        self._news = Condition()
        self._thread = Thread(target=self._draw, daemon=True)

    def __enter__(self) -> Self:
        try:
            self._thread.start()
        except BaseException:  # interrupted: on a busy machine a thread takes its time to start
            self._end()
            with self._news:
                self._news.wait_for(lambda: not self._drawing)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with self._news:
                self._until_s, self._ended = math.inf, self._ended or kind is not None
                self._news.notify_all()
            self._thread.join()
        except BaseException:  # interrupted: what is there is not wanted either
            self._end()
            self._thread.join()
            raise
        if kind is None and self._failure is not None:
            raise self._failure

    def frames(self, fps: float) -> Generator[tuple[float, Undeveloped], None, None]:
        """The frames to be looked at, at a rate; those to be drawn on are kept on the way."""
        with closing(self._footage.both(fps)) as frames:
            for time_s, frame in frames:
                if isinstance(frame, VideoFrame):
                    self._keep(time_s, frame)
                else:
                    yield time_s, frame
        with self._news:
            self._read = True
            self._news.notify_all()

    def add(self, answer: Answer) -> None:
        """Take the next answer, which frames up to its time may have been waiting for."""
        if self._failure is not None:
            raise self._failure
        self._heat.add(answer)
        with self._news:
            self._until_s = answer.time_s
            self._news.notify_all()

    def _keep(self, time_s: float, frame: VideoFrame) -> None:
        """Let a frame wait to be drawn. Who reads waits only while there is enough to draw: never for each other."""
        with self._news:
            self._news.wait_for(lambda: self._ended or self._ready() < _BACKLOG)
            if not self._ended:
                self._waiting.append((time_s, frame))
                self._news.notify_all()

    def _ready(self) -> int:
        return sum(time_s <= self._until_s for time_s, _ in self._waiting)

    def _due(self) -> Generator[tuple[float, VideoFrame], None, None]:
        """Frames as soon as they can be drawn."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._ended or self._ready() > 0 or (self._read and not self._waiting))
                if self._ended:
                    raise _UnwantedError
                if not self._waiting:
                    return
                frame = self._waiting.popleft()
                self._news.notify_all()
            yield frame

    def _draw(self) -> None:
        with self._news:
            if self._ended:
                return
            self._drawing = True
        try:
            for _ in _write(self._footage, self._path, self._due(), self._heat):
                pass
        except BaseException as error:  # raised again where it is noticed
            self._failure = error
        self._drawing = False
        self._end()

    def _end(self) -> None:
        with self._news:
            self._ended = True
            self._waiting.clear()
            self._news.notify_all()


class _UnwantedError(Exception):
    """The overlay is not wanted any more."""
