"""The live server without a browser: who may connect, what is answered, and what is refused."""

from __future__ import annotations

import io
import json
import math
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from soundwhere.cli.main import run
from soundwhere.errors import ConfigError, MediaError
from soundwhere.inference.localiser import Localiser
from soundwhere.live.messages import MOST_BYTES, FrameMessage, SoundMessage, read_message
from soundwhere.live.server import MOST_STREAMS, make_app, serve_live
from soundwhere.media.audio import read_audio
from soundwhere.media.video import probe, read_frames
from soundwhere.web.addresses import listen
from soundwhere.web.connections import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BASE = "http://127.0.0.1:8767"
STREAM = "ws://127.0.0.1:8767/api/live"
NOISE = (0.1 * np.random.default_rng(0).standard_normal(48_000)).astype("<f4")


@pytest.fixture(scope="module")
def localiser() -> Localiser:
    return Localiser("scav-tiny", device="cpu")


@pytest.fixture
def client(localiser: Localiser) -> Iterator[TestClient]:
    with TestClient(make_app(localiser), base_url=BASE) as client:
        yield client


def frame(time_s: float, width: int = 64, height: int = 48) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 255, (height, width, 4), np.uint8)
    return struct.pack("<IHHd", 1, width, height, time_s) + pixels.tobytes()


def sound(time_s: float, samples: np.ndarray = NOISE, rate_hz: int = 48_000) -> bytes:
    return struct.pack("<IId", 2, rate_hz, time_s) + samples.tobytes()


def unpacked(content: bytes) -> tuple[dict[str, Any], np.ndarray]:
    (length,) = struct.unpack_from("<I", content)
    about = json.loads(content[4 : 4 + length])
    maps = np.frombuffer(content[4 + length :], np.uint8).reshape(len(about["sources"]), *about["grid"])
    return about, maps


def test_frames_and_sound_go_in_and_answers_come_out(client: TestClient, localiser: Localiser) -> None:
    session = client.get("/api/session").json()
    assert (session["model"], session["fps"], len(session["colours"])) == ("scav-tiny", 10.0, 2)
    with client.websocket_connect(STREAM) as live:
        live.send_bytes(frame(1.0))
        about, maps = unpacked(live.receive_bytes())
        assert (about["time_s"], about["sound_s"], about["level_db"]) == (1.0, None, None)
        assert not maps.any()  # silence is dark
        live.send_text("still here")
        live.send_bytes(sound(1.5))
        live.send_bytes(frame(2.0))
        about, maps = unpacked(live.receive_bytes())
        assert (about["time_s"], about["sound_s"]) == (2.0, 1.5)
        # -20 dB at 48 kHz, of which models hear what lies below 11 kHz
        assert about["level_db"] == pytest.approx(-20 + 10 * np.log10(22_050 / 48_000), abs=0.5)
        assert about["grid"] == list(localiser.grid(48, 64))
        for source, drawn in zip(about["sources"], maps, strict=True):
            assert (drawn.max() == 255) == source["sounding"] == bool(source["place"])


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"x" * 15, frame(1.0)[:-1], frame(1.0) + b"x", frame(math.nan), sound(0.0)[:-1]),
        *(struct.pack("<IHHd", *head) for head in ((1, 0, 9, 0.0), (3, 1, 1, 0.0), (1, 65535, 65535, 0.0))),
    ],
)
def test_what_is_neither_frame_nor_sound_is_refused(content: bytes) -> None:
    with pytest.raises(MediaError, match="neither a frame nor sound"):
        read_message(content)


def test_messages_are_read_as_they_were_meant() -> None:
    shown = read_message(frame(3.25, 5, 4))
    assert isinstance(shown, FrameMessage)
    assert (shown.image.shape, shown.time_s) == ((4, 5, 3), 3.25)
    heard = read_message(sound(4.5, NOISE, 44_100))
    assert isinstance(heard, SoundMessage)
    assert (heard.rate_hz, heard.time_s, heard.samples.tolist()) == (44_100, 4.5, NOISE.tolist())


@pytest.mark.parametrize("content", [b"nonsense", sound(0.0, NOISE, 0)])
def test_nonsense_is_answered_in_words_and_the_stream_ends(client: TestClient, content: bytes) -> None:
    with client.websocket_connect(STREAM) as live:
        live.send_bytes(content)
        assert json.loads(live.receive_text())["error"]
        with pytest.raises(WebSocketDisconnect):
            live.receive_bytes()


def test_who_says_nothing_is_closed(localiser: Localiser) -> None:
    with (
        TestClient(make_app(localiser, patience_s=0.2), base_url=BASE) as client,
        client.websocket_connect(STREAM) as live,
        pytest.raises(WebSocketDisconnect),
    ):
        live.receive_bytes()


