"""How well annotators agree: the overlap of their masks on frames that two of them did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere.data.annotation.rle import decode_rle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.annotate.events import Work
    from soundwhere.annotate.store import Store


def mask_of(work: Work, size: tuple[int, int]) -> NDArray[np.bool_]:
    """The mask of a task: the union of its objects, shape (H, W), bool."""
    mask = np.zeros(size, np.bool_)
    for part in work.objects:
        mask |= decode_rle(part["mask"])
    return mask


def mask_iou(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Intersection over union; 1 for two empty masks.

    >>> mask_iou(np.array([[True, True]]), np.array([[True, False]]))
    0.5
    """
    union = int((first | second).sum())
    return int((first & second).sum()) / union if union else 1.0


def agreement(store: Store, known: dict[tuple[int, int], float] | None = None) -> dict[str, Any]:
    """Mask IoU between the two annotators of each doubly annotated frame.

    Args:
        store: The annotations.
        known: Overlaps by the revisions of both passes; what is new is added, so that a second call is quick.

    Returns:
        `frames` (how many), `mean`, `median`, `share_over_0_7`, all None without any, `each`, by clip, and `people`,
        the mean over the frames that each person did.
    """
    known = {} if known is None else known
    each: dict[str, float] = {}
    people: dict[str, list[float]] = {}
    for first, second in store.doubles():
        frame, revisions = store.frame(first.frame), (first.revision, second.revision)
        if revisions not in known:
            masks = [mask_of(store.work(task.id), frame.size) for task in (first, second)]
            known[revisions] = mask_iou(*masks)
        each[frame.name] = known[revisions]
        for task in (first, second):
            people.setdefault(task.annotator, []).append(known[revisions])
    values = np.array(list(each.values()))
    if not values.size:
        return {"frames": 0, "mean": None, "median": None, "share_over_0_7": None, "each": {}, "people": {}}
    return {
        "frames": len(each),
        "mean": round(float(values.mean()), 4),
        "median": round(float(np.median(values)), 4),
        "share_over_0_7": round(float((values > 0.7).mean()), 4),
        "each": {name: round(value, 4) for name, value in each.items()},
        "people": {name: round(float(np.mean(overlaps)), 4) for name, overlaps in sorted(people.items())},
    }
