"""What annotators decide, as events; what follows from them is computed.

A task is one pass over one frame. Its events are only ever appended, undoing included, so that whoever reads them in
order knows everything: which objects there are, what is being drawn, what can be undone, who said so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from soundwhere.errors import DataError, SoundwhereError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Box = tuple[float, float, float, float]  # xyxy, pixels

DECISIONS: Final = frozenset({"prompt", "object", "clear", "unsure", "done", "boxes"})
"""What an annotator does, all of which can be undone."""

REVIEWS: Final = frozenset({"accept", "reopen"})
"""What a second person says about a finished task."""

KINDS: Final = DECISIONS | REVIEWS | {"undo", "redo"}

State = Literal["todo", "begun", "done", "unsure", "accepted", "excluded", "reopened"]

STATES: Final[tuple[State, ...]] = ("todo", "begun", "done", "unsure", "accepted", "excluded", "reopened")
"""`excluded` is `unsure` with which a second person agreed, as `accepted` is `done`."""

OPEN: Final = frozenset({"todo", "begun", "reopened"})
"""States in which an annotator has something to do."""

TO_REVIEW: Final = frozenset({"done", "unsure"})
"""States that a second person has yet to look at."""

CLOSED: Final = frozenset({"accepted", "excluded"})
"""States that only a reviewer may end."""

FINISHED: Final = frozenset({"done", "accepted"})
"""States in which a task has a mask to export."""

_MOST_POINTS = 200
_MOST_STROKES = 400
_MOST_STROKE_POINTS = 5_000
_MOST_BOXES = 50
_SMALLEST_BOX_PX = 3.0


class ConflictError(SoundwhereError):
    """Somebody else has, or has changed, the task; nothing was saved."""

    status = 409  # of the answer over HTTP


@dataclass(frozen=True)
class Event:
    """One decision.

    Attributes:
        number: Grows over the whole store; the number of a task's last event is the task's revision.
        task: What it is about.
        annotator: Who decided.
        at: When, seconds since 1970.
        kind: What was done.
        body: With what: prompts, the mask that followed from them, a reason.
        version: Of this tool.
        segmenter: Name of the segmenter that masks came from.
    """

    number: int
    task: int
    annotator: str
    at: float
    kind: str
    body: Mapping[str, Any]
    version: str
    segmenter: str


@dataclass(frozen=True)
class Work:
    """Where a task stands.

    Attributes:
        revision: Number of the last event; 0 if there is none.
        objects: Bodies of the confirmed objects, each with `prompts` and `mask` (run lengths).
        draft: Prompts of the object that is being drawn.
        boxes: Boxes in pixels, xyxy, if somebody changed those that the frame came with.
        state: What remains to be done.
        reason: Why it cannot be told, or what the reviewer wrote.
        annotators: Who decided something, in the order of their first decision.
        reviewer: Who accepted or reopened it last.
        undoable: Kind of the decision that undo takes back, if any.
        redoable: Kind of the decision that redo brings back, if any.
    """

    revision: int = 0
    objects: tuple[Mapping[str, Any], ...] = ()
    draft: Mapping[str, Any] = field(default_factory=dict)
    boxes: tuple[Box, ...] | None = None
    state: State = "todo"
    reason: str = ""
    annotators: tuple[str, ...] = ()
    reviewer: str = ""
    undoable: str = ""
    redoable: str = ""


def fold(events: Iterable[Event]) -> Work:
    """Everything that follows from a task's events, in order."""
    live: list[Event] = []
    undone: list[Event] = []
    review: Event | None = None
    annotators: dict[str, None] = {}
    revision = 0
    for event in events:
        revision = event.number
        if event.kind in REVIEWS:
            review = event
            continue
        annotators.setdefault(event.annotator)
        if event.kind == "undo" and live:
            undone.append(live.pop())
        elif event.kind == "redo" and undone:
            live.append(undone.pop())
        elif event.kind in DECISIONS:
            live.append(event)
            undone.clear()
    objects: list[Mapping[str, Any]] = []
    draft: Mapping[str, Any] = {}
    boxes: tuple[Box, ...] | None = None
    state: State = "todo"
    reason = ""
    for event in live:
        if event.kind == "prompt":
            draft = event.body["prompts"]
            state = "begun" if state in ("todo", "done", "unsure") else state
        elif event.kind == "object":
            objects.append(event.body)
            draft, state = {}, "begun"
        elif event.kind == "clear":
            objects, draft, state = [], {}, "todo"
        elif event.kind == "unsure":
            objects, draft, state, reason = [], {}, "unsure", str(event.body.get("reason", ""))
        elif event.kind == "done":
            draft, state = {}, "done"
        elif event.kind == "boxes":
            boxes = tuple((left, top, right, bottom) for left, top, right, bottom in event.body["boxes"])
            chosen = draft.get("candidate") is not None  # for a box of before
            draft = {} if chosen else {**draft, "box": None}
            state = "begun"
    if state in ("todo", "begun"):
        state = "begun" if objects or is_drawn(draft) or boxes is not None else "todo"
    if review is not None:
        state, reason = _reviewed(state, reason, review, live)
    return Work(
        revision=revision,
        objects=tuple(objects),
        draft=draft,
        boxes=boxes,
        state=state,
        reason=reason if state in ("unsure", "excluded", "reopened") else "",
        annotators=tuple(annotators),
        reviewer="" if review is None else review.annotator,
        undoable=live[-1].kind if live else "",
        redoable=undone[-1].kind if undone else "",
    )


