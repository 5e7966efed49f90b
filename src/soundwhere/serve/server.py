"""The server behind the page for your own clips.

Jobs, clips of the folder and files are asked for by numbers and names from lists that the server made.
"""

from __future__ import annotations

import json
import secrets
import shutil
import zipfile
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect

from soundwhere import __version__
from soundwhere.inference.folder import list_files
from soundwhere.inference.player import SCHEMA
from soundwhere.inference.settings import MOST_SOURCES, Settings
from soundwhere.media.container import VIDEO_SUFFIXES
from soundwhere.media.image import IMAGE_SUFFIXES
from soundwhere.methods.files import SHIPPED
from soundwhere.serve.jobs import PLAYER, RESULT, Job, Jobs, MissingError, Shelf, plain_name, work_error
from soundwhere.serve.runner import Runner
from soundwhere.serve.worker import make_worker
from soundwhere.web.addresses import LOOPBACK, listen
from soundwhere.web.application import Text, TooLargeError
from soundwhere.web.connections import make_server
from soundwhere.web.door import locked_application, page_links, require_key
from soundwhere.web.guard import Guard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from soundwhere.errors import SoundwhereError

UPLOADS: Final = "/api/uploads"
MODELS: Final = tuple(sorted(SHIPPED))
"""What may be chosen on the page: those that ship."""
_PAGE: Final = "index.html"  # of a result


class Chosen(BaseModel):
    """How a clip is to be localised; what is left out is as the server was started."""

    model: Text | None = Field(None, max_length=200)
    fps: float | None = Field(None, ge=0.1, le=60)
    sources: int | None = Field(None, ge=1, le=MOST_SOURCES)

    def options(self, models: Collection[str]) -> dict[str, Any]:
        """As keywords of `Localiser`.

        Raises:
            MissingError: The model is not one of those that may be chosen.
        """
        if self.model is not None and self.model not in models:
            raise MissingError("There is no such model here.", "Reload the page.")
        return self.model_dump(include={"model", "fps", "sources"}, exclude_none=True)


class Pick(Chosen):
    """A clip of the folder, by its number."""

    clip: Text = Field(max_length=16)


class Upload(Chosen):
    """What is said about an upload.

    Attributes:
        name: What people call it.
        batch: What files that were chosen together have in common.
        half: Whether it is the sound of a photo that follows.
        sound: What the answer to that was, if this is the photo.
    """

    name: Text
    batch: Text = Field("", max_length=32)
    half: bool = False
    sound: Text = Field("", max_length=16)


