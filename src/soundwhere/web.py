"""What the local pages share: a guard before the server, errors as answers, and the page's own files.

Requests from other sites, to other hosts, or too large go no further than the guard. Only servers import this module:
it needs the extra `annotate`.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response

from soundwhere import __version__
from soundwhere.errors import OutputError, SoundwhereError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES: Final = 1 << 20
"""Of a request; a long stroke of the annotator's brush takes 50 kB."""

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HEADERS: Final = (
    (b"content-security-policy", (b"default-src 'self'; img-src 'self' blob:; media-src 'self' blob:; "
     b"object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)  # fmt: skip


class Guard:
    """Refuses what does not come from the page itself.

    Args:
        app: What is guarded.
        hosts: Names under which the server may be addressed; empty for any, which needs tokens.
        streamed: Paths whose requests may be of any size and are passed on as they come; what is behind them limits
            them itself.
    """

    def __init__(
        self, app: Application, hosts: frozenset[str] = LOOPBACK, streamed: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._streamed = streamed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin1").lower(): value.decode("latin1") for name, value in scope["headers"]}
        streamed = scope["path"] in self._streamed
        refusal = self._refusal(headers, streamed)
        if refusal is not None:
            await _answer(send, *refusal)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        if streamed:
            await self._app(scope, receive, with_headers)
            return
        body, fits = await _read(receive)
        if not fits:
            await _answer(send, 413, "The request is too large.")
            return
        handed_over = False

        async def once() -> MutableMapping[str, Any]:
            nonlocal handed_over
            if handed_over:
                return await receive()
            handed_over = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, once, with_headers)

    def _refusal(self, headers: dict[str, str], streamed: bool) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if self._hosts and urlsplit(f"//{host}").hostname not in self._hosts:
            return 421, "This server does not answer to that name."  # a foreign name that was made to point here
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "Requests from other sites are refused."
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "Requests from other sites are refused."
        length = headers.get("content-length", "0")
        if not length.isdigit() or (int(length) > MOST_BYTES and not streamed):
            return 413, "The request is too large."
        return None


async def _read(receive: Receive) -> tuple[bytes, bool]:
    """The body, and whether it is small enough; a body without a stated length is counted as it comes."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"", True
        size += len(message.get("body", b""))
        if size > MOST_BYTES:
            return b"", False
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts), True


async def _answer(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error": message, "remedy": ""}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def make_application(title: str, *packages: str, **options: Any) -> FastAPI:
    """An application that shows a page and turns errors into JSON with `error` and `remedy`.

    Args:
        title: Its name.
        *packages: Where the page's own files are: in the folder `web` of these. Those that are there at the start are
            served under `/web`, and no others; `index.html` is the page itself.
        **options: Passed on to FastAPI, such as `lifespan`.
    """
    app = FastAPI(title=title, version=__version__, docs_url=None, redoc_url=None, openapi_url=None, **options)
    files = {
        file.name: file.read_bytes()
        for package in packages
        for file in (resources.files(package) / "web").iterdir()
        if file.name.rsplit(".", 1)[-1] in _TYPES
    }

    @app.get("/")
    def index() -> Response:
        return Response(files["index.html"], media_type="text/html")

    @app.get("/web/{name}")
    def web(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "There is no such file.")
        return Response(files[name], media_type=_TYPES[name.rsplit(".", 1)[-1]])

    app.add_exception_handler(SoundwhereError, _complain)
    app.add_exception_handler(HTTPException, _refuse)
    return app


async def _complain(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SoundwhereError)
    usual = 507 if isinstance(error, OutputError) else 400
    return JSONResponse({"error": error.message, "remedy": error.remedy}, getattr(error, "status", usual))


async def _refuse(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail, "remedy": ""}, error.status_code)


def open_later(address: str) -> None:
    """Open a page in the browser once its server has had a moment to start."""
    import threading
    import webbrowser

    timer = threading.Timer(1.0, webbrowser.open, [address])
    timer.daemon = True
    timer.start()
