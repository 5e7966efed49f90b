"""Answers as things happen: frames and samples are pushed as they come, answers pulled as they are ready.

What cannot be kept up with is dropped: of frames that wait only the newest is looked at, and of answers that wait only
the newest is given. Nothing queues, so an answer is never older than the time one takes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Any, Final, Self

import av
import numpy as np
import torch

from soundwhere.constants import CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.errors import MediaError
from soundwhere.inference.footage import level_db
from soundwhere.inference.geometry import place_words
from soundwhere.inference.localiser import Localiser
from soundwhere.inference.result import Answer
from soundwhere.inference.tracking import Follower

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.types import Image, Waveform

NOW_S: Final = 0.5
"""How much of the latest sound decides whether it is silent."""
_FASTEST_HZ = 1_000_000  # of samples
_PATIENCE_S = 30.0  # for the answer at hand when somebody wants to end


@dataclass(frozen=True, eq=False)
class LiveAnswer(Answer):
    """What was found in the newest frame, with the sound up to then.

    Attributes:
        sound_s: Until when sound was heard, on the clock of `push_samples`; nan if it was told no times.
        latency_s: From the moment the newest sound was pushed (or the frame, where no sound came) to the answer.
        dropped: Frames that were passed over since the answer before.
    """

    sound_s: float
    latency_s: float
    dropped: int

    @property
    def places(self) -> list[str]:
        """Where each source is, in words such as `left, low`; empty for one that does not sound."""
        height, width = self.size
        shares = self.peaks / (width, height)
        return [
            place_words(float(x), float(y)) if sounds else ""
            for (x, y), sounds in zip(shares, self.sounding, strict=True)
        ]


class RollingSound:
    """The last 3 s of a stream of samples at any rate; silence before its beginning.

    Attributes:
        latest: Mono, 22 050 Hz, shape (66150,), the newest sample last. Never changed in place.
    """

    def __init__(self) -> None:
        self.latest: Waveform = np.zeros(CLIP_SAMPLES, np.float32)
        self._rate_hz = 0

    def push(self, samples: NDArray[np.floating], rate_hz: int) -> None:
        """Go on with the stream.

        Args:
            samples: Floats within [-1, 1], shape (N,), or (N, C) for C channels, which are averaged; what is not
                finite becomes silence.
            rate_hz: Their rate. Where it changes, the sound goes on without a gap.

        Raises:
            MediaError: They are not samples.
        """
        samples = np.asarray(samples)
        if samples.ndim not in (1, 2) or samples.dtype.kind != "f" or not 1 <= rate_hz <= _FASTEST_HZ:
            raise MediaError(
                f"{samples.dtype} of shape {samples.shape} at {rate_hz} Hz is not sound.",
                "Push floats of shape (N,) or (N, channels), and their rate in hertz.",
            )
        if not samples.size:
            return
        finite = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32)
        self._append(finite if finite.ndim == 1 else finite.mean(1), rate_hz)

    def _append(self, mono: Waveform, rate_hz: int) -> None:
        if rate_hz != self._rate_hz:
            self._rate_hz = rate_hz
            self._resampler = av.AudioResampler(format="fltp", layout="mono", rate=SAMPLE_RATE_HZ)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(mono)[None], format="fltp", layout="mono")
        frame.sample_rate = rate_hz
        fresh = [piece.to_ndarray()[0] for piece in self._resampler.resample(frame)]
        self.latest = np.concatenate([self.latest, *fresh])[-CLIP_SAMPLES:]


class Live:
    """Localises sounds as they happen. Every method may be called from any thread.

    A frame is answered with the 3 s of sound before it, as long a window as models are trained on. The network runs in
    a thread of its own, and rests while it is silent.

    Args:
        localiser: A model that is loaded already, which several may share.
        **options: Otherwise those of `Localiser`: model, device, sources, runtime, ...
    """

    def __init__(self, localiser: Localiser | None = None, **options: Any) -> None:
        self.localiser = Localiser(**options) if localiser is None else localiser
        self._changed = Condition()
        self._sound = RollingSound()
        self._sound_s, self._heard_at = math.nan, math.nan
        self._frame: tuple[Image, float, float] | None = None  # picture, time, when it was pushed
        self._last_s = -math.inf
        self._dropped = 0
        self._answer: LiveAnswer | None = None
        self._failure: BaseException | None = None
        self._closed = False
        self._follower = Follower(self.localiser.settings)
        self._size = (0, 0)
        self._grid: tuple[int, ...] = (1, 1)
        self._thread = self._start()

    def push_samples(self, samples: NDArray[np.floating], rate_hz: int, time_s: float = math.nan) -> None:
        """Go on with the sound.

        Args:
            samples: What follows on the samples before, floats within [-1, 1], shape (N,), or (N, C) for C channels.
            rate_hz: Their rate, which may change.
            time_s: When the last of them was heard, on a clock of yours; answers tell it again as `sound_s`.

        Raises:
            MediaError: They are not samples.
        """
        with self._changed:
            self._sound.push(samples, rate_hz)
            self._sound_s, self._heard_at = time_s, time.monotonic()

    def push_frame(self, image: Image, time_s: float) -> None:
        """Show the next picture; one that is still waiting is dropped.

        Args:
            image: RGB, shape (H, W, 3), uint8; any size, which may change.
            time_s: Its time, later than the last one.

        Raises:
            MediaError: It is not a picture, or not later.
        """
        image = np.array(image)  # our own: a camera may use its buffer again
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            raise MediaError(
                f"{image.dtype} of shape {image.shape} is not a frame.", "Push uint8 RGB of shape (H, W, 3)."
            )
        with self._changed:
            if not self._last_s < time_s < math.inf:
                raise MediaError(
                    f"A frame at {time_s:g} s does not follow on one at {self._last_s:g} s.",
                    "Push frames in the order of their times.",
                )
            self._dropped += self._frame is not None
            self._frame, self._last_s = (image, time_s, time.monotonic()), time_s
            self._changed.notify_all()

    def pull(self, timeout_s: float = 0.0) -> LiveAnswer | None:
        """The newest answer, each once; None if none is ready within so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._answer or self._failure or self._closed, timeout_s)
            if self._failure is not None:
                raise self._failure
            answer, self._answer = self._answer, None
            return answer

    def close(self) -> None:
        """End; what waits is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(_PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> Thread:
        """Start the thread with half of torch's threads: whoever shows the answers needs the rest."""
        threads, ready = torch.get_num_threads(), Event()

        def run() -> None:
            torch.set_num_threads(max(1, threads // 2))
            ready.set()
            self._work()

        thread = Thread(target=run, name="live", daemon=True)
        thread.start()
        ready.wait()
        torch.set_num_threads(threads)  # of threads to come: this one never lost its own
        return thread

    def _work(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._frame or self._closed)
                    if self._closed or self._frame is None:
                        return
                    (image, time_s, pushed_at), self._frame = self._frame, None
                    sound, sound_s, heard_at = self._sound.latest, self._sound_s, self._heard_at
                    dropped, self._dropped = self._dropped, 0
                found = self._localise(image, time_s, sound)
                latency_s = time.monotonic() - (pushed_at if math.isnan(heard_at) else heard_at)
                with self._changed:
                    self._answer = LiveAnswer(**vars(found), sound_s=sound_s, latency_s=latency_s, dropped=dropped)
                    self._changed.notify_all()
        except BaseException as error:  # raised again where answers are awaited
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _localise(self, image: Image, time_s: float, sound: Waveform) -> Answer:
        size = image.shape[:2]
        if size != self._size:  # a phone was turned: maps of another shape cannot be compared
            self._follower, self._size = Follower(self.localiser.settings), size
            self._grid = self.localiser.grid(*size)
        level = level_db(sound[-round(NOW_S * SAMPLE_RATE_HZ) :])
        sources = self.localiser.sources
        if level < self.localiser.settings.least_level_db:
            self._follower.pause()
            nothing = np.zeros(sources, np.float32)
            return Answer(time_s, np.zeros((sources, *self._grid), np.float32), nothing, nothing > 0, level, size)
        maps, confidence, embeddings = self.localiser.look(image, sound)
        self._grid = maps.shape[1:]
        return self._follower.follow(time_s, maps, confidence, embeddings, level, size)
