"""Whether motion tells which of two videos is heard, and whether that helps a model: duets made of real videos.

A picture and a sound cannot tell which of two people talks. Motion can: hands, lips and heads move as a sound sets in.
What moves is compared with onsets over one window of sound, place by place; where a map lights several places, those
that move with the sound keep their light and the others are dimmed. Nothing dark is lit, and nothing is learnt.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from scipy.ndimage import convolve1d
from torch.nn.functional import interpolate

from soundwhere.analysis.report import Report
from soundwhere.constants import CLIP_S, CLIP_SAMPLES
from soundwhere.data.controls import partner
from soundwhere.media.image import resize
from soundwhere.metrics.listening import frames_found, mean_interval
from soundwhere.metrics.report import figures_table, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from soundwhere.data.video_duets import MovingDuet
    from soundwhere.metrics.bootstrap import Interval
    from soundwhere.types import Image, Waveform

    Floats = NDArray[np.float32]
    Look = Callable[[Image, Waveform], tuple[Floats, Floats, Floats]]  # as `Localiser.look`

STEPS: Final = round(CLIP_S * 15)
"""Steps from frame to frame in a window of sound, 15 a second."""
_CELL_PX: Final = 4  # side of a place whose motion is one number, in pixels of the small grey frames
_PX: Final = 16  # the same, in pixels of the picture
_LAGS: Final = (-1, 0, 1, 2)  # steps by which a movement may come before its sound
_FLOOR_DB: Final = 40.0  # below the loudest step; what is softer is silence
_QUIETEST: Final = 1e-4  # root mean square that counts as none
_STILL: Final = 0.02  # spread of the motion of a place that does not move, below which nothing is said of it
_CALM: Final = np.array([0.25, 0.5, 0.25], np.float32)  # steps are averaged with their neighbours
_REACH: Final = 1 / 6  # how far places support each other, in heights of the picture
_DIMMING: Final = 12.0  # a place that agrees by 0.1 less than the best is dimmed to exp(-1.2)
_LIT: Final = 0.5  # share of a map's peak from which a place competes
_LEAST_STEPS: Final = STEPS // 2  # with fewer, nothing is said

MODEL, HELPED, LATE, DEAF, ALONE, GAIN = (
    "the model",
    "the model and motion",
    "... motion compared with the sound 1.5 s late",
    "the model, hearing another duet",
    "motion alone",
    "what motion adds",
)
_HALVES: Final = (1, 2)


def watch(
    duets: Sequence[MovingDuet], look: Look, tick: Callable[[int, int], None] | None = None
) -> dict[str, list[float]]:
    """Whether each answer's highest peak lies in the half that is heard, 1 or 0 for every duet.

    Args:
        duets: At least two.
        look: A model: one picture and one sound to maps (K, h, w), the surest first.
        tick: Called with the number of duets done and that of all.
    """
    found: dict[str, list[float]] = {MODEL: [], HELPED: [], LATE: [], DEAF: [], ALONE: []}
    for number, duet in enumerate(duets):
        maps = look(duet.image, duet.sound)[0][:1]
        energy, onset = motion_energy(_grey(duet.frames)), onsets(duet.sound)
        agreed = agreement(energy, onset)
        late = agreement(energy, np.roll(onset, len(onset) // 2))
        answers = {
            MODEL: maps,
            HELPED: prefer(maps, agreed),
            LATE: prefer(maps, late),
            DEAF: look(duet.image, duets[partner(number, len(duets))].sound)[0][:1],
            ALONE: agreed[None],
        }
        for answer, heat in answers.items():
            found[answer].append(_in_half(heat, duet.place))
        if tick is not None:
            tick(number + 1, len(duets))
    return found


def motion_results(lists: dict[str, dict[str, list[float]]], made_of: dict[str, list[tuple[str, ...]]]) -> Report:
    """What `watch` found on some lists of duets, and the videos that each duet is made of."""
    rows: dict[str, dict[str, Interval]] = {}
    for name, found in lists.items():
        values = {answer: np.array(right) for answer, right in found.items()}
        values[GAIN] = values[HELPED] - values[MODEL]
        for answer, right in values.items():
            rows.setdefault(answer, {})[name] = mean_interval(right, made_of=made_of[name])
    columns = {name: f"{name} ({len(made_of[name])})" for name in lists}
    words = "The highest peak of the first source lies in the half that is heard (%); chance is 50."
    drawn = "Intervals: 95 %, bootstrap over videos."
    shown: dict[str, dict[str, Any]] = dict(rows)
    shown[GAIN] = {name: percent(each, signed=True) for name, each in rows[GAIN].items()}
    table = figures_table("Which of two videos is heard", shown, columns, words, drawn, first="answer")
    values_json = {answer: {name: asdict(rate) for name, rate in row.items()} for answer, row in rows.items()}
    return Report([table], {"motion": values_json})


def _grey(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Colour frames (T, H, W, 3) as small grey ones, whose cells are 16 pixels of theirs."""
    size = tuple(side * _CELL_PX // _PX for side in frames.shape[1:3])
    return np.stack([resize(frame, size).mean(2).astype(np.uint8) for frame in frames])


def _in_half(maps: Floats, place: int) -> float:
    heat = torch.from_numpy(np.ascontiguousarray(maps))[None]
    truth = torch.zeros_like(heat, dtype=torch.bool)
    middle = heat.shape[-1] // 2
    truth[..., slice(middle) if place == 0 else slice(middle, None)] = True
    (found,) = frames_found(heat, truth, _HALVES)
    assert found is not None  # one of two halves sounds
    return found.by_peak


def motion_energy(frames: NDArray[np.uint8]) -> Floats:
    """How much each place moves from frame to frame.

    What changes everywhere alike (exposure, a flash) is taken off.

    Args:
        frames: Grey, shape (T + 1, H, W); what is beyond whole cells is left out.

    Returns:
        Log of one plus the mean change in grey levels, calmed over time, shape (T, H // 4, W // 4).
    """
    rows, columns = (side // _CELL_PX for side in frames.shape[1:])
    change = np.diff(frames[:, : rows * _CELL_PX, : columns * _CELL_PX].astype(np.float32), axis=0)
    change = np.abs(change - np.median(change, axis=(1, 2), keepdims=True))
    return _calm(np.log1p(change.reshape(len(change), rows, _CELL_PX, columns, _CELL_PX).mean((2, 4))))


def onsets(sound: Waveform) -> Floats:
    """How much louder each step of a window of sound (66150,) is than the one before, in decibels, calmed; (45,)."""
    steps = sound.astype(np.float64).reshape(STEPS, CLIP_SAMPLES // STEPS)
    level = 20 * np.log10(np.sqrt((steps**2).mean(1)) + _QUIETEST)
    level = np.maximum(level, level.max() - _FLOOR_DB)
    return _calm(np.maximum(np.diff(level, prepend=level[:1]), 0).astype(np.float32))


def agreement(energy: Floats, onset: Floats) -> Floats:
    """How well the motion around each place goes with the onsets of a sound.

    The correlation over time at the best of a few lags. Places support their neighbours, the more the more their motion
    changes: places that stay still agree with nothing.

    Args:
        energy: Motion of T steps, shape (T, h, w).
        onset: Of the same T steps, shape (T,).

    Returns:
        In [-1, 1], shape (h, w); 0 everywhere where there is too little to compare.
    """
    steps, rows, columns = energy.shape
    if steps < _LEAST_STEPS:
        return np.zeros((rows, columns), np.float32)
    spread = energy.std(0)
    support = _blur(spread, _REACH * rows) + _STILL
    by_lag = []
    for lag in _LAGS:
        moved = energy[max(0, -lag) : steps - max(0, lag)]
        heard = onset[max(0, lag) : steps - max(0, -lag)]
        correlation = np.tensordot(_standard(heard), _standard(moved), 1) / len(heard)
        by_lag.append(_blur(spread * correlation, _REACH * rows) / support)
    return np.asarray(np.clip(np.max(by_lag, axis=0), -1, 1), np.float32)


def prefer(maps: Floats, agreed: Floats) -> Floats:
    """Dim what a map lights beside the place that agrees best with the sound, as far as that place is ahead.

    Args:
        maps: Of K sources, shape (K, h, w), in [0, 1].
        agreed: `agreement` on any grid of the same picture, shape (rows, columns).

    Returns:
        Maps that are nowhere brighter, shape (K, h, w).
    """
    grid = torch.tensor(agreed, dtype=torch.float64)[None, None]
    fine = interpolate(grid, maps.shape[1:], mode="bilinear")[0, 0].float().numpy()
    peaks = maps.max((1, 2), keepdims=True)
    competes = (maps >= _LIT * peaks) & (peaks > 0)
    best = np.where(competes, fine, -np.inf).max((1, 2), keepdims=True)
    behind = np.maximum(np.where(np.isfinite(best), best - fine, 0), 0)
    return maps * np.exp(-_DIMMING * behind).astype(np.float32)


def _calm(values: Floats) -> Floats:
    """Values averaged over three steps of their first axis; the ends are repeated."""
    return np.asarray(convolve1d(values, _CALM, axis=0, mode="nearest"), np.float32)


def _standard(values: Floats) -> Floats:
    """Values less their mean over the first axis, over their spread; 0 where nothing changes."""
    centred = values - values.mean(0)
    spread = np.sqrt((centred**2).mean(0))
    return np.asarray(np.where(spread > 1e-6, centred / np.maximum(spread, 1e-6), 0), np.float32)


def _blur(values: Floats, sigma: float) -> Floats:
    """A picture (h, w) blurred by a Gaussian; nothing lies beyond its edges."""
    for axis in (0, 1):
        places = np.arange(values.shape[axis])
        kernel = np.exp(-0.5 * ((places[:, None] - places) / max(sigma, 1e-3)) ** 2)
        values = np.moveaxis(np.tensordot(kernel, values, (1, axis)), 0, axis)
    return values
