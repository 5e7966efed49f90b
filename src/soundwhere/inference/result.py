"""What was found in a clip: maps over time on the network's grid, and everything that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from soundwhere.inference.formats import DEFAULT_FORMATS
from soundwhere.inference.geometry import between, find_boxes, find_peaks, place_words, upsample
from soundwhere.media.draw import source_colour

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image as Picture

    from soundwhere.config import MethodConfig
    from soundwhere.inference.footage import Footage
    from soundwhere.inference.settings import Settings

    Floats = NDArray[np.float32]

SHORTEST_PAUSE_S = 0.6  # sounding spans with less between them are one


@dataclass(frozen=True, eq=False)
class Answer:
    """What was found in one frame.

    Attributes:
        time_s: Time of the frame.
        maps: Heatmaps on the network's grid, shape (K, h, w), in [0, 1].
        confidence: How surely each map shows a sounding source, shape (K,), in [0, 1].
        sounding: Which sources sound, shape (K,), bool.
        level_db: Level of the sound around the frame, in decibels below full scale; -inf for none at all.
        size: Height and width of the frame in pixels.
    """

    time_s: float
    maps: NDArray[np.floating]
    confidence: Floats
    sounding: NDArray[np.bool_]
    level_db: float
    size: tuple[int, int]

    @property
    def peaks(self) -> Floats:
        """Where each map is highest: x, y in pixels, shape (K, 2)."""
        return find_peaks(self.maps, self.size)

    @property
    def boxes(self) -> Floats:
        """Boxes around the upper half of each map, xyxy in pixels, shape (K, 4)."""
        return find_boxes(self.maps, self.size)[0]

    def heatmaps(self) -> Floats:
        """The maps at the size of the frame, shape (K, H, W), in [0, 1]."""
        return upsample(self.maps, self.size)

    def compact(self) -> Self:
        """The same with maps in half precision, to be kept."""
        return replace(self, maps=self.maps.astype(np.float16))


@dataclass(frozen=True, eq=False)
class Result:
    """Where each sound of a clip comes from.

    Sources are numbered from 0 here and from 1 where people read them.

    Attributes:
        footage: The clip, and which part of it was looked at.
        times: Times of the analysed frames in seconds, shape (T,).
        maps: Heatmaps on the network's grid, shape (T, K, h, w), float16, in [0, 1].
        confidence: How surely each map shows a sounding source, shape (T, K), in [0, 1].
        sounding: Which sources sound when, shape (T, K), bool.
        levels_db: Level of the sound around each frame in decibels, shape (T,); -inf for none at all.
        fps: Analysed frames per second.
        settings: How the clip was analysed.
        model: The configuration of the model.
    """

    footage: Footage
    times: NDArray[np.float64]
    maps: NDArray[np.float16]
    confidence: Floats
    sounding: NDArray[np.bool_]
    levels_db: Floats
    fps: float
    settings: Settings
    model: MethodConfig

    @classmethod
    def collect(
        cls, footage: Footage, answers: Sequence[Answer], settings: Settings, model: MethodConfig, fps: float
    ) -> Self:
        """Put the answers for all frames together.

        Where sources are counted, those that never sound are left out, and the others numbered as they begin to sound.
        """
        sounding = np.stack([answer.sounding for answer in answers])
        shown = np.arange(sounding.shape[1])
        if settings.sources is None and model.counts:
            heard = np.flatnonzero(sounding.any(0))
            shown = heard[sounding[:, heard].argmax(0).argsort(kind="stable")] if len(heard) else shown[:1]
        return cls(
            footage=footage,
            times=np.array([answer.time_s for answer in answers]),
            maps=np.stack([answer.maps[shown] for answer in answers]).astype(np.float16),
            confidence=np.stack([answer.confidence[shown] for answer in answers]),
            sounding=sounding[:, shown],
            levels_db=np.array([answer.level_db for answer in answers], np.float32),
            fps=fps,
            settings=settings,
            model=model,
        )

    @property
    def path(self) -> Path:
        """The clip."""
        return self.footage.path

    @property
    def sources(self) -> int:
        """K, how many sources were looked for or, where they are counted, found; 1 if none was."""
        return int(self.maps.shape[1])

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the picture in pixels."""
        return self.footage.size

    @cached_property
    def peaks(self) -> Floats:
        """Where each map is highest: x, y in pixels, shape (T, K, 2)."""
        return find_peaks(self.maps, self.size)

    @cached_property
    def _outlines(self) -> tuple[Floats, Floats]:
        return find_boxes(self.maps, self.size)

    @property
    def boxes(self) -> Floats:
        """Boxes around the upper half of each map, xyxy in pixels, shape (T, K, 4)."""
        return self._outlines[0]

    @property
    def areas(self) -> Floats:
        """Share of the picture that the upper half of each map covers, shape (T, K), in [0, 1]."""
        return self._outlines[1]

    def grid(self, time_s: float) -> Floats:
        """The maps on the network's grid at any time, interpolated, shape (K, h, w)."""
        return self._mixed(self.maps, time_s)

    def heatmap(self, time_s: float) -> Floats:
        """The maps at any time and at the size of the picture, shape (K, H, W), in [0, 1]."""
        return upsample(self.grid(time_s), self.size)

    def presence(self, time_s: float) -> Floats:
        """How much each source sounds at any time, shape (K,): 0 or 1, with a slope between frames that differ."""
        return self._mixed(self.sounding, time_s)

    def spans(self, source: int) -> list[tuple[float, float]]:
        """When a source sounds: (start, end) in seconds, pauses shorter than 0.6 s left out."""
        spans: list[tuple[float, float]] = []
        for time_s in self.times[self.sounding[:, source]]:
            end_s = min(float(time_s) + 1 / self.fps, self.footage.end_s)
            if spans and time_s - spans[-1][1] < SHORTEST_PAUSE_S:
                spans[-1] = (spans[-1][0], end_s)
            else:
                spans.append((float(time_s), end_s))
        return spans

    def where(self, source: int) -> str:
        """Where a source mostly is, such as `left, centre`; empty if it never sounds."""
        heard = self.sounding[:, source]
        if not heard.any():
            return ""
        x, y = np.median(self.peaks[heard, source], axis=0) / self.size[::-1]
        return place_words(float(x), float(y))

    def colour(self, source: int) -> tuple[str, tuple[int, int, int]]:
        """The colour a source is drawn in: its name and RGB."""
        return source_colour(source)

    def best_time(self) -> float:
        """The time at which the sources that sound are most surely found."""
        return float(self.times[(self.confidence * (0.01 + self.sounding)).sum(1).argmax()])

    def save(
        self,
        folder: Path | str,
        formats: Sequence[str] = DEFAULT_FORMATS,
        overwrite: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Path]:
        """Write the result into a folder, which appears when all of it is written.

        Args:
            folder: It must not exist, unless it holds an earlier result and `overwrite` is set.
            formats: Any of mp4, png, json, csv, npz, coco, html; json is always written.
            overwrite: Replace an earlier result.
            progress: Called with the frames of the overlay video done and their total.

        Returns:
            The files.
        """
        from soundwhere.inference.writers import save

        return save(self, Path(folder), tuple(formats), overwrite, progress)

    def show(self, time_s: float | None = None) -> Picture:
        """The picture with the heatmaps on it at a time, by default the one at which the sources are found best."""
        from PIL import Image

        from soundwhere.inference.writers import overlay_at

        return Image.fromarray(overlay_at(self, self.best_time() if time_s is None else time_s))

    def _mixed(self, values: NDArray[np.generic], time_s: float) -> Floats:
        before, after, share = between(self.times, time_s)
        first, second = (values[frame].astype(np.float32) for frame in (before, after))
        mixed: Floats = first + np.float32(share) * (second - first)
        return mixed