def is_drawn(prompts: Mapping[str, Any]) -> bool:
    """Whether prompts ask for anything at all."""
    return prompts.get("candidate") is not None or bool(prompts.get("points") or prompts.get("strokes"))


def _reviewed(state: State, reason: str, review: Event, live: list[Event]) -> tuple[State, str]:
    if review.kind == "accept":
        agreed: dict[State, State] = {"done": "accepted", "unsure": "excluded"}
        return agreed.get(state, state), reason
    answered = bool(live) and live[-1].number > review.number and state in ("done", "unsure")
    return (state, reason) if answered else ("reopened", str(review.body.get("reason", "")))


def check_decision(work: Work, annotator: str, kind: str, base: int) -> None:
    """Whether a decision may be appended to where a task stands.

    Args:
        work: Where the task stands.
        annotator: Who decides.
        kind: What is to be done.
        base: The revision that the annotator saw.

    Raises:
        ConflictError: The task changed since `base`, is not theirs to decide on, or is in no state for it.
        DataError: There is no such kind.
    """
    if kind not in KINDS:
        raise DataError(f"There is no decision {kind!r}.", "Reload the page.")
    if base != work.revision:
        who = work.annotators[-1] if work.annotators else "Somebody"
        raise ConflictError(
            f"{who} changed this frame since you opened it; your change was not saved.",
            "Look at what is there now, then make your change again.",
        )
    if kind in REVIEWS:
        if annotator in work.annotators:
            raise ConflictError("You annotated this frame yourself.", "Somebody else has to review it.")
        if kind == "accept" and work.state not in TO_REVIEW:
            raise ConflictError(f"This frame is {work.state}, not done.", "Only what is done can be accepted.")
        if kind == "reopen" and work.state not in TO_REVIEW | CLOSED:
            raise ConflictError(f"This frame is {work.state}, not done.", "Only what is done can be reopened.")
    elif work.state in CLOSED:
        raise ConflictError(f"{work.reviewer} accepted this frame.", "A reviewer must reopen it first.")
    if kind == "undo" and not work.undoable:
        raise ConflictError("There is nothing to undo.", "")
    if kind == "redo" and not work.redoable:
        raise ConflictError("There is nothing to redo.", "")
    if kind == "done" and not work.objects:
        raise ConflictError("No object is confirmed yet.", "Confirm one with Space, or press X if you cannot tell.")