def test_one_page_too_many_is_told_so_and_finds_room_later(client: TestClient) -> None:
    pages = [client.websocket_connect(STREAM) for _ in range(MOST_STREAMS)]
    for page in pages:
        page.__enter__()
    with client.websocket_connect(STREAM) as live:
        assert "Close one of them" in json.loads(live.receive_text())["remedy"]
    for page in pages:
        page.__exit__(None, None, None)
    with client.websocket_connect(STREAM) as live:
        live.send_bytes(frame(1.0))
        unpacked(live.receive_bytes())


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
def test_other_sites_and_other_names_do_not_connect(client: TestClient, headers: dict[str, str]) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(STREAM, headers=headers):
        pass


def test_with_a_key_only_who_brought_it_connects(localiser: Localiser) -> None:
    with TestClient(make_app(localiser, key="secret"), base_url=BASE) as client:
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(STREAM):
            pass
        assert client.get("/api/session").status_code == 401
        assert client.get("/enter?key=wrong").status_code == 401
        entered = client.get("/enter?key=secret")
        assert str(entered.url) == f"{BASE}/"  # the key is gone from the address
        with client.websocket_connect(STREAM) as live:
            live.send_bytes(frame(1.0))
            unpacked(live.receive_bytes())
    with pytest.raises(ConfigError, match="without a key"):
        serve_live(lambda: localiser, host="0.0.0.0", port=0)


def jpeg(value: int, size: tuple[int, int] = (64, 48)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (value, 0, 0)).save(file, "JPEG")
    return file.getvalue()


def clip(frames: list[bytes], samples: np.ndarray, **changes: Any) -> bytes:
    times = [10 + 0.1 * number for number in range(len(frames))]
    head = {"times_s": times, "lengths": list(map(len, frames)), "rate_hz": 48_000, **changes}
    text = json.dumps(head).encode()
    return struct.pack("<I", len(text)) + text + b"".join(frames) + samples.astype("<f4").tobytes()


def test_pictures_and_sound_become_a_clip(client: TestClient, tmp_path: Path) -> None:
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(96_000) / 48_000)
    frames = [jpeg(10 * number) for number in range(20)]
    frames[3] = jpeg(0, (48, 64))  # before the phone was turned
    answer = client.post("/api/clips", content=clip(frames, tone))
    assert answer.status_code == 200
    (tmp_path / "clip.mp4").write_bytes(answer.content)
    info = probe(tmp_path / "clip.mp4")
    assert (info.width, info.height) == (64, 48)
    assert info.duration_s == pytest.approx(2.0, abs=0.15)
    assert read_frames(tmp_path / "clip.mp4", [1.05])[0].image[..., 0].mean() == pytest.approx(100, abs=8)
    heard = read_audio(tmp_path / "clip.mp4")
    assert np.sqrt(np.mean(heard[2000:40_000] ** 2)) == pytest.approx(0.3 / np.sqrt(2), rel=0.05)
    mute = client.post("/api/clips", content=clip(frames[4:], np.zeros(0)))
    assert mute.status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xff\xff\xff",
        clip([jpeg(1)], NOISE, lengths=[10**9]),
        clip([jpeg(1)], NOISE, lengths=[-1]),
        clip([jpeg(1)], NOISE, times_s=[]),
        clip([jpeg(1), jpeg(2)], NOISE, times_s=[2.0, 1.0]),
        clip([jpeg(1), jpeg(2)], NOISE, times_s=[0.0, 1e6]),
        clip([jpeg(1)], NOISE, rate_hz=0),
        clip([b"not a picture"], NOISE),
        clip([jpeg(1)[:200]], NOISE),
        clip([jpeg(1, (4000, 4000))], NOISE),
    ],
)
def test_what_is_not_a_clip_is_refused_in_words(client: TestClient, content: bytes) -> None:
    answer = client.post("/api/clips", content=content)
    assert answer.status_code == 400
    assert "cannot be written" in answer.json()["error"]


def test_a_message_that_comes_byte_by_byte_or_is_too_large_ends_the_connection(localiser: Localiser) -> None:
    listener = listen("127.0.0.1", 0)
    server = make_server(make_app(localiser, patience_s=1.0), message_bytes=MOST_BYTES)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    port = listener.getsockname()[1]
    hello = (
        f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()
    large = b"\x82\xff" + struct.pack(">Q", MOST_BYTES + 1) + b"\0\0\0\0"
    for first, drops in ((b"\x82\xfe\x10\x00\0\0\0\0", b"x" * 1000), (large, b"")):
        with socket.create_connection(("127.0.0.1", port), 60) as client:
            client.sendall(hello)
            assert client.recv(4096).startswith(b"HTTP/1.1 101")
            client.sendall(first)
            client.settimeout(0.1)
            end, closed = time.monotonic() + 60, False
            while not closed:
                assert time.monotonic() < end, "it is still open"
                try:
                    client.sendall(drops[:1])
                    drops = drops[1:]
                    closed = client.recv(4096)[:1] in (b"", b"\x88")  # the end, or a word of farewell
                except TimeoutError:
                    continue
                except OSError:
                    closed = True
    server.should_exit = True
    thread.join(60)


def test_the_command_complains_before_it_serves(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["live", "--model", "nowhere", "--port", "0", "--no-browser"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert run(["live", "--fps", "0", "--no-browser"]) == 2
