"""What stands before the server: requests from other sites, to other hosts, or too large go no further."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES: Final = 1 << 20
"""Of a request; a long stroke of the brush takes 50 kB."""

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

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
    """

    def __init__(self, app: Application, hosts: frozenset[str] = LOOPBACK) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin1").lower(): value.decode("latin1") for name, value in scope["headers"]}
        refusal = self._refusal(headers)
        if refusal is not None:
            await _answer(send, *refusal)
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

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await self._app(scope, once, with_headers)

    def _refusal(self, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if self._hosts and urlsplit(f"//{host}").hostname not in self._hosts:
            return 421, "This server has another name."  # a foreign name that was made to point here
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "Requests from other sites are refused."
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "Requests from other sites are refused."
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
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
