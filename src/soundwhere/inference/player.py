"""What the player in the browser needs to know about a result, as plain JSON values.

The player (`web/player.js` and what it is made of) is the same on the page that `localise` writes and on the one that
`soundwhere serve` shows. Arrays travel as base64 of bytes, so that half an hour takes a few megabytes.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere import __version__
from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.media.audio import timeline
from soundwhere.media.video import clock_span

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.inference.footage import Footage
    from soundwhere.inference.result import Result

SCHEMA: Final = "soundwhere-player-2"
_COLUMNS = 1200  # of the waveform, about one per pixel


def player_data(result: Result) -> dict[str, Any]:
    """Everything the player shows but the video and the files."""
    footage, settings = result.footage, result.settings
    whole = footage.start_s == 0 and footage.end_s >= footage.info.duration_s
    part = "" if whole else f", {clock_span(footage.start_s, footage.end_s, ' to ')} of it"
    stretched, lows, highs = _stretched(result.maps)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "title": footage.name,
        "facts": footage.describe() + part,
        "model": result.model.name,
        "analysis": f"{result.fps:g} frames per second, a window of sound every {settings.hop_s:g} s",
        "width": footage.info.width,
        "height": footage.info.height,
        "start_s": round(footage.start_s, 3),
        "end_s": round(footage.end_s, 3),
        "best_s": round(result.best_time(), 3),
        "frame_rate": round(footage.own_fps, 4),
        "least_confidence": settings.least_confidence,
        "times_s": np.asarray(result.times, np.float64).round(4).tolist(),
        "grid": [int(side) for side in result.maps.shape[-2:]],
        "maps": _packed(stretched),
        "ranges": [[round(float(low), 5), round(float(high), 5)] for low, high in zip(lows, highs, strict=True)],
        "waveform": _packed(waveform(footage)),
        "sources": [_source(result, source) for source in range(result.sources)],
    }


def _stretched(maps: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Maps (T, K, h, w), each over all of [0, 1], so that a byte tells its values finely, and their ranges (T K,)."""
    maps = np.asarray(maps, np.float32)
    low, high = maps.min((-2, -1), keepdims=True), maps.max((-2, -1), keepdims=True)
    return (maps - low) / np.maximum(high - low, 1e-6), low.ravel(), high.ravel()


def warm(maps: NDArray[np.floating]) -> NDArray[np.float32]:
    """The upper half of each map, stretched over [0, 1]: what is drawn of it, shape as before.

    A cosine is well above 0 all over the picture; drawn as it is, it would veil everything.
    """
    maps = np.asarray(maps, np.float32)
    low, high = maps.min((-2, -1), keepdims=True), maps.max((-2, -1), keepdims=True)
    middle = (low + high) / 2
    upper: NDArray[np.float32] = np.clip((maps - middle) / np.maximum(high - middle, 1e-6), 0, 1)
    return upper


def waveform(footage: Footage) -> NDArray[np.float32]:
    """The sound's outline: the largest amplitude in each of up to 1200 equal stretches, in [0, 1], the loudest at 1."""
    length_s = footage.end_s - footage.start_s
    columns = min(_COLUMNS, max(1, int(length_s * 50)))
    outline = np.zeros(columns, np.float32)
    total, done = max(1, round(length_s * SAMPLE_RATE_HZ)), 0
    for block in timeline(footage.sound, SAMPLE_RATE_HZ, start_s=footage.start_s):
        samples = np.abs(np.nan_to_num(block[0]))[: total - done]
        if len(samples):
            columns_of = np.arange(done, done + len(samples)) * columns // total
            first = np.flatnonzero(np.diff(columns_of, prepend=-1))
            np.maximum.at(outline, columns_of[first], np.maximum.reduceat(samples, first))
        done += len(samples)
        if done >= total:
            break
    return outline / max(float(outline.max()), 1e-4)  # digital silence stays flat


def _source(result: Result, source: int) -> dict[str, Any]:
    return {
        "number": source + 1,
        "colour": "#{:02x}{:02x}{:02x}".format(*result.colour(source)[1]),
        "where": result.where(source),
        "spans_s": [[round(start, 3), round(end, 3)] for start, end in result.spans(source)],
        "confidence": _packed(result.confidence[:, source]),
        "sounding": "".join("01"[bool(sounds)] for sounds in result.sounding[:, source]),
    }


def _packed(values: NDArray[np.floating]) -> str:
    """Values in [0, 1] as base64 of bytes."""
    return b64encode(as_bytes(values)).decode("ascii")


def as_bytes(values: NDArray[np.floating]) -> bytes:
    """Values in [0, 1] as one byte each."""
    coarse: NDArray[np.uint8] = np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8)
    return coarse.tobytes()
