"""The proxy with TLS of examples/proxy, as nginx reads it."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soundwhere.annotate.project import Project

EXAMPLE = Path(__file__).parents[2] / "examples" / "proxy" / "nginx.conf"
MAIN = """
daemon off;
pid nginx.pid;
error_log error.log;
events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include site.conf;
}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Proxy:
    """nginx with the example, on free ports and with a certificate of its own."""

    def __init__(self, folder: Path, inner: int) -> None:
        self.plain, self.port = free_port(), free_port()
        self.certificate, key = folder / "certificate.pem", folder / "key.pem"
        files = ["-keyout", str(key), "-out", str(self.certificate)]
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files]
        subprocess.run(request, check=True, capture_output=True)
        site = EXAMPLE.read_text(encoding="utf-8")
        for pattern, replacement in (
            (r"listen 80;", f"listen 127.0.0.1:{self.plain};"),
            (r"listen 443 ssl;", f"listen 127.0.0.1:{self.port} ssl;"),
            (r"masks\.example\.org;", "localhost;"),
            (r"/etc/letsencrypt/\S+/fullchain\.pem", str(self.certificate)),
            (r"/etc/letsencrypt/\S+/privkey\.pem", str(key)),
            (r"127\.0\.0\.1:8765", f"127.0.0.1:{inner}"),
        ):
            site, changed = re.subn(pattern, replacement, site)
            assert changed, f"the example has no {pattern}"
        (folder / "site.conf").write_text(site)
        (folder / "nginx.conf").write_text(MAIN)
        command = [shutil.which("nginx") or "/usr/sbin/nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
        subprocess.run([*command, "-t"], check=True, capture_output=True)
        self.process = subprocess.Popen(command)
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None, (folder / "error.log").read_text()
                assert time.monotonic() < end, "nginx did not start"
                time.sleep(0.05)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


@pytest.fixture
def proxied(tmp_path: Path, project: Project, start: Callable[..., Any]) -> Iterator[tuple[Proxy, str]]:
    """The proxy before a server whose only guest is Ann, and her token."""
    if shutil.which("nginx") is None and not Path("/usr/sbin/nginx").is_file():
        pytest.skip("needs nginx: install it with your system's package manager")
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl for a certificate")
    token = project.store.people.invite("ann", "owner")
    folder = tmp_path / "nginx"
    folder.mkdir()
    inner = free_port()
    proxy = Proxy(folder, inner)
    start(project.root, inner, "--public", f"https://localhost:{proxy.port}/")
    yield proxy, token
    proxy.stop()


def test_the_page_is_reached_by_tls_only_and_with_a_token(proxied: tuple[Proxy, str]) -> None:
    proxy, token = proxied
    address = f"https://localhost:{proxy.port}"
    trust = ssl.create_default_context(cafile=str(proxy.certificate))
    with httpx.Client(verify=trust, timeout=60) as client:
        moved = client.get(f"http://localhost:{proxy.plain}/web/app.js")
        assert (moved.status_code, moved.headers["location"]) == (301, "https://localhost/web/app.js")
        page = client.get(f"{address}/")
        assert page.status_code == 200
        assert "max-age" in page.headers["strict-transport-security"]
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        who = {"X-Annotator": "ann"}
        assert client.get(f"{address}/api/session", headers=who).status_code == 401
        who["Authorization"] = f"Bearer {token}"
        body = {"kind": "unsure", "base": 0, "request": "through-tls", "reason": "dark"}
        for origin, status in (("https://evil.example", 403), (address, 200)):
            headers = {**who, "Origin": origin}
            answer = client.post(f"{address}/api/tasks/1/decisions", headers=headers, json=body)
            assert answer.status_code == status
        large = {**body, "reason": "y" * (2 << 20)}
        assert client.post(f"{address}/api/tasks/1/decisions", headers=who, json=large).status_code == 413


@pytest.mark.browser
def test_a_frame_is_annotated_through_the_proxy(
    proxied: tuple[Proxy, str], project: Project, visit: Callable[..., Any]
) -> None:
    proxy, token = proxied
    ann = visit(f"https://localhost:{proxy.port}/#ann:{token}", ignore_https_errors=True)
    assert token not in ann.page.url
    ann.press("1")
    ann.saved()
    ann.confirm(1)
    ann.leave()
    assert project.store.task(1).state == "done"
    ann.page.click("#home")
    ann.expect(ann.page.locator(".project h2")).to_have_text(project.name)
    assert ann.complaints == []
