"""How much features of single frames, joined, differ from features of the joined picture.

Training joins cached features of single frames, whose receptive fields stop at the frame's edge; scoring encodes the
whole picture. The difference is largest beside the seam.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from soundwhere.evaluation.reading import views
from soundwhere.media.image import normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.methods.method import Network
    from soundwhere.types import Scene


@torch.inference_mode()
def seam_difference(model: Network, scenes: Sequence[Scene]) -> list[float]:
    """The difference of features by distance from the seam, as a share of the features' norm.

    Args:
        model: Its visual encoder is asked.
        scenes: Duets: two square frames side by side.

    Returns:
        For each column of cells of a frame, counted from the seam outwards: mean ||whole - joined|| / mean ||whole||.
    """
    differences, norms = [], []
    for view in views(scenes):
        whole = normalise(np.stack([scene.image for scene in view.scenes]))
        left, right = whole.chunk(2, dim=3)
        together = model.visual(whole)
        apart = torch.cat([model.visual(left), model.visual(right)], dim=3)
        differences.append((together - apart).norm(dim=1).mean(1))  # (B, columns)
        norms.append(together.norm(dim=1).mean(1))
    share = torch.cat(differences).mean(0) / torch.cat(norms).mean()
    outwards_left, outwards_right = share.chunk(2)
    return ((outwards_left.flip(0) + outwards_right) / 2).tolist()
