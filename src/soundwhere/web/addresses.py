"""Where a page is reached: the port it is served on, and the addresses to open."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from typing import Final

from soundwhere.errors import ConfigError

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

_EVERY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # all addresses of a machine, and the one it has for itself
_ELSEWHERE: Final = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}  # kept for documentation: nobody's


def listen(host: str, port: int) -> socket.socket:
    """Take a port; 0 for any that is free.

    Raises:
        ConfigError: It is taken, or the host is not one of this machine's.
    """
    if not 0 <= port < 2**16:
        raise ConfigError(f"Port {port} on {host} cannot be used: ports end at 65535.", "Choose another --port.")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == "::" and socket.has_dualstack_ipv6():
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, port))
        listener.listen()  # from now on a browser waits instead of giving up
    except (OSError, OverflowError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error).rstrip(".")
        raise ConfigError(
            f"Port {port} on {host} cannot be used: {reason}.",
            "Another server may be running there: look at it, or choose another --port.",
        ) from error
    return listener


def page_addresses(host: str, port: int) -> list[str]:
    """Addresses of a page: the one to open on this machine first, then those to open on others.

    >>> page_addresses("localhost", 8766)
    ['http://localhost:8766/']
    """
    if host not in _EVERY:
        return [_address(host, port)]
    found = [*own_addresses(socket.AF_INET), *(own_addresses(socket.AF_INET6) if host == "::" else [])]
    return [_address(each, port) for each in (_EVERY[host], *found)]


def own_addresses(family: socket.AddressFamily) -> list[str]:
    """Addresses under which other machines may reach this one, likeliest first."""
    found: dict[str, None] = {}
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((_ELSEWHERE[family], 9))  # sends nothing: it asks which of our addresses would be used
        found[probe.getsockname()[0]] = None
    with suppress(OSError):
        found.update(dict.fromkeys(str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None, family)))
    return [each for each in found if _reaches_others(each)]


def _reaches_others(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified)


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def open_later(address: str) -> None:
    """Open a page in the browser once its server has had a moment to start."""
    import threading
    import webbrowser

    timer = threading.Timer(1.0, webbrowser.open, [address])
    timer.daemon = True
    timer.start()
