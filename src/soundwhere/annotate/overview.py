"""How a project stands: progress by class and person, agreement, and what to review first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from soundwhere.annotate.agreement import agreement
from soundwhere.annotate.events import STATES
from soundwhere.annotate.selection import Filter, wanted_tasks

if TYPE_CHECKING:
    from soundwhere.annotate.people import Person
    from soundwhere.annotate.store import Store

LOW_AGREEMENT: Final = 0.7
"""Mask IoU of two people below which both of their masks want a look."""

_MOST_LISTED: Final = 100


def overview(store: Store, person: Person, overlaps: dict[tuple[int, int], float]) -> dict[str, Any]:
    """What somebody may know about a project; annotators see no figures of others.

    Args:
        store: The project's.
        person: Who asks.
        overlaps: Of doubly annotated frames, as `agreement` keeps them.
    """
    agreed = agreement(store, overlaps)
    progress = store.progress()
    roles = {each.name: each.role for each in store.people.list()}
    counted = {each["annotator"]: each for each in progress["annotators"]}
    nothing = {"frames": 0, "objects": 0, "decisions": 0, "reviews": 0, "last": None}
    people = [
        {**nothing, **counted.get(name, {}), "annotator": name, "role": roles.get(name, ""), "agreement": mean}
        for name in sorted(counted.keys() | roles.keys())
        for mean in [agreed["people"].get(name)]
        if person.may("reviewer") or name == person.name
    ]
    review = _to_review(store, person, agreed["each"]) if person.may("reviewer") else []
    return {
        "role": person.role,
        "states": progress["states"],
        "kinds": _kinds(store),
        "people": people,
        "working": sorted(set(store.leased().values())) if person.may("reviewer") else [],
        "agreement": {key: agreed[key] for key in ("frames", "mean", "median", "share_over_0_7")},
        "to_review": len(review),
        "review": review[:_MOST_LISTED],
    }


def _kinds(store: Store) -> list[dict[str, Any]]:
    kinds = {frame.id: frame.kind for frame in store.frames()}
    counts: dict[str, dict[str, int]] = {kind: dict.fromkeys(STATES, 0) for kind in sorted(set(kinds.values()))}
    for task in store.tasks():
        counts[kinds[task.frame]][task.state] += 1
    return [{"kind": kind, "states": states} for kind, states in counts.items()]


def _to_review(store: Store, person: Person, overlaps: dict[str, float]) -> list[dict[str, Any]]:
    """What waits for this person's review: the most doubtful first."""
    frames = {frame.id: frame for frame in store.frames()}
    found = []
    for task in wanted_tasks(store, person, Filter(state="review")):
        name = frames[task.frame].name
        overlap = overlaps.get(name, 1.0)
        why = list(task.doubts)
        if overlap < LOW_AGREEMENT:
            why.append(f"two people agree to {overlap:.2f} only")
        if task.state == "unsure":
            why.append(f"cannot tell: {store.work(task.id).reason or 'no reason given'}")
        item = {"task": task.id, "name": name, "kind": frames[task.frame].kind, "state": task.state}
        item |= {"second": task.second, "annotator": task.annotator, "why": why}
        found.append((-len(why), overlap, task.id, item))
    return [item for *_, item in sorted(found, key=lambda each: each[:3])]
