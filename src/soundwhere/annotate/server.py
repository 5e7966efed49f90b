"""The server behind the annotation page.

Everything under `/api` needs the header `X-Annotator`, and `Authorization: Bearer TOKEN` as soon as somebody was
invited. Frames and tasks are asked for by number only. There are no cookies, so no other site can act for anyone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import unquote

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from soundwhere import __version__
from soundwhere.annotate.agreement import agreement
from soundwhere.annotate.events import STATES, ConflictError, check_prompts
from soundwhere.annotate.guidelines import GUIDELINES
from soundwhere.annotate.masking import Ahead, Masker
from soundwhere.annotate.store import LEASE_S, Task
from soundwhere.data.annotation.rle import encode_rle
from soundwhere.errors import ConfigError, DataError
from soundwhere.web.addresses import LOOPBACK, listen, page_addresses
from soundwhere.web.application import Json, Number, Text, make_application
from soundwhere.web.connections import make_server
from soundwhere.web.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.annotate.project import Project
    from soundwhere.annotate.segmenter.protocol import Segmenter

_OPEN: Final = frozenset({"todo", "begun", "reopened"})
_AHEAD: Final = 8  # frames made ready after the one that was opened last
_LONGEST_NAME: Final = 40
_LONGEST_REASON: Final = 500


class Decision(BaseModel):
    """What the page sends for every decision."""

    kind: Text = Field(max_length=20)
    base: Number
    request: Text = Field(min_length=8, max_length=64)
    prompts: dict[str, Any] | None = None
    reason: Text = Field(default="", max_length=_LONGEST_REASON)


class Filter(BaseModel):
    """Which tasks are wanted: of a class, in a state (`open`, `all`, `review` or one of the states)."""

    kind: Text = ""
    state: Text = "open"


class Step(Filter):
    """From which task to go on, or back."""

    after: Number = 0
    back: bool = False


def current_annotator(
    request: Request, x_annotator: Annotated[str, Header()], authorization: Annotated[str, Header()] = ""
) -> str:
    """Who asks; a name that was invited must bring its token."""
    store = request.app.state.masker.project.store
    name = unquote(x_annotator).strip()
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise HTTPException(401, "Enter your name first.")
    if (request.app.state.tokens or store.invited()) and not store.knows(name, authorization.removeprefix("Bearer ")):
        raise HTTPException(401, "Your link has no valid token: ask for a new one.")
    return name


Annotator = Annotated[str, Depends(current_annotator)]


def make_app(project: Project, segmenter: Segmenter, hosts: frozenset[str] = LOOPBACK, tokens: bool = False) -> Guard:
    """The application, guarded.

    Args:
        project: What is annotated.
        segmenter: What makes masks.
        hosts: Names under which the server may be addressed; empty for any.
        tokens: Ask everyone for a token, even if nobody was invited yet.
    """
    masker = Masker(project, segmenter)
    app = make_application("soundwhere annotate", "soundwhere.annotate")
    app.state.masker, app.state.ahead, app.state.tokens = masker, Ahead(masker), tokens
    _add_reading(app, masker)
    _add_working(app, masker)
    return Guard(app, hosts)


def _add_reading(app: FastAPI, masker: Masker) -> None:
    store, project = masker.project.store, masker.project
    overlaps: dict[tuple[int, int], float] = {}

    @app.get("/api/session")
    def session(annotator: Annotator) -> dict[str, Any]:
        kinds = sorted({frame.kind for frame in store.frames()})
        return {
            "annotator": annotator,
            "project": project.root.resolve().name.encode(errors="replace").decode(),
            "version": __version__,
            "segmenter": masker.segmenter.name,
            "kinds": kinds,
            "states": STATES,
            "guidelines": GUIDELINES[project.settings.guidelines],
            "lease_s": LEASE_S,
        }

    @app.get("/api/progress")
    def progress(annotator: Annotator) -> dict[str, Any]:
        return {**store.progress(), "working": sorted(set(store.leased().values()))}

    @app.get("/api/agreement")
    def agreeing(annotator: Annotator) -> dict[str, Any]:
        return agreement(store, overlaps)

    @app.get("/api/tasks")
    def tasks(annotator: Annotator, kind: str = "", state: str = "all") -> list[dict[str, Any]]:
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
            for task in _wanted(masker, annotator, Filter(kind=kind, state=state))
        ]

    @app.get("/api/frames/{number}/picture")
    def picture(annotator: Annotator, number: Number) -> FileResponse:
        return FileResponse(project.picture_path(store.frame(number)))

    @app.get("/api/frames/{number}/sound")
    def sound(annotator: Annotator, number: Number) -> FileResponse:
        path = project.sound_path(store.frame(number))
        if path is None:
            raise HTTPException(404, "This frame has no sound.")
        return FileResponse(path, media_type="audio/wav")

    @app.get("/api/frames/{number}/candidates")
    def candidates(annotator: Annotator, number: Number) -> list[list[dict[str, Any]]]:
        return masker.candidates(store.frame(number))


def _add_working(app: FastAPI, masker: Masker) -> None:
    store = masker.project.store

    @app.post("/api/tasks/{number}/open")
    def open_task(annotator: Annotator, number: Number) -> dict[str, Any]:
        store.task(number)
        holder = ""
        try:
            store.lease(number, annotator)
        except ConflictError:
            holder = store.leased().get(number, "")
            if holder in ("", annotator):  # not busy but not theirs to see: they did the other pass
                raise
        _prepare(app, masker, _from(masker, _wanted(masker, annotator, Filter()), Step(after=number)))
        return view(masker, number, holder)

    @app.post("/api/next")
    def next_task(annotator: Annotator, step: Step) -> dict[str, Any]:
        ordered = _from(masker, _wanted(masker, annotator, step), step)
        for place, task in enumerate(ordered):
            try:
                store.lease(task.id, annotator)
            except ConflictError:
                continue
            _prepare(app, masker, ordered[place + 1 :])
            return view(masker, task.id)
        return {"none": True}

    @app.post("/api/tasks/{number}/renew")
    def renew(annotator: Annotator, number: Number) -> dict[str, float]:
        return {"until": store.lease(number, annotator)}

    @app.post("/api/tasks/{number}/release")
    def release(annotator: Annotator, number: Number) -> dict[str, bool]:
        store.release(number, annotator)
        return {"released": True}

    @app.post("/api/tasks/{number}/decisions")
    def decide(annotator: Annotator, number: Number, decision: Decision) -> Json:
        try:
            body = {} if store.find(decision.request) else _body(masker, number, decision)
            event = store.append(
                number,
                annotator,
                decision.kind,
                body,
                base=decision.base,
                request=decision.request,
                segmenter=masker.segmenter.name,
            )
        except ConflictError as error:
            answer = {"error": error.message, "remedy": error.remedy, "view": view(masker, number)}
            return Json(answer, 409)
        return Json({"saved": event.number, "view": view(masker, number)})


def view(masker: Masker, number: int, holder: str = "") -> dict[str, Any]:
    """Everything the page needs to show a task."""
    store = masker.project.store
    task, work = store.task(number), store.work(number)
    frame = store.frame(task.frame)
    drawn = any(work.draft.get(key) for key in ("points", "strokes")) or work.draft.get("candidate") is not None
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
        "draft": work.draft,
        "mask": encode_rle(masker.mask(frame, work.draft)) if drawn else None,
        "undoable": work.undoable,
        "redoable": work.redoable,
        "holder": holder,
    }


def _body(masker: Masker, number: Number, decision: Decision) -> dict[str, Any]:
    """What is stored with a decision; the mask of an object is computed here, from prompts that were stored before."""
    store = masker.project.store
    frame = store.frame(store.task(number).frame)
    if decision.kind == "prompt":
        return {"prompts": check_prompts(decision.prompts, len(frame.boxes), frame.size)}
    if decision.kind == "object":
        work = store.work(number)
        mask = masker.mask(frame, work.draft)
        if not mask.any():
            raise ConflictError("There is nothing to confirm yet.", "Choose a candidate or click the object first.")
        return {"prompts": work.draft, "mask": encode_rle(mask)}
    return {"reason": decision.reason} if decision.kind in ("unsure", "reopen", "accept") else {}


def _wanted(masker: Masker, annotator: str, wanted: Filter) -> list[Task]:
    """The tasks that someone may see and asked for."""
    store = masker.project.store
    tasks = store.tasks()
    theirs = {(task.frame, task.second) for task in tasks if task.annotator == annotator}
    kinds = {frame.id: frame.kind for frame in store.frames()} if wanted.kind else {}
    chosen = [task for task in tasks if (task.frame, not task.second) not in theirs]
    if wanted.kind:
        chosen = [task for task in chosen if kinds[task.frame] == wanted.kind]
    if wanted.state == "open":
        return [task for task in chosen if task.state in _OPEN]
    if wanted.state == "review":
        return [task for task in chosen if task.state == "done" and task.annotator != annotator]
    if wanted.state != "all" and wanted.state not in STATES:
        raise DataError(f"There is no state {wanted.state!r}.", "Reload the page.")
    return [task for task in chosen if wanted.state in ("all", task.state)]


def _from(masker: Masker, tasks: list[Task], step: Step) -> list[Task]:
    """Tasks after, or before, the one at hand; at the end it goes on at the other end."""
    if not step.after:
        return tasks
    here = _order(masker.project.store.task(step.after))
    before = [task for task in tasks if _order(task) < here]
    after = [task for task in tasks if _order(task) > here]
    return [*reversed(before), *reversed(after)] if step.back else [*after, *before]


def _order(task: Task) -> tuple[bool, int]:
    return task.second, task.frame


def _prepare(app: FastAPI, masker: Masker, later: list[Task]) -> None:
    """Have the frames that come next made ready meanwhile."""
    frames = dict.fromkeys(task.frame for task in later[:_AHEAD])
    app.state.ahead.want([masker.project.store.frame(frame) for frame in frames])


def serve(
    project: Project,
    segmenter: Segmenter,
    host: str = "127.0.0.1",
    port: int = 8765,
    ready: Callable[[list[str]], None] = print,
) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        project: What is annotated.
        segmenter: What makes masks.
        host: Address to serve on.
        port: Port; 0 for any that is free.
        ready: Called with the addresses of the page once the port is taken: for this machine, then for others.

    Raises:
        ConfigError: The port cannot be used, or others could come in without a token.
    """
    hosts = allowed_hosts(project, host)
    listener = listen(host, port)
    server = make_server(make_app(project, segmenter, hosts, tokens=host not in LOOPBACK))
    ready(page_addresses(host, listener.getsockname()[1]))
    server.run(sockets=[listener])


def allowed_hosts(project: Project, host: str) -> frozenset[str]:
    """Names under which a server on `host` may be addressed; empty for any, which tokens make safe."""
    if host in LOOPBACK:
        return LOOPBACK
    if not project.store.invited():
        raise ConfigError(
            f"On {host} others could reach the annotations, and nobody has a token.",
            "Invite people first: soundwhere annotate PROJECT --invite NAME; or leave out --host.",
        )
    return frozenset()
