"""Where a page is reached: every address that is printed leads to it."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from urllib.parse import urlsplit

import pytest

from soundwhere.errors import ConfigError
from soundwhere.web.addresses import listen, own_addresses, page_addresses


def reached(address: str, listener: socket.socket) -> bool:
    """Whether what connects to an address ends at a listener."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname or "", parts.port or 0), 10) as client:
        other, _ = listener.accept()
        with other:
            other.sendall(b"here")
        return client.recv(4) == b"here"


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("::", "[::1]")]
)
def test_every_address_leads_to_the_page_and_this_machines_own_comes_first(host: str, local: str) -> None:
    try:
        listener = listen(host, 0)
    except ConfigError:
        pytest.skip(f"this machine has no {host}")
    with listener:
        port = listener.getsockname()[1]
        addresses = page_addresses(host, port)
        assert addresses[0] == f"http://{local}:{port}/"
        assert len(set(addresses)) == len(addresses)
        assert len(addresses) == 1 or host in ("0.0.0.0", "::")
        assert all(reached(address, listener) for address in addresses)


def test_other_machines_are_told_an_address_of_this_one() -> None:
    if shutil.which("hostname") is None:
        pytest.skip("needs the command hostname as a reference")
    told = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    known = [each for each in told if ":" not in each and not each.startswith("169.254.")]
    found = own_addresses(socket.AF_INET)
    assert set(found) <= set(known)
    assert bool(found) == bool(known)


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 70000), ("192.0.2.1", 0), ("no such host", 0), ("a" * 300, 0)]
)
def test_what_cannot_be_listened_on_is_said(host: str, port: int) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"Port {port} on {host} cannot be used")) as caught:
        listen(host, port)
    assert ("Another server" in caught.value.remedy) == (port == 0)  # no server is on a port that there is not
