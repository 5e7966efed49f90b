"""Clients that take their time, over real sockets: those who send too little are cut off, the others are served."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest
from fastapi import Request, WebSocket  # noqa: TC002 - FastAPI reads it at run time
from websockets.sync.client import connect

from soundwhere.web.addresses import listen
from soundwhere.web.application import make_application
from soundwhere.web.connections import Connection, make_server
from soundwhere.web.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 0.6
LONGEST_S = 60.0  # for what should happen soon after the limit
HEAD = b"Host: 127.0.0.1\r\n"
WHOLE = b"GET /web/app.js HTTP/1.1\r\n" + HEAD + b"\r\n"


class Hasty(Connection):
    patience_s = PATIENCE_S
    least_rate = 1000.0


class Running:
    """A server in a thread, with a page, an upload of any size, and something that must not happen by halves."""

    def __init__(self) -> None:
        app = make_application("test", "soundwhere.serve")
        self.done: list[int] = []

        @app.post("/do")
        def do() -> dict[str, int]:
            self.done.append(1)
            return {"done": len(self.done)}

        @app.post("/upload")
        async def upload(request: Request) -> dict[str, int]:
            return {"bytes": sum([len(chunk) async for chunk in request.stream()])}

        @app.get("/think")
        def think() -> dict[str, bool]:
            time.sleep(3 * PATIENCE_S)
            return {"thought": True}

        @app.websocket("/talk")
        async def talk(speaker: WebSocket) -> None:
            await speaker.accept()
            async for words in speaker.iter_text():
                await speaker.send_text(words)

        listener = listen("127.0.0.1", 0)
        self.port = listener.getsockname()[1]
        self.server = make_server(Guard(app, streamed=frozenset({"/upload"})), Hasty, message_bytes=1000)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]}, daemon=True)
        self.thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), LONGEST_S)

    def wait_until_alone(self) -> None:
        end = time.monotonic() + LONGEST_S
        while self.server.server_state.connections:
            assert time.monotonic() < end, "connections are left"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.server.should_exit = True
    running.thread.join(LONGEST_S)


def answer(client: socket.socket) -> bytes:
    """Everything up to the end of the connection, or of an answer whose length is stated."""
    received = b""
    while chunk := client.recv(65536):
        received += chunk
        head, _, body = received.partition(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:") and len(body) >= int(line.split(b":")[1]):
                return received
    return received


def is_cut_off(client: socket.socket, drops: bytes) -> bool:
    """Send a byte now and then; whether the server ends the connection."""
    client.settimeout(0.1)
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        try:
            client.sendall(drops[:1])
            drops = drops[1:]
            if not client.recv(65536):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.parametrize(
    ("first", "drops"),
    [
        (b"", b""),
        (b"", b"GET / HTTP/1.1\r\n" + HEAD + b"X-Slow: " + b"x" * 1000),
        (b"GET / HTTP/1.1\r\n" + HEAD, b""),
        (b"POST /do HTTP/1.1\r\n" + HEAD + b"Content-Length: 1000\r\n\r\n", b" " * 1000),
        (b"POST /do HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 200),
        (b"POST /upload HTTP/1.1\r\n" + HEAD + b"Content-Length: 1000\r\n\r\n", b" " * 1000),
        (b"POST /do HTTP/1.1\r\n" + HEAD + b"Content-Length: 9999999\r\n\r\n", b" " * 1000),  # which is refused at once
        (WHOLE + b"GET /web", b""),
        (WHOLE + b"GET /web", b"/app.js?" + b"x" * 1000),
    ],
    ids=["nothing", "headers", "half", "body", "chunks", "upload", "refused", "second", "second, slowly"],
)
def test_who_sends_too_little_is_cut_off(running: Running, first: bytes, drops: bytes) -> None:
    clients = [running.connect() for _ in range(20)]
    for client in clients:
        client.sendall(first)
    with running.connect() as other:
        other.sendall(WHOLE)
        assert answer(other).startswith(b"HTTP/1.1 200")  # everyone else is served meanwhile
    ended: list[bool] = []
    threads = [threading.Thread(target=lambda c=client: ended.append(is_cut_off(c, drops))) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [True] * len(clients)
    assert running.done == []  # nothing is done of a request that was cut off
    running.wait_until_alone()


def test_a_connection_that_is_kept_is_cut_off_in_its_second_request(running: Running) -> None:
    with running.connect() as client:
        client.sendall(WHOLE)
        assert answer(client).startswith(b"HTTP/1.1 200")
        client.sendall(WHOLE)
        assert answer(client).startswith(b"HTTP/1.1 200")
        assert is_cut_off(client, WHOLE[:-2] + b"X-Slow: " + b"x" * 1000)


def test_a_large_upload_takes_as_long_as_it_needs(running: Running) -> None:
    piece, pieces = b"x" * 1000, 25
    with running.connect() as client:
        client.sendall(b"POST /upload HTTP/1.1\r\n" + HEAD + f"Content-Length: {1000 * pieces}\r\n\r\n".encode())
        began = time.monotonic()
        for _ in range(pieces):
            client.sendall(piece)
            time.sleep(0.1)
        assert time.monotonic() - began > 3 * PATIENCE_S
        assert answer(client).endswith(b'{"bytes":25000}')


def test_an_answer_takes_as_long_as_it_needs(running: Running) -> None:
    with running.connect() as client:
        client.sendall(b"GET /think HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert answer(client).endswith(b'{"thought":true}')


def test_a_conversation_takes_as_long_as_it_needs(running: Running) -> None:
    with connect(f"ws://127.0.0.1:{running.port}/talk") as client:
        began = time.monotonic()
        while time.monotonic() - began < 3 * PATIENCE_S:
            client.send("still here")
            assert client.recv(LONGEST_S) == "still here"
            time.sleep(0.1)


def test_a_request_whose_sender_left_is_not_acted_on(running: Running) -> None:
    before = len(running.done)
    with running.connect() as client:
        client.sendall(b"POST /do HTTP/1.1\r\n" + HEAD + b"Content-Length: 10\r\n\r\n12345")
    with running.connect() as client:
        client.sendall(b"POST /do HTTP/1.1\r\n" + HEAD + b"Content-Length: 5\r\n\r\n12345")
        assert answer(client).endswith(f'{{"done":{before + 1}}}'.encode())
    time.sleep(0.2)
    assert len(running.done) == before + 1


def test_half_a_request_and_then_goodbye_leaves_nothing(running: Running) -> None:
    for first in (b"GET", WHOLE[:-2], b"POST /upload HTTP/1.1\r\n" + HEAD + b"Content-Length: 10\r\n\r\n1"):
        with running.connect() as client:
            client.sendall(first)
    running.wait_until_alone()
