"""A guard before a server: requests from other sites, to other hosts, malformed or too large go no further."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from soundwhere.web.addresses import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES: Final = 1 << 20
"""Of a request; a long stroke of the annotator's brush takes 50 kB."""

_HOST: Final = re.compile(r"(?:([\w.-]+)|\[([0-9a-f:.]+)\])(?::\d{1,5})?", re.ASCII)
_LENGTH: Final = re.compile(r"\d{1,18}", re.ASCII)
_HEADERS: Final = (
    (b"content-security-policy", (b"default-src 'self'; img-src 'self' blob:; media-src 'self' blob:; "
     b"object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)  # fmt: skip


class Guard:
    """Refuses what does not come from the page itself, but for people who follow a link to it.

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
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin1").lower(): value.decode("latin1") for name, value in scope["headers"]}
        streamed = scope["path"] in self._streamed
        refusal = self._refusal(headers, streamed, scope.get("method") == "GET" and _follows_link(headers))
        if scope["type"] == "websocket":  # its messages are limited by the server, see `make_server`
            await (self._app(scope, receive, send) if refusal is None else send({"type": "websocket.close"}))
            return
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
        body = await _read(receive)
        if body is None:
            return
        if len(body) > MOST_BYTES:
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

    def _refusal(self, headers: dict[str, str], streamed: bool, link: bool) -> tuple[int, str] | None:
        host = headers.get("host", "").lower()
        named = _HOST.fullmatch(host)
        if named is None:
            return 400, "The request does not name a valid host."
        if self._hosts and (named[1] or named[2]) not in self._hosts:
            return 421, "This server does not answer to that name."  # a foreign name that was made to point here
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return 403, "Requests from other sites are refused."
        if not link and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "Requests from other sites are refused."
        length = headers.get("content-length", "0")
        if not _LENGTH.fullmatch(length) or (int(length) > MOST_BYTES and not streamed):
            return 413, "The request is too large."
        return None


def _follows_link(headers: dict[str, str]) -> bool:
    """Whether somebody opens an address in a tab of its own, be it from a mail that they read in the browser."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


async def _read(receive: Receive) -> bytes | None:
    """The body, of which no more than is too much is read; none if it was cut off, for then nothing may be done."""
    parts: list[bytes] = []
    size = 0
    while size <= MOST_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if not message.get("more_body"):
            break
    return b"".join(parts)


async def _answer(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error": message, "remedy": ""}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
