"""The server behind the live page: one WebSocket for frames and sound in and answers out, and a clip to save.

Every page has a stream of its own, with its own sound and its own sources; they share the model. A page that sends
nothing whole for a while is closed, as is one that does not read.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request, WebSocket, WebSocketDisconnect
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from soundwhere import __version__
from soundwhere.errors import SoundwhereError
from soundwhere.inference.live import Live
from soundwhere.live.clip import MOST_BYTES as LARGEST_CLIP
from soundwhere.live.clip import write_clip
from soundwhere.live.messages import MOST_BYTES, FrameMessage, read_message, write_answer, write_problem
from soundwhere.media.draw import source_colour
from soundwhere.web.addresses import LOOPBACK, listen
from soundwhere.web.application import TooLargeError
from soundwhere.web.connections import Connection, make_server
from soundwhere.web.door import locked_application, page_links, require_key
from soundwhere.web.guard import Guard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from soundwhere.inference.localiser import Localiser

STREAM: Final = "/api/live"
CLIPS: Final = "/api/clips"
MOST_STREAMS: Final = 4
"""Pages at once: each one more makes all of them slower."""
_PULL_S = 0.5  # after which somebody who waits for an answer looks whether it is still wanted
_DISCONNECTED = (WebSocketDisconnect, RuntimeError, TimeoutError)  # RuntimeError: it was closed while we sent


def make_app(
    localiser: Localiser, fps: float = 10.0, key: str = "", patience_s: float = Connection.patience_s
) -> Guard:
    """The application, guarded.

    Args:
        localiser: The model.
        fps: Frames a page sends per second, at most.
        key: With it everyone has to follow the link `/enter?key=KEY` first, and the server may have any name.
        patience_s: How long a page may be silent.
    """
    app = locked_application(key, "soundwhere live", "soundwhere.inference", "soundwhere.live")
    about = {
        "version": __version__,
        "model": localiser.model.config.name,
        "frame_px": localiser.model.config.frame_px,
        "least_confidence": localiser.settings.least_confidence,
        "fps": fps,
        "colours": ["#{:02x}{:02x}{:02x}".format(*source_colour(k)[1]) for k in range(localiser.sources)],
    }

    @app.get("/api/session")
    def session() -> dict[str, Any]:
        return about

    @app.post(CLIPS)
    async def clip(request: Request) -> Response:
        return await _save_clip(request)

    streams: set[WebSocket] = set()

    @app.websocket(STREAM)
    async def stream(socket: WebSocket) -> None:
        await socket.accept()
        if len(streams) >= MOST_STREAMS:
            problem = f"{MOST_STREAMS} pages are open already.", "Close one of them, then reload this page."
            await socket.send_text(write_problem(*problem))
            await socket.close(1013)
            return
        streams.add(socket)
        try:
            async with _live(localiser) as live:
                await _converse(socket, live, patience_s)
        finally:
            streams.discard(socket)

    return Guard(app, frozenset() if key else LOOPBACK, frozenset({CLIPS}))


@asynccontextmanager
async def _live(localiser: Localiser) -> AsyncIterator[Live]:
    live = Live(localiser)
    try:
        yield live
    finally:
        await asyncio.shield(asyncio.to_thread(live.close))


async def _converse(socket: WebSocket, live: Live, patience_s: float) -> None:
    """Take what comes and answer, until either cannot go on."""
    tasks = [
        asyncio.create_task(_take(socket, live, patience_s)),
        asyncio.create_task(_answer(socket, live, patience_s)),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    problem = next((task.exception() for task in done if task.exception() is not None), None)
    if problem is None or isinstance(problem, _DISCONNECTED):
        await _close(socket, 1001)
        return
    known = isinstance(problem, SoundwhereError)
    told = (problem.message, problem.remedy) if isinstance(problem, SoundwhereError) else ("The model failed.", "")
    if not known:
        print(f"soundwhere: internal error: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
    try:
        await asyncio.wait_for(socket.send_text(write_problem(*told)), patience_s)
    except _DISCONNECTED:
        return
    await _close(socket, 1003 if known else 1011)


async def _take(socket: WebSocket, live: Live, patience_s: float) -> None:
    while True:
        message = await asyncio.wait_for(socket.receive(), patience_s)
        if message["type"] == "websocket.disconnect":
            return
        content = message.get("bytes")
        if content is None:  # text: still there
            continue
        given = read_message(content)
        if isinstance(given, FrameMessage):
            live.push_frame(given.image, given.time_s)
        else:
            live.push_samples(given.samples, given.rate_hz, given.time_s)


async def _answer(socket: WebSocket, live: Live, patience_s: float) -> None:
    while True:
        answer = await asyncio.to_thread(live.pull, _PULL_S)
        if answer is not None:
            await asyncio.wait_for(socket.send_bytes(write_answer(answer)), patience_s)


async def _close(socket: WebSocket, code: int) -> None:
    try:
        await asyncio.wait_for(socket.close(code), 1.0)
    except _DISCONNECTED:
        return


async def _save_clip(request: Request) -> Response:
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > LARGEST_CLIP:
                raise TooLargeError("The clip is too large.", "Make the window smaller and record again.")
            parts.append(part)
    except ClientDisconnect:
        return Response(status_code=400)  # to nobody

    def write() -> bytes:
        with TemporaryDirectory(prefix="soundwhere.") as folder:
            write_clip(b"".join(parts), Path(folder) / "clip.mp4")
            return (Path(folder) / "clip.mp4").read_bytes()

    return Response(await run_in_threadpool(write), media_type="video/mp4")


def serve_live(
    localiser: Callable[[], Localiser],
    fps: float = 10.0,
    host: str = "127.0.0.1",
    port: int = 8767,
    key: str = "",
    ready: Callable[[list[str]], None] = print,
) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        localiser: Loads the model, once the port is taken.
        fps: Frames a page sends per second, at most.
        host: Address to serve on.
        port: Port; 0 for any that is free.
        key: What the link has to carry; needed unless the host is this machine's own.
        ready: Called with the links to the page once the model is loaded: for this machine, then for others.

    Raises:
        ConfigError: The port cannot be used, the model cannot be loaded, or others could come in without a key.
    """
    require_key(host, key, "your camera's page")
    listener = listen(host, port)
    server = make_server(make_app(localiser(), fps, key), message_bytes=MOST_BYTES)
    ready(page_links(host, listener, key))
    server.run(sockets=[listener])
