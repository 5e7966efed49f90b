"""The metric as an object that is fed batch by batch, on one process or many."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from soundwhere.errors import MissingExtraError
from soundwhere.metrics.pairs import PairScores, figures
from soundwhere.metrics.presets import Preset, find_preset, score

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.metrics.frames import Grid

if TYPE_CHECKING or find_spec("torchmetrics"):
    from torchmetrics import Metric
else:

    class Metric:
        """Stands in for torchmetrics' class and says what is missing when a metric is made."""

        def __init__(self, **_: Any) -> None:
            raise MissingExtraError("torchmetrics", "train")


_COLUMNS = ("scene", "source", "prediction", "iou", "ap", "pointing", "leakage")


class LocalisationScore(Metric):
    """CAP, CIoU@x, AUC and the rest over all scenes seen, by any preset. It keeps seven numbers per pair.

    On several processes, give each scene its number: rows are put in order and a scene that a sampler handed out twice
    counts once, so the result equals that of one process to the last bit.

    Args:
        preset: A preset or its name.
        grid: Rows and columns of frames in the pictures; see `score`.
        **kwargs: As torchmetrics' `Metric`.

    Example:
        >>> truth = torch.zeros(1, 2, 4, 8, dtype=torch.bool)
        >>> truth[0, 0, 1:3, 1:3] = truth[0, 1, 1:3, 5:7] = True
        >>> metric = LocalisationScore()
        >>> metric.update(truth.flip(1).float(), truth)
        >>> metric.compute()["ciou@0.5"]
        tensor(1., dtype=torch.float64)
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    rows: list[Tensor]

    def __init__(self, preset: Preset | str = "scav", grid: Grid = (1, 2), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.preset = find_preset(preset) if isinstance(preset, str) else preset
        self.grid = grid
        self.seen = 0  # never set back: torchmetrics resets in the middle of `forward`, and numbers must not repeat
        self.add_state("rows", default=[], dist_reduce_fx="cat")
        self.reset()

    def update(self, maps: Tensor, truth: Tensor, scenes: Tensor | None = None) -> None:
        """Score a batch.

        Args:
            maps: Shape (B, K, h, w); see `score`.
            truth: Shape (B, M, H, W), bool.
            scenes: Numbers of the scenes, shape (B,), int64; by default they are counted.
        """
        if scenes is None:
            scenes = torch.arange(self.seen, self.seen + len(truth), device=truth.device)
        self.seen += len(truth)
        columns = score(maps, truth, self.preset, self.grid, scenes).columns()
        self.rows.append(torch.stack([columns[name].double() for name in _COLUMNS], dim=-1).to(self.device))

    def pairs(self) -> PairScores:
        """The rows seen, ordered by scene and source; inside `with metric.sync_context():` those of all processes."""
        rows = self.rows if isinstance(self.rows, torch.Tensor) else torch.cat(self.rows)
        return PairScores.from_rows(torch.unique(rows.cpu(), dim=0))

    def compute(self) -> dict[str, Tensor]:
        """The preset's figures, each in [0, 1]; see `figures`."""
        _, columns = figures(self.pairs(), self.preset.levels, self.preset.meaning)
        return {name: column.mean() for name, column in columns.items()}

    def reset(self) -> None:
        """Forget all scenes."""
        super().reset()
        # a process that is given no scene still has to tell the others what rows look like
        self.rows = [torch.empty(0, len(_COLUMNS), dtype=torch.float64, device=self.device)]
