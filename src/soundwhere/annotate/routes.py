"""What the page asks the server for: reading, working on a task, and who may do what.

Everything under `/api` needs the header `X-Annotator`, and `Authorization: Bearer TOKEN` as soon as somebody was
invited. Frames and tasks are asked for by number only. There are no cookies, so no other site can act for anyone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from soundwhere import __version__
from soundwhere.annotate.access import Annotator, Owner, may_see, require_reviewer, require_sight
from soundwhere.annotate.agreement import agreement
from soundwhere.annotate.doubts import mask_doubts, work_doubts
from soundwhere.annotate.events import (
    REVIEWS,
    STATES,
    ConflictError,
    check_boxes,
    check_decision,
    check_prompts,
    is_drawn,
)
from soundwhere.annotate.guidelines import GUIDELINES
from soundwhere.annotate.overview import overview
from soundwhere.annotate.people import LONGEST_NAME, ROLES, Role
from soundwhere.annotate.selection import Filter, Step, tasks_from, wanted_tasks
from soundwhere.annotate.store import LEASE_S
from soundwhere.data.annotation.rle import encode_rle
from soundwhere.web.application import Json, Number, Text

if TYPE_CHECKING:
    from soundwhere.annotate.masking import Masker
    from soundwhere.annotate.store import FrameRecord, Task

_AHEAD: Final = 8  # frames made ready after the one that was opened last
_LONGEST_REASON: Final = 500


class Decision(BaseModel):
    """What the page sends for every decision."""

    kind: Text = Field(max_length=20)
    base: Number
    request: Text = Field(min_length=8, max_length=64)
    prompts: dict[str, Any] | None = None
    boxes: list[Any] | None = None
    reason: Text = Field(default="", max_length=_LONGEST_REASON)


class Name(BaseModel):
    """Somebody."""

    name: Text = Field(min_length=1, max_length=LONGEST_NAME)


class Place(Name):
    """Somebody, and what they may do."""

    role: Role


def add_reading(app: FastAPI, masker: Masker, home: str) -> None:
    """What changes nothing.

    Args:
        app: The application of a project.
        masker: The project's.
        home: Where the overview is, seen from the page.
    """
    store, project = masker.project.store, masker.project
    overlaps: dict[tuple[int, int], float] = {}

    @app.get("/api/session")
    def session(person: Annotator) -> dict[str, Any]:
        return {
            "annotator": person.name,
            "role": person.role,
            "project": project.name,
            "version": __version__,
            "segmenter": masker.segmenter.name,
            "kinds": sorted({frame.kind for frame in store.frames()}),
            "states": STATES,
            "guidelines": GUIDELINES[project.settings.guidelines],
            "lease_s": LEASE_S,
            "home": home,
        }

    @app.get("/api/projects")
    def projects(person: Annotator) -> list[dict[str, str]]:
        return [{"name": project.name, "path": ""}]

    @app.get("/api/overview")
    def look_over(person: Annotator) -> dict[str, Any]:
        return overview(store, person, overlaps)

    @app.get("/api/progress")
    def progress(person: Annotator) -> dict[str, Any]:
        found = store.progress()
        if not person.may("reviewer"):
            found["annotators"] = [each for each in found["annotators"] if each["annotator"] == person.name]
        return {**found, "working": sorted(set(store.leased().values()))}

    @app.get("/api/agreement")
    def agreeing(person: Annotator) -> dict[str, Any]:
        found = agreement(store, overlaps)
        return found if person.may("reviewer") else {**found, "each": {}, "people": {}}

    @app.get("/api/tasks")
    def tasks(person: Annotator, kind: str = "", state: str = "all") -> list[dict[str, Any]]:
        frames, leased = {frame.id: frame for frame in store.frames()}, store.leased()
        return [
            {
                "id": task.id,
                "name": frames[task.frame].name,
                "kind": frames[task.frame].kind,
                "state": task.state,
                "second": task.second,
                "with": leased.get(task.id, ""),
            }
            for task in wanted_tasks(store, person, Filter(kind=kind, state=state))
        ]

    @app.get("/api/frames/{number}/picture")
    def picture(person: Annotator, number: Number) -> FileResponse:
        return FileResponse(project.picture_path(store.frame(number)))

    @app.get("/api/frames/{number}/sound")
    def sound(person: Annotator, number: Number) -> FileResponse:
        path = project.sound_path(store.frame(number))
        if path is None:
            raise HTTPException(404, "This frame has no sound.")
        return FileResponse(path, media_type="audio/wav")

    @app.get("/api/tasks/{number}/candidates")
    def candidates(person: Annotator, number: Number) -> dict[str, Any]:
        task = store.task(number)
        require_sight(person, task)
        frame = store.frame(task.frame).as_left(store.work(number))
        return {"boxes": frame.boxes, "candidates": masker.candidates(frame)}


def add_working(app: FastAPI, masker: Masker) -> None:
    """Taking tasks and deciding."""
    store = masker.project.store

    @app.post("/api/tasks/{number}/open")
    def open_task(person: Annotator, number: Number) -> dict[str, Any]:
        require_sight(person, store.task(number))
        holder = ""
        try:
            store.lease(number, person.name)
        except ConflictError:
            holder = store.leased().get(number, "")
            if holder in ("", person.name):  # not busy but not theirs to see: they did the other pass
                raise
        _prepare(app, masker, tasks_from(store, wanted_tasks(store, person, Filter()), Step(after=number)))
        return view(masker, number, holder)

    @app.post("/api/next")
    def next_task(person: Annotator, step: Step) -> dict[str, Any]:
        ordered = tasks_from(store, wanted_tasks(store, person, step), step)
        for place, task in enumerate(ordered):
            try:
                store.lease(task.id, person.name)
            except ConflictError:
                continue
            _prepare(app, masker, ordered[place + 1 :])
            return view(masker, task.id)
        return {"none": True, "busy": len(ordered)}

    @app.post("/api/tasks/{number}/renew")
    def renew(person: Annotator, number: Number) -> dict[str, float]:
        require_sight(person, store.task(number))
        return {"until": store.lease(number, person.name)}

    @app.post("/api/tasks/{number}/release")
    def release(person: Annotator, number: Number) -> dict[str, bool]:
        store.release(number, person.name)
        return {"released": True}

    @app.post("/api/tasks/{number}/decisions")
    def decide(person: Annotator, number: Number, decision: Decision) -> Json:
        if decision.kind in REVIEWS:
            require_reviewer(person)
        try:
            body = {}
            if store.find(decision.request) is None:
                task, work = store.task(number), store.work(number)
                if decision.base == work.revision:  # else the conflict is told
                    require_sight(person, task)
                check_decision(work, person.name, decision.kind, decision.base)
                body = _body(masker, number, decision)
            event = store.append(
                number,
                person.name,
                decision.kind,
                body,
                base=decision.base,
                request=decision.request,
                segmenter=masker.segmenter.name,
            )
        except ConflictError as error:
            seen = {"view": view(masker, number)} if may_see(person, store.task(number)) else {}
            return Json({"error": error.message, "remedy": error.remedy, **seen}, 409)
        return Json({"saved": event.number, "view": view(masker, number)})


def add_people(app: FastAPI, masker: Masker) -> None:
    """Who may do what, for owners."""
    people = masker.project.store.people

    def require_tokens() -> None:
        if not people.list():
            raise ConflictError(
                "Nobody has a token yet: whoever is on this machine may do everything.",
                "Invite an owner first: soundwhere annotate PROJECT --invite NAME --role owner.",
            )

    def require_other(owner: str, name: str) -> None:
        if owner == name:
            raise ConflictError("You cannot change your own place.", "Ask another owner, or use --invite.")

    @app.get("/api/people")
    def everybody(person: Owner) -> dict[str, Any]:
        return {"roles": ROLES, "people": [{"name": each.name, "role": each.role} for each in people.list()]}

    @app.post("/api/people/invite")
    def invite(person: Owner, place: Place) -> dict[str, str]:
        require_tokens()
        require_other(person.name, place.name)
        return {"name": place.name, "role": place.role, "door": door(place.name, people.invite(place.name, place.role))}

    @app.post("/api/people/role")
    def change(person: Owner, place: Place) -> dict[str, str]:
        require_other(person.name, place.name)
        people.change_role(place.name, place.role)
        return {"name": place.name, "role": place.role}

    @app.post("/api/people/remove")
    def remove(person: Owner, who: Name) -> dict[str, str]:
        require_other(person.name, who.name)
        people.remove(who.name)
        return {"removed": who.name}


def door(name: str, token: str) -> str:
    """What follows the page's address in the link that lets somebody in.

    >>> door("ann b", "secret")
    '#ann%20b:secret'
    """
    return f"#{quote(name, safe='')}:{token}"


def view(masker: Masker, number: int, holder: str = "") -> dict[str, Any]:
    """Everything the page needs to show a task."""
    store = masker.project.store
    task, work = store.task(number), store.work(number)
    frame = store.frame(task.frame).as_left(work)
    mask = masker.mask(frame, work.draft) if is_drawn(work.draft) else None
    return {
        "task": task.id,
        "second": task.second,
        "frame": {
            "id": frame.id,
            "name": frame.name,
            "kind": frame.kind,
            "size": frame.size,
            "boxes": frame.boxes,
            "sound": bool(frame.sound),
        },
        "revision": work.revision,
        "state": work.state,
        "reason": work.reason,
        "annotators": work.annotators,
        "reviewer": work.reviewer,
        "objects": [part["mask"] for part in work.objects],
        "object_doubts": work_doubts(frame, work),
        "draft": work.draft,
        "mask": None if mask is None else encode_rle(mask),
        "doubts": [] if mask is None else mask_doubts(mask, _boxes_of(frame, work.draft)),
        "undoable": work.undoable,
        "redoable": work.redoable,
        "holder": holder,
    }


def _boxes_of(frame: FrameRecord, prompts: Any) -> tuple[tuple[float, float, float, float], ...]:
    """The box that a candidate was chosen for; for anything else it may be any."""
    chosen = prompts.get("candidate") is not None and prompts.get("box") is not None
    return (frame.boxes[prompts["box"]],) if chosen else frame.boxes


def _body(masker: Masker, number: int, decision: Decision) -> dict[str, Any]:
    """What is stored with a decision; the mask of an object is computed here, from prompts that were stored before."""
    store = masker.project.store
    work = store.work(number)
    frame = store.frame(store.task(number).frame).as_left(work)
    if decision.kind == "prompt":
        return {"prompts": check_prompts(decision.prompts, len(frame.boxes), frame.size)}
    if decision.kind == "boxes":
        return {"boxes": check_boxes(decision.boxes, frame.size)}
    if decision.kind == "object":
        mask = masker.mask(frame, work.draft)
        if not mask.any():
            raise ConflictError("There is nothing to confirm yet.", "Choose a candidate or click the object first.")
        return {"prompts": work.draft, "mask": encode_rle(mask)}
    return {"reason": decision.reason} if decision.kind in ("unsure", "reopen", "accept") else {}


def _prepare(app: FastAPI, masker: Masker, later: list[Task]) -> None:
    """Have the frames that come next made ready meanwhile."""
    frames = dict.fromkeys(task.frame for task in later[:_AHEAD])
    app.state.ahead.want([masker.project.store.frame(frame) for frame in frames])
