"""The paper's three failure modes, found among our scenes by rule, with counts.

A source fails whose map overlaps it by less than an IoU of 0.3. It is then the first that applies of: separation
failure, where the map peaks on another source, or a quarter of it lies on others; false activation, where it peaks on
what does not sound; localisation inaccuracy, where it peaks on the source and has another shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from soundwhere.evaluation.qualitative import scene_sheet
from soundwhere.evaluation.reading import views
from soundwhere.evaluation.rows import Row
from soundwhere.metrics.listening import mean_interval
from soundwhere.metrics.presets import find_preset, score, upsample
from soundwhere.metrics.report import Table, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from soundwhere.evaluation.answerers import Method
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Image, Scene

LEVEL: Final = 0.3
"""IoU below which a source has failed."""
LEAKS: Final = 0.25
"""Share of a map on other sources from which it is not separated."""
FINE, SEPARATION, FALSE, SHAPE = "localised", "separation failure", "false activation", "localisation inaccuracy"
MODES: Final = (SHAPE, SEPARATION, FALSE)
"""The failure modes, as the paper lists them."""
_SHOWN: Final = 3


@dataclass(frozen=True)
class Failures:
    """How each source of N came out.

    Attributes:
        modes: A word for each source: `localised`, or one of `MODES`.
        scenes: The number of its scene.
        iou: By how much its map overlaps it, in [0, 1].
    """

    modes: tuple[str, ...]
    scenes: tuple[int, ...]
    iou: tuple[float, ...]

    def examples(self, mode: str) -> list[int]:
        """The scenes whose sources come out like this, around the median IoU: typical ones, not picked."""
        found = sorted(
            (iou, scene) for each, scene, iou in zip(self.modes, self.scenes, self.iou, strict=True) if each == mode
        )
        first = max(0, (len(found) - _SHOWN) // 2)
        return list(dict.fromkeys(scene for _, scene in found[first : first + _SHOWN]))


def find_failures(
    method: Method, scenes: Sequence[Scene], grid: Grid, tick: Callable[[int, int], None] | None = None
) -> Failures:
    """Sort every source of some scenes by how its map came out.

    Args:
        method: Who answers.
        scenes: With masks.
        grid: Rows and columns of frames in the pictures.
        tick: Called with the number of scenes done and that of all.
    """
    preset = find_preset("scav")
    rows: list[tuple[str, int, float]] = []
    for view in views(scenes, tick=tick):
        maps = method.answer(view)[Row(method.label)].maps
        pairs = score(maps, view.truth, preset, grid)
        size = (view.truth.shape[-2], view.truth.shape[-1])
        large = upsample(maps, size, preset)
        for place, source, chosen, iou, leak in zip(
            *(getattr(pairs, name).tolist() for name in ("scene", "source", "prediction", "iou", "leakage")),
            strict=True,
        ):
            mode = _mode(iou, leak, large[place, max(chosen, 0)], view.truth[place], source)
            rows.append((mode, view.numbers[place], iou))
    return Failures(*(tuple(column) for column in zip(*rows, strict=True)))


def _mode(iou: float, leakage: float, heat: Tensor, truth: Tensor, source: int) -> str:
    if iou >= LEVEL:
        return FINE
    row, column = divmod(int(heat.argmax()), heat.shape[-1])
    on = [number for number, mask in enumerate(truth) if bool(mask[row, column])]
    if leakage >= LEAKS or (on and source not in on):
        return SEPARATION
    return SHAPE if source in on else FALSE


def failures_table(failures: Failures, data: str) -> Table:
    """How often each mode occurs, and what share of the failures it is."""
    found = torch.tensor([[each == mode for mode in (FINE, *MODES)] for each in failures.modes], dtype=torch.float64)
    failed = found[found[:, 0] == 0]
    lines = []
    for number, mode in enumerate((FINE, *MODES)):
        shares = percent(mean_interval(found[:, number].numpy()))
        among = percent(mean_interval(failed[:, number].numpy())) if number and len(failed) else "-"
        lines.append((mode, str(int(found[:, number].sum())), shares, among))
    note = (
        f"{len(failures.modes)} sources of {data}. Failed: IoU below {LEVEL:g} (frame-wise, minmax-0.5). Separation "
        f"failure: the map peaks on another source, or {LEAKS:.0%} of it lies on others. False activation: it peaks on "
        "what does not sound. Localisation inaccuracy: it peaks on the source. Intervals: 95 %, bootstrap over sources."
    )
    return Table("Failure modes", ("mode", "sources", "of all", "of those that failed"), tuple(lines), (note,))


def failure_pictures(failures: Failures, scenes: Sequence[Scene], method: Method) -> Mapping[str, Image]:
    """Typical scenes of each mode, by heading."""
    chosen = {mode: failures.examples(mode) for mode in MODES}
    return {
        f"{mode.capitalize()}: scenes around the median": scene_sheet([scenes[place] for place in places], [method])
        for mode, places in chosen.items()
        if places
    }