def make_app(
    jobs: Jobs,
    runner: Runner,
    shelf: Shelf | None = None,
    limit_bytes: int = 2 << 30,
    key: str = "",
    usual: Mapping[str, Any] = MappingProxyType({}),
) -> Guard:
    """The application, guarded.

    Args:
        jobs: What was asked for.
        runner: Does it, from the start of the server to its end.
        shelf: A folder to pick clips from.
        limit_bytes: Size of the largest upload.
        key: With it everyone has to follow the link `/enter?key=KEY` first, and the server may have any name.
        usual: The options of `Localiser` for clips about which nothing else was chosen.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        runner.start()
        try:
            yield
        finally:
            runner.stop()

    packages = ("soundwhere.inference", "soundwhere.serve")
    app = locked_application(key, "soundwhere serve", *packages, lifespan=lifespan)
    as_usual = {"fps": usual.get("fps", Settings.fps), "sources": usual.get("sources")}
    about = {"version": __version__, "limit_bytes": limit_bytes, "models": MODELS, "usual": as_usual}
    _add_queue(app, jobs, runner, shelf, about)
    _add_uploads(app, jobs, limit_bytes)
    _add_results(app, jobs)
    return Guard(app, frozenset() if key else LOOPBACK, frozenset({UPLOADS}))


def _add_queue(app: FastAPI, jobs: Jobs, runner: Runner, shelf: Shelf | None, about: dict[str, Any]) -> None:
    @app.get("/api/session")
    def session() -> dict[str, Any]:
        folder = None if shelf is None else _printable(shelf.root.resolve().name)
        return {**about, "model": runner.model, "folder": folder}

    @app.get("/api/clips")
    def clips() -> list[dict[str, Any]]:
        if shelf is None:
            return []
        found = [(number, path, path.relative_to(shelf.root).as_posix()) for number, path in shelf.clips()]
        return [{"id": number, "name": _printable(name), "bytes": _size(path)} for number, path, name in found]

    @app.get("/api/jobs")
    def listed() -> list[dict[str, Any]]:
        return [view(jobs, job) for job in jobs.shown()]

    @app.get("/api/jobs/{number}")
    def one(number: str) -> dict[str, Any]:
        return view(jobs, jobs.get(number))

    @app.post("/api/jobs")
    def pick(picked: Pick) -> dict[str, Any]:
        if shelf is None:
            raise MissingError("There is no folder to pick from.", "Start with: soundwhere serve FOLDER")
        path = shelf.find(picked.clip)
        return view(jobs, jobs.add(plain_name(path.name), path, options=picked.options(MODELS)))

    @app.post("/api/jobs/{number}/cancel")
    def cancel(number: str) -> dict[str, Any]:
        runner.cancel(number)
        return view(jobs, jobs.get(number))

    @app.post("/api/jobs/{number}/retry")
    def retry(number: str) -> dict[str, Any]:
        return view(jobs, jobs.retry(number))

    @app.delete("/api/jobs/{number}")
    def remove(number: str) -> dict[str, bool]:
        runner.cancel(number)
        jobs.remove(number)
        return {"removed": True}


def _add_uploads(app: FastAPI, jobs: Jobs, limit_bytes: int) -> None:
    @app.post(UPLOADS)
    async def upload(request: Request, about: Annotated[Upload, Query()]) -> dict[str, Any]:
        if int(request.headers.get("content-length", "0")) > limit_bytes:
            raise _too_large(limit_bytes)
        options = about.options(MODELS)
        folder = jobs.begin_upload()
        kept = False
        try:
            clip = folder / f"clip{_suffix(about.name)}"
            await _receive(request, clip, limit_bytes)
            if about.half:
                kept = True
                return {"sound": jobs.keep_part(folder)}
            audio = jobs.take_part(about.sound, folder) if about.sound else None
            return view(jobs, jobs.add(plain_name(about.name), clip, folder, audio, about.batch, options))
        except ClientDisconnect as error:  # somebody thought better of it
            raise HTTPException(400, "The upload was interrupted.") from error
        except OSError as error:
            raise work_error(folder, error) from error
        finally:
            if not kept:
                shutil.rmtree(folder, ignore_errors=True)


async def _receive(request: Request, path: Path, limit_bytes: int) -> None:
    """Stream the body of a request to a file."""
    size = 0
    with path.open("wb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit_bytes:
                raise _too_large(limit_bytes)
            file.write(chunk)


def _add_results(app: FastAPI, jobs: Jobs) -> None:
    def finished(number: str) -> tuple[Job, Path, list[dict[str, Any]]]:
        job = jobs.get(number)
        folder = jobs.folder(job) / RESULT
        if job.state != "done" or not folder.is_dir():
            raise MissingError(f"{job.name} is not localised yet.", "Wait until it is done.")
        page = [{"name": _PAGE, "bytes": _size(folder / _PAGE)}] if (folder / _PAGE).is_file() else []
        return job, folder, [*list_files(folder), *page]

    def player(number: str) -> dict[str, Any]:
        job, _, _ = finished(number)
        try:
            data: dict[str, Any] = json.loads((jobs.folder(job) / PLAYER).read_text(encoding="utf-8"))
            if data["schema"] != SCHEMA:
                raise ValueError(data["schema"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MissingError(
                f"The result of {job.name} is damaged, or an earlier version wrote it.", "Try the clip again."
            ) from error
        return data

    @app.get("/api/jobs/{number}/player")
    def data(number: str) -> dict[str, Any]:
        _, _, files = finished(number)
        found = player(number)
        found["video"] = {"src": f"/api/jobs/{number}/video", "start_s": found.pop("plain_start_s")}
        del found["plain"]
        links = [{**file, "href": f"/api/jobs/{number}/files/{quote(file['name'])}"} for file in files]
        everything = {"name": "everything.zip", "href": f"/api/jobs/{number}/everything", "bytes": None}
        return {**found, "files": [*links, everything]}

    @app.get("/api/jobs/{number}/video")
    def video(number: str) -> FileResponse:
        return _file(Path(player(number)["plain"]), "The clip is no longer where it was.")

    @app.get("/api/jobs/{number}/picture")
    def picture(number: str) -> FileResponse:
        _, folder, _ = finished(number)
        return _file(folder / "overlay.png", "The overlay is no longer there.")

    @app.get("/api/jobs/{number}/files/{name:path}")
    def file(number: str, name: str) -> FileResponse:
        job, folder, files = finished(number)
        if name not in {file["name"] for file in files}:
            raise MissingError("There is no such file.", "Reload the page.")
        return _file(folder / name, f"{name} is no longer there.", filename=f"{Path(job.name).stem}-{Path(name).name}")

    @app.get("/api/jobs/{number}/everything")
    def everything(number: str) -> FileResponse:
        job, folder, files = finished(number)
        path = jobs.folder(job) / f".{secrets.token_hex(6)}.zip"
        stem = Path(job.name).stem
        try:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:  # most of it is compressed already
                for file in files:
                    archive.write(folder / file["name"], f"{stem}.soundwhere/{file['name']}")
        except OSError as error:
            path.unlink(missing_ok=True)
            raise work_error(path, error) from error
        return FileResponse(path, filename=f"{stem}.soundwhere.zip", background=BackgroundTask(path.unlink))


def view(jobs: Jobs, job: Job) -> dict[str, Any]:
    """What the page is told about a job: nothing about where it is."""
    told = ("id", "name", "created_s", "state", "stage", "done", "total", "error", "remedy", "options")
    return {**{name: getattr(job, name) for name in told}, "before": jobs.place(job) if job.state == "waiting" else 0}


def _file(path: Path, otherwise: str, **options: Any) -> FileResponse:
    if not path.is_file():
        raise MissingError(otherwise, "Put it back, or localise the clip again.")
    return FileResponse(path, **options)


def _too_large(limit_bytes: int) -> TooLargeError:
    limit = f"{limit_bytes / 1e6:,.0f} MB" if limit_bytes >= 1e6 else f"{limit_bytes} bytes"
    return TooLargeError(f"The clip is larger than {limit}.", "Cut it, or start the server with a larger --limit-mb.")


def _suffix(name: str) -> str:
    """The ending of a name if it is that of a video or a photo; the decoders look at the content anyway."""
    suffix = Path(plain_name(name)).suffix.lower()
    return suffix if suffix in VIDEO_SUFFIXES | IMAGE_SUFFIXES else ""


def _printable(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def serve(
    jobs: Jobs,
    shelf: Shelf | None,
    options: dict[str, Any],
    host: str = "127.0.0.1",
    port: int = 8766,
    limit_bytes: int = 2 << 30,
    key: str = "",
    ready: Callable[[list[str]], None] = print,
) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        jobs: What was and will be asked for.
        shelf: A folder to pick clips from.
        options: Those of `Localiser`.
        host: Address to serve on.
        port: Port; 0 for any that is free.
        limit_bytes: Size of the largest upload.
        key: What the link has to carry; needed unless the host is this machine's own.
        ready: Called with the links to the page once the model is loaded: for this machine, then for others.

    Raises:
        ConfigError: The port cannot be used, the model cannot be loaded, or others could come in without a key.
    """
    require_key(host, key, "your clips")
    complaints: list[SoundwhereError] = []

    def useless(error: SoundwhereError) -> None:
        complaints.append(error)
        server.should_exit = True

    def loaded() -> None:
        ready(page_links(host, listener, key))

    listener = listen(host, port)
    runner = Runner(jobs, partial(make_worker, options), useless, loaded)
    server = make_server(make_app(jobs, runner, shelf, limit_bytes, key, options))
    server.run(sockets=[listener])
    if complaints:
        raise complaints[0]
