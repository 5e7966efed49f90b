"""Whether motion tells which of two videos is heard, and whether that helps a model: duets made of real videos."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from soundwhere.analysis.report import Report
from soundwhere.analysis.synchrony import CELL_PX, agreement, motion_energy, onsets, prefer
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

MODEL, HELPED, LATE, DEAF, ALONE, GAIN = (
    "the model",
    "the model and motion",
    "... motion compared with the sound 1.5 s late",
    "the model, hearing another duet",
    "motion alone",
    "what motion adds",
)
_HALVES: Final = (1, 2)
_PX: Final = 16  # side of a place whose motion is one number, in pixels of the picture


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
    size = tuple(side * CELL_PX // _PX for side in frames.shape[1:3])
    return np.stack([resize(frame, size).mean(2).astype(np.uint8) for frame in frames])


def _in_half(maps: Floats, place: int) -> float:
    heat = torch.from_numpy(np.ascontiguousarray(maps))[None]
    truth = torch.zeros_like(heat, dtype=torch.bool)
    middle = heat.shape[-1] // 2
    truth[..., slice(middle) if place == 0 else slice(middle, None)] = True
    (found,) = frames_found(heat, truth, _HALVES)
    assert found is not None  # one of two halves sounds
    return found.by_peak