def check_prompts(prompts: Any, boxes: int, size: tuple[int, int]) -> dict[str, Any]:
    """Prompts as they may be stored: every number finite, in the picture, and not too many.

    Args:
        prompts: `box` and `candidate` (numbers from 0, or None), `points` ([x, y, 1 or 0], ...), `strokes`
            ({"points": [[x, y], ...], "radius": r, "add": true or false}, ...) of a brush, or with "fill": true instead
            of a radius a polygon, in the order in which they were drawn; all in pixels.
        boxes: How many boxes the frame has.
        size: The frame's (height, width).

    Raises:
        DataError: They are anything else.
    """
    try:
        box, candidate = prompts.get("box"), prompts.get("candidate")
        points = [[*_place(x, y, size), _one_of(label, (0, 1))] for x, y, label in prompts.get("points", [])]
        strokes = [_stroke(stroke, size) for stroke in prompts.get("strokes", [])]
        if len(points) > _MOST_POINTS or len(strokes) > _MOST_STROKES:
            raise ValueError("too many points or strokes")
        return {
            "box": None if box is None else _one_of(box, range(boxes)),
            "candidate": None if candidate is None else _one_of(candidate, range(3)),
            "points": points,
            "strokes": strokes,
        }
    except (AttributeError, TypeError, ValueError, KeyError, OverflowError) as error:
        raise DataError(f"These prompts are not valid: {error}.", "Reload the page.") from error


def _one_of(value: Any, known: Iterable[int]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in known:
        raise ValueError(f"{value!r} is not allowed here")
    return value


def _place(x: Any, y: Any, size: tuple[int, int]) -> tuple[float, float]:
    height, width = size
    if isinstance(x, str) or isinstance(y, str) or not (0 <= float(x) <= width and 0 <= float(y) <= height):
        raise ValueError(f"({x}, {y}) is outside the picture")
    return round(float(x), 2), round(float(y), 2)


def _stroke(stroke: Mapping[str, Any], size: tuple[int, int]) -> dict[str, Any]:
    points = [list(_place(x, y, size)) for x, y in stroke["points"]]
    if len(points) > _MOST_STROKE_POINTS or not isinstance(stroke["add"], bool):
        raise ValueError(f"a stroke has at most {_MOST_STROKE_POINTS} points, and `add`")
    if stroke.get("fill", False) is not False:
        if stroke["fill"] is not True or len({(x, y) for x, y in points}) < 3:
            raise ValueError("a polygon has at least three corners")
        return {"points": points, "fill": True, "add": stroke["add"]}
    radius = float(stroke["radius"])
    if not 0.5 <= radius <= 200 or not points:
        raise ValueError("a stroke has a radius of 0.5 to 200, and some points")
    return {"points": points, "radius": radius, "add": stroke["add"]}


def check_boxes(boxes: Any, size: tuple[int, int]) -> list[list[float]]:
    """Boxes as somebody drew them, ready to be stored.

    Args:
        boxes: [[left, top, right, bottom], ...] in pixels; none at all is allowed.
        size: The frame's (height, width).

    Raises:
        DataError: They are anything else, reach out of the picture, or are too small or too many.
    """
    try:
        found = [[*_place(left, top, size), *_place(right, bottom, size)] for left, top, right, bottom in boxes]
        if len(found) > _MOST_BOXES:
            raise ValueError(f"there are {len(found)}, more than {_MOST_BOXES}")
        for left, top, right, bottom in found:
            if min(right - left, bottom - top) < _SMALLEST_BOX_PX:
                raise ValueError(f"a box of {right - left:g} x {bottom - top:g} pixels is too small")
        return found
    except (AttributeError, TypeError, ValueError, KeyError, OverflowError) as error:
        raise DataError(f"These boxes are not valid: {error}.", "Draw them again, within the picture.") from error
