"""A video in, heatmaps over time out: frames at the analysis rate, each with the 3 s of sound around it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere.inference.ahead import ahead, at_once, spread
from soundwhere.inference.chunks import chunks, single
from soundwhere.inference.footage import Footage
from soundwhere.inference.result import Result
from soundwhere.inference.runtimes import load
from soundwhere.inference.settings import Settings
from soundwhere.inference.tracking import Follower
from soundwhere.media.image import network_size
from soundwhere.methods.files import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.inference.chunks import Chunk
    from soundwhere.inference.overlays import Drawing
    from soundwhere.inference.result import Answer
    from soundwhere.inference.runtimes import Found, Runtime
    from soundwhere.methods.method import Network
    from soundwhere.types import Image, Waveform

    Floats = NDArray[np.float32]
    Windows = dict[int, tuple[Any, float]]  # of sound: what is heard and level in decibels, by number


class Localiser:
    """Keeps a model loaded and localises the sounds of clips with it.

    Args:
        model: A model, its name, or its file.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        fps: Frames analysed per second.
        hop_s: Distance between windows of sound.
        batch: Frames that go through the network together; by default 16 on a GPU and 8 on a processor.
        squash: Squash frames to squares instead of keeping their shape.
        smooth: Average the maps lightly over time.
        sources: How many sources are looked for; by default as many as the model tells apart, which is two, and a model
            that counts leaves out those that never sound.
        runtime: `torch`; `onnx` for a built-in model or a file that `soundwhere export --onnx` wrote; `openvino` for
            such a file. By default onnx where it can be, on a processor, and torch elsewhere.
        **thresholds: `least_confidence` and `least_level_db` of `Settings`; the former by default as the model was
            calibrated.
    """

    def __init__(
        self,
        model: str | Path | Network = DEFAULT,
        device: str = "auto",
        fps: float = 5.0,
        hop_s: float = 0.5,
        batch: int | None = None,
        squash: bool = False,
        smooth: bool = True,
        sources: int | None = None,
        runtime: Runtime | None = None,
        **thresholds: float,
    ) -> None:
        self.settings = Settings(fps=fps, hop_s=hop_s, squash=squash, smooth=smooth, sources=sources, **thresholds)
        self.model = load(model, runtime, device, at_once(), sources)
        self.device = self.model.device
        self.workers = at_once() if self.device == "cpu" else 1
        if "least_confidence" not in thresholds:
            self.settings = replace(self.settings, least_confidence=self.model.config.sounding_threshold)
        self.sources = self.model.sources if sources is None else sources
        self.batch = max(1, batch or (8 if self.device == "cpu" else 16))

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

    def localise_footage(
        self,
        footage: Footage,
        progress: Callable[[int, int], None] | None = None,
        drawing: Drawing | None = None,
    ) -> Result:
        """As `localise`, for a clip that has been looked at already.

        Args:
            footage: The clip.
            progress: Called with the frames done and their total.
            drawing: Its overlay, to be drawn from the same frames.
        """
        total = footage.count(self.analysis_fps(footage))
        answers = []
        for answer in self._answers(footage, drawing):
            answers.append(answer.compact())
            if drawing is not None:
                drawing.add(answers[-1])
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

    @property
    def counts(self) -> bool:
        """Whether sources that never sound are left out of results."""
        return self.settings.sources is None and self.model.config.counts

    def localisations(
        self, footage: Footage, drawing: Drawing | None = None
    ) -> Iterator[tuple[Chunk, list[float], Found]]:
        """What the network answers, chunk by chunk, before sources are followed over time.

        Args:
            footage: The clip.
            drawing: Its overlay, if that is to be drawn from the same frames.

        Yields:
            B frames, the level of the sound around each, and the maps of all of them.
        """
        size = self._network_size(*footage.size)
        fps = self.analysis_fps(footage)
        frames = footage.undeveloped(fps) if drawing is None else drawing.frames(fps)
        batch = self.batch if drawing is None else min(self.batch, drawing.batch)
        read = chunks(footage, frames, self.settings.hop_s, batch, size, self.workers)
        with (
            closing(ahead(read)) as decoded,
            closing(spread(self._hear, decoded, self.workers)) as heard,
            closing(spread(self._forward, _with_sound(heard), self.workers)) as answers,
        ):
            yield from answers

    def look(self, image: Image, sound: Waveform) -> tuple[Floats, Floats, Floats]:
        """What the network answers for one picture and one window of sound, before sources are followed over time.

        Args:
            image: RGB, shape (H, W, 3), uint8.
            sound: Shape (66150,).

        Returns:
            Maps (K, h, w) and confidences (K,), in [0, 1], and embeddings (K, D).
        """
        chunk, heard = self._hear(single(image, sound, self._network_size(*image.shape[:2])))
        _, _, (maps, confidence, embeddings) = self._forward((chunk, [0.0], [heard[0][0]]))
        return maps[0], confidence[0], embeddings[0]

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the network's own maps of a picture of this size."""
        rows, columns = (side // self.model.stride_px for side in self._network_size(height, width))
        return rows, columns

    def _answers(self, footage: Footage, drawing: Drawing | None = None) -> Iterator[Answer]:
        follower = Follower(self.settings)
        for chunk, levels, found in self.localisations(footage, drawing):
            for time_s, level, maps, sure, voices in zip(chunk.times_s, levels, *found, strict=True):
                yield follower.follow(time_s, maps, sure, voices, level, footage.size)

    def _hear(self, chunk: Chunk) -> tuple[Chunk, Windows]:
        """Encode the windows of sound that are new in a chunk."""
        if not chunk.sounds:
            return chunk, {}
        embeddings = self.model.hear(np.stack(list(chunk.sounds.values())))
        levels = chunk.levels_db.values()
        return chunk, dict(zip(chunk.sounds, zip(embeddings, levels, strict=True), strict=True))

    def _forward(self, given: tuple[Chunk, list[float], list[Any]]) -> tuple[Chunk, list[float], Found]:
        """The answer for every frame of a chunk."""
        chunk, levels, heard = given
        return chunk, levels, self.model.localise(chunk.pictures, chunk.shown, heard, self.sources)

    def _network_size(self, height: int, width: int) -> tuple[int, int]:
        side = self.model.config.frame_px
        return (side, side) if self.settings.squash else network_size(height, width, side, self.model.stride_px)


def _with_sound(parts: Iterable[tuple[Chunk, Windows]]) -> Iterator[tuple[Chunk, list[float], list[Any]]]:
    """Portions, the level of the sound around each of their frames, and what is heard there."""
    heard: Windows = {}
    for chunk, fresh in parts:
        latest = {max(heard): heard[max(heard)]} if heard else {}  # the only one that the next frames may share
        heard = {**latest, **fresh}
        embeddings, levels = zip(*(heard[number] for number in chunk.windows), strict=True)
        yield chunk, list(levels), list(embeddings)


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
        **options: Those of `Localiser`: model, device, fps, hop_s, batch, squash, smooth, sources, runtime.
    """
    return Localiser(**options).localise(path, audio, start_s, end_s)
