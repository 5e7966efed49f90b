"""Does an answer know when nothing it sees sounds? SLAVC's figures over pictures with a sounding object and without.

A picture is detected when the confidence of its map reaches a gate. It is right if it shows the object that sounds and
the map covers it; it is wrong if the map covers it too little, or if nothing in it sounds. A picture with an object
that is not detected is missed. A map that covers its object too little is wrong but not missed, so that recall reaches
1 where the gate lets everything through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from soundwhere.metrics.functional import to_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Values = NDArray[np.float64]
    Flags = NDArray[np.bool_]

_MOST_GATES: Final = 200


class Detections(NamedTuple):
    """How N pictures were answered.

    Attributes:
        iou: IoU of each map with the sounding object, shape (N,), float64; not looked at without one.
        confidence: Of each map, shape (N,), float64.
        visible: Whether a sounding object is seen, shape (N,), bool.
    """

    iou: Values
    confidence: Values
    visible: Flags


def top_quarter(maps: Tensor) -> Values:
    """The confidence of each map (..., H, W): the mean of its highest quarter of pixels, shape (...)."""
    pixels = np.sort(to_numpy(maps.flatten(-2)))
    quarter: Values = pixels[..., -pixels.shape[-1] // 4 :].mean(-1).astype(np.float64)
    return quarter


def detection_precision(detections: Detections, level: float = 0.5) -> float:
    """Average precision over the gates at which another picture is detected, 200 or so of them at most.

    Args:
        detections: Of all pictures.
        level: IoU that a map has to exceed.

    Returns:
        The sum of each gain in recall times the best precision at the recall before it or any greater one, in [0, 1].
    """
    step = max(1, len(detections.confidence) // _MOST_GATES)
    gates = np.sort(detections.confidence)[:-1][::-1][::step]
    right, wrong, missed = np.array([_counts(detections, level, gate) for gate in gates]).reshape(-1, 3).T
    precision, recall = right / np.maximum(right + wrong, 1), right / np.maximum(right + missed, 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall) * best[:-1]).sum())


def detection_f1(detections: Detections, level: float = 0.5, gate: float = 0.5) -> float:
    """Harmonic mean of precision and recall at one gate, in [0, 1]; 0 if nothing is right.

    Args:
        detections: Of all pictures.
        level: IoU that a map has to exceed.
        gate: Confidence at which a picture is detected.
    """
    right, wrong, missed = _counts(detections, level, gate)
    return 2 * right / max(2 * right + wrong + missed, 1)


def _counts(detections: Detections, level: float, gate: float) -> tuple[int, int, int]:
    """How many pictures are right, wrong and missed at a gate."""
    detected = detections.confidence >= gate
    right = detected & detections.visible & (detections.iou > level)
    return int(right.sum()), int((detected & ~right).sum()), int((detections.visible & ~detected).sum())
