"""A video in, heatmaps over time out: frames at the analysis rate, each with the 3 s of sound around it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from soundwhere.distributed import initialise
from soundwhere.inference.footage import Footage, SoundWindows, level_db
from soundwhere.inference.result import Answer, Result
from soundwhere.inference.settings import Settings
from soundwhere.inference.tracking import Smoother, Tracker
from soundwhere.media.image import network_size, normalise, resize
from soundwhere.models.registry import DEFAULT, load_model
from soundwhere.models.scav import SCAV

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torch import Tensor

    from soundwhere.media.video import Frame
    from soundwhere.types import Localisation


class Localiser:
    """Keeps a model loaded and localises the sounds of clips with it.

    Args:
        model: A model, its name, or its file.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        fps: Frames analysed per second.
        hop_s: Distance between windows of sound.
        batch: Frames that go through the network together.
        squash: Squash frames to squares instead of keeping their shape.
        smooth: Average the maps lightly over time.
        **thresholds: `least_confidence` and `least_level_db` of `Settings`.
    """

    def __init__(
        self,
        model: str | Path | SCAV = DEFAULT,
        device: str = "auto",
        fps: float = 5.0,
        hop_s: float = 0.5,
        batch: int = 16,
        squash: bool = False,
        smooth: bool = True,
        **thresholds: float,
    ) -> None:
        self.settings = Settings(fps=fps, hop_s=hop_s, squash=squash, smooth=smooth, **thresholds)
        self.device = initialise(device)
        self.model = (model if isinstance(model, SCAV) else load_model(model)).to(self.device).eval()
        self.batch = max(1, batch)

    def localise(
        self,
        path: Path | str,
        audio: Path | str | None = None,
        start_s: float = 0.0,
        end_s: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Localise the sounds of a clip.

        Args:
            path: A video, or a photo with `audio`.
            audio: Another file to take the sound from.
            start_s: Where to begin, in seconds.
            end_s: Where to end; by default where the clip ends.
            progress: Called with the frames done and their total.

        Raises:
            MediaError: A file cannot be read or lacks a stream.
        """
        return self.localise_footage(Footage.open(path, audio, start_s, end_s), progress)

    def localise_footage(self, footage: Footage, progress: Callable[[int, int], None] | None = None) -> Result:
        """As `localise`, for a clip that has been looked at already."""
        total = footage.count(self.analysis_fps(footage))
        answers = []
        for answer in self._answers(footage):
            answers.append(answer.compact())
            if progress is not None:
                progress(len(answers), total)
        return Result.collect(footage, answers, self.settings, self.model.config, self.analysis_fps(footage))

    def stream(
        self,
        path: Path | str,
        audio: Path | str | None = None,
        start_s: float = 0.0,
        end_s: float | None = None,
    ) -> Iterator[Answer]:
        """As `localise`, one answer per analysed frame, as they come."""
        yield from self._answers(Footage.open(path, audio, start_s, end_s))

    def analysis_fps(self, footage: Footage) -> float:
        """The rate of analysis; a photo changes only with its sound."""
        return self.settings.fps if footage.info.duration_s else min(self.settings.fps, 1 / self.settings.hop_s)

    def _answers(self, footage: Footage) -> Iterator[Answer]:
        frames = footage.frames(self.analysis_fps(footage))
        hearing = _Hearing(self.model, footage, self.settings.hop_s, self.device)
        tracker, smoother = Tracker(), Smoother()
        while batch := list(islice(frames, self.batch)):
            heard, levels = hearing.around([frame.time_s for frame in batch])
            found = self._forward(batch, heard)
            maps, confidence, embeddings = (
                tensor.float().cpu().numpy() for tensor in (found.heatmaps(), found.confidence, found.embeddings)
            )
            for row, (frame, level) in enumerate(zip(batch, levels, strict=True)):
                audible = level >= self.settings.least_level_db
                sure = audible & (confidence[row] >= self.settings.least_confidence)
                order = tracker.order(frame.time_s, maps[row], embeddings[row], sure)
                shown, surety = maps[row, order], confidence[row, order]
                if not audible:
                    smoother.forget()
                elif self.settings.smooth:
                    shown, surety = smoother.smooth(frame.time_s, shown, surety)
                sounding = audible & (surety >= self.settings.least_confidence)
                yield Answer(frame.time_s, shown, surety, sounding, level, footage.size)

    @torch.inference_mode()
    def _forward(self, frames: list[Frame], heard: Tensor) -> Localisation:
        """One pass through the network; pictures that follow each other unchanged are encoded once."""
        pictures, rows = [frames[0].image], []
        for frame in frames:
            if frame.image is not pictures[-1]:
                pictures.append(frame.image)
            rows.append(len(pictures) - 1)
        size = self._network_size(pictures[0].shape[0], pictures[0].shape[1])
        images = normalise(torch.from_numpy(np.stack([resize(picture, size) for picture in pictures])).to(self.device))
        features = self.model.visual(images)
        return self.model.localise_heard(features if len(pictures) == len(rows) else features[rows], heard)

    def _network_size(self, height: int, width: int) -> tuple[int, int]:
        side = self.model.config.frame_px
        return (side, side) if self.settings.squash else network_size(height, width, side)


class _Hearing:
    """Encodes windows of sound, each once, for the frames nearest to its middle."""

    def __init__(self, model: SCAV, footage: Footage, hop_s: float, device: torch.device) -> None:
        self._model, self._hop_s, self._device = model, hop_s, device
        self._windows = SoundWindows(footage.sound, footage.start_s - hop_s)
        self._number = -1  # of the last window, which the next frames may share
        self._last: tuple[Tensor, float] | None = None

    @torch.inference_mode()
    def around(self, times_s: list[float]) -> tuple[Tensor, list[float]]:
        """What is heard around ascending times: embeddings (B, 2, C), and the level of each in decibels."""
        numbers = [int(time_s / self._hop_s + 0.5) for time_s in times_s]
        fresh = [number for number in sorted(set(numbers)) if number != self._number]
        known = {} if self._last is None else {self._number: self._last}
        if fresh:
            sounds = [self._windows.at(number * self._hop_s) for number in fresh]
            waveforms = torch.from_numpy(np.stack(sounds)).to(self._device)
            embeddings = self._model.embed(self._model.hear(waveforms))
            known.update(zip(fresh, zip(embeddings, map(level_db, sounds), strict=True), strict=True))
            self._number, self._last = fresh[-1], known[fresh[-1]]
        return torch.stack([known[number][0] for number in numbers]), [known[number][1] for number in numbers]


def localise(
    path: Path | str,
    audio: Path | str | None = None,
    start_s: float = 0.0,
    end_s: float | None = None,
    **options: Any,
) -> Result:
    """Localise the sounds of one clip.

    Args:
        path: A video, or a photo with `audio`.
        audio: Another file to take the sound from.
        start_s: Where to begin, in seconds.
        end_s: Where to end; by default where the clip ends.
        **options: Those of `Localiser`: model, device, fps, hop_s, batch, squash, smooth.
    """
    return Localiser(**options).localise(path, audio, start_s, end_s)
