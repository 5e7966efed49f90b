"""The metric as an object that is fed batch by batch, on one process or many."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from soundwhere.distributed import rank, world_size
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


_KEYS = ("scene", "source", "prediction")
_SCORES = ("iou", "ap", "pointing", "leakage")


class LocalisationScore(Metric):
    """CAP, CIoU@x, AUC and the rest over all scenes seen, by any preset. It keeps eight numbers per pair.

    On several processes, give each scene its number: it is by its number that a scene is recognised which a sampler
    handed out twice, and it counts once, as it was scored first. Scenes without a number all count. Rows are put in
    order, so the result equals that of one process to the last bit.

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
    keys: list[Tensor]
    scores: list[Tensor]

    def __init__(self, preset: Preset | str = "scav", grid: Grid = (1, 2), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.preset = find_preset(preset) if isinstance(preset, str) else preset
        self.grid = grid
        self.seen = 0  # never set back: torchmetrics resets in the middle of `forward`, and numbers must not repeat
        self.add_state("keys", default=[], dist_reduce_fx="cat")
        self.add_state("scores", default=[], dist_reduce_fx="cat")
        self.reset()

    def update(self, maps: Tensor, truth: Tensor, scenes: Tensor | None = None) -> None:
        """Score a batch.

        Args:
            maps: Shape (B, K, h, w); see `score`.
            truth: Shape (B, M, H, W), bool.
            scenes: Numbers of the scenes, shape (B,), int64; by default they are counted, each process giving others.
        """
        if scenes is None:
            scenes = rank() + world_size() * torch.arange(self.seen, self.seen + len(truth))
        self.seen += len(truth)
        pairs = score(maps, truth, self.preset, self.grid)
        pairs = pairs[pairs.scene.argsort(stable=True)]
        # the first row of each scene begins a visit; two visits may follow each other
        begins = torch.diff(pairs.scene, prepend=torch.tensor([-1])) > 0
        columns = {**pairs.columns(), "scene": scenes.cpu()[pairs.scene]}
        self.keys.append(torch.stack([*(columns[name] for name in _KEYS), begins.long()], dim=-1).to(self.device))
        self.scores.append(torch.stack([columns[name] for name in _SCORES], dim=-1).to(self.device))

    def pairs(self) -> PairScores:
        """The rows seen, ordered by scene and source; inside `with metric.sync_context():` those of all processes."""
        keys, scores = (_joined(state).cpu() for state in (self.keys, self.scores))
        visit = keys[:, -1].cumsum(0) - 1
        numbers, scene = torch.unique(keys[:, 0], return_inverse=True)
        first = torch.full((len(numbers),), len(keys)).scatter_reduce_(0, scene, visit, "amin")
        kept = (visit == first[scene]).nonzero().flatten()
        kept = kept[scene[kept].argsort(stable=True)]
        return PairScores(*keys[kept, :-1].unbind(-1), *scores[kept].unbind(-1))

    def compute(self) -> dict[str, Tensor]:
        """The preset's figures, each in [0, 1]; see `figures`."""
        _, columns = figures(self.pairs(), self.preset.levels, self.preset.meaning)
        return {name: column.mean() for name, column in columns.items()}

    def reset(self) -> None:
        """Forget all scenes."""
        super().reset()
        # a process that is given no scene still has to tell the others what rows look like
        self.keys = [torch.empty(0, len(_KEYS) + 1, dtype=torch.int64, device=self.device)]
        self.scores = [torch.empty(0, len(_SCORES), dtype=torch.float64, device=self.device)]


def _joined(state: list[Tensor] | Tensor) -> Tensor:
    """A state as one table; torchmetrics joins it itself when processes have exchanged theirs."""
    return state if isinstance(state, torch.Tensor) else torch.cat(state)
