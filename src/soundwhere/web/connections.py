"""The HTTP server itself, which does not wait forever for a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from soundwhere.web.guard import Guard


class Connection(H11Protocol):
    """A connection that is closed if a request on it, headers and body, takes too long to arrive.

    A request has `patience_s` seconds, and one more for every `least_rate` bytes of it that came: a large upload takes
    as long as it needs, and a client that sends a byte now and then does not hold a connection for free.
    """

    patience_s = 20.0
    least_rate = 1000.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as its base does
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Go on waiting unless the request is whole."""
        if self._deadline is None:  # the next request on a connection that was kept
            self._await_request()
        self._received += len(data)
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_waiting()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The request was whole; from here on whoever speaks WebSocket looks after the connection."""
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        self._since_s, self._received = self.loop.time(), 0
        self._deadline: asyncio.TimerHandle | None = self.loop.call_later(self.patience_s, self._look)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _look(self) -> None:
        """Close the connection if what has come does not excuse the time that has passed."""
        left_s = self._since_s + self.patience_s + self._received / self.least_rate - self.loop.time()
        if left_s > 0:
            self._deadline = self.loop.call_later(left_s, self._look)
        else:
            self._deadline = None
            self.transport.abort()  # not `close`, which waits for a client that does not read either


def make_server(
    app: Guard, protocol: type[Connection] = Connection, message_bytes: int = 0, **options: Any
) -> uvicorn.Server:
    """A server for an application; its `run(sockets=[listener])` serves until Ctrl-C, SIGTERM or `should_exit`.

    Args:
        app: What answers.
        protocol: How connections are treated.
        message_bytes: Size of the largest message of a WebSocket; 0 where nothing speaks WebSocket.
        **options: Passed on to uvicorn.
    """
    options |= {"ws": "websockets-sansio" if message_bytes else "none", "ws_max_size": message_bytes}
    options |= {"ws_per_message_deflate": False, "ws_ping_interval": protocol.patience_s}
    options |= {"ws_ping_timeout": protocol.patience_s, "timeout_graceful_shutdown": 3}
    return uvicorn.Server(uvicorn.Config(app, http=protocol, log_level="warning", **options))
