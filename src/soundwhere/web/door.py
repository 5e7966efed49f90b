"""Who may come in: on this machine anyone; from others who followed the link with the key.

The link leads on to the page itself, so the key does not stay in the address bar; it becomes a cookie that goes along
where somebody follows a link, from a mail in the browser for one, and with nothing else that comes from another site.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, HTTPException, Query, WebSocketException
from fastapi.responses import RedirectResponse, Response
from starlette.requests import HTTPConnection  # noqa: TC002 - FastAPI reads it at run time

from soundwhere.errors import ConfigError
from soundwhere.web.addresses import LOOPBACK, page_addresses
from soundwhere.web.application import make_application

if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI

_COOKIE: Final = "soundwhere"
_DOOR: Final = "/enter"
_UNWANTED: Final = 1008  # of a WebSocket: closed because of a rule


def require_key(host: str, key: str, what: str) -> None:
    """Make sure that others cannot come in without a key.

    Args:
        host: What is served on.
        key: The key, or nothing.
        what: What they would reach, such as `your clips`.

    Raises:
        ConfigError: They could.
    """
    if host not in LOOPBACK and not key:
        raise ConfigError(f"On {host} others could reach {what} without a key.", "Leave out --host.")


def locked_application(key: str, title: str, *packages: str, **options: Any) -> FastAPI:
    """An application as `make_application` makes it, for those who have shown the key; without one, for anyone."""

    def admit(connection: HTTPConnection) -> None:
        known = connection.cookies.get(_COOKIE, "")
        if not key or connection.scope["path"] == _DOOR or secrets.compare_digest(known.encode(), key.encode()):
            return
        if connection.scope["type"] == "websocket":
            raise WebSocketException(_UNWANTED)
        raise HTTPException(401, "Follow the link that the server printed when it started.")

    app = make_application(title, *packages, dependencies=[Depends(admit)], **options)
    if key:

        @app.get(_DOOR)
        def enter(given: Annotated[str, Query(alias="key")] = "") -> Response:
            if not secrets.compare_digest(given.encode(), key.encode()):
                raise HTTPException(401, "This link is not valid, or no longer valid.")
            answer = RedirectResponse("/", 303)
            answer.set_cookie(_COOKIE, key, httponly=True, samesite="lax")
            return answer

    return app


def page_links(host: str, listener: socket.socket, key: str) -> list[str]:
    """The links to a page that is served on a listener: for this machine first, then for others."""
    return [with_key(address, key) for address in page_addresses(host, listener.getsockname()[1])]


def with_key(address: str, key: str) -> str:
    """The link to a page, which carries the key.

    >>> with_key("http://192.0.2.7:8766/", "secret")
    'http://192.0.2.7:8766/enter?key=secret'
    """
    return f"{address}{_DOOR[1:]}?key={key}" if key else address
