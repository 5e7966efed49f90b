"""The latest sound of a stream, at the rate and of the length that models are trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
import numpy as np

from soundwhere.constants import CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.errors import MediaError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.types import Waveform

_FASTEST_HZ = 1_000_000


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
