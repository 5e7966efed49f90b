"""The server behind the annotation page: one project at `/`, or several below an overview."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import RedirectResponse

from soundwhere.annotate.access import identify
from soundwhere.annotate.masking import Ahead, Masker
from soundwhere.annotate.routes import add_people, add_reading, add_working
from soundwhere.errors import ConfigError
from soundwhere.web.addresses import LOOPBACK, listen, page_addresses
from soundwhere.web.application import make_application
from soundwhere.web.connections import make_server
from soundwhere.web.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from soundwhere.annotate.project import Project
    from soundwhere.annotate.segmenter.protocol import Segmenter

_OVERVIEW: Final = "web/overview.html"


def make_app(
    projects: Sequence[Project], segmenter: Segmenter, hosts: frozenset[str] = LOOPBACK, tokens: bool = False
) -> Guard:
    """The application, guarded.

    Args:
        projects: What is annotated. One is at `/`; of several each is at `/p/NAME/`, and the overview at `/`.
        segmenter: What makes masks.
        hosts: Names under which the server may be addressed; empty for any.
        tokens: Ask everyone for a token, even if nobody was invited yet.
    """
    tokens = tokens or any(project.store.people.list() for project in projects)
    if len(projects) == 1:
        return Guard(_project_app(projects[0], segmenter, tokens, _OVERVIEW), hosts)
    app = make_application("soundwhere annotate", "soundwhere.annotate", page=False)
    paths = _paths(projects)

    @app.get("/")
    def index() -> RedirectResponse:
        return RedirectResponse(_OVERVIEW)  # relative: a proxy may have it elsewhere

    @app.get("/api/projects")
    def known(
        x_annotator: Annotated[str, Header()], authorization: Annotated[str, Header()] = ""
    ) -> list[dict[str, str]]:
        found = []
        for path, project in paths.items():
            try:
                identify(project.store, tokens, x_annotator, authorization)
            except HTTPException as error:
                refusal = error
            else:
                found.append({"name": project.name, "path": f"{path}/"})
        if not found:
            raise refusal
        return found

    for path, project in paths.items():
        app.mount(f"/{path}", _project_app(project, segmenter, tokens, f"../../{_OVERVIEW}"))
    return Guard(app, hosts)


def _project_app(project: Project, segmenter: Segmenter, tokens: bool, home: str) -> FastAPI:
    masker = Masker(project, segmenter)
    app = make_application("soundwhere annotate", "soundwhere.annotate")
    app.state.masker, app.state.ahead, app.state.tokens = masker, Ahead(masker), tokens
    add_reading(app, masker, home)
    add_working(app, masker)
    add_people(app, masker)
    return app


def _paths(projects: Sequence[Project]) -> dict[str, Project]:
    """Each project by where it is served: its folder's name in plain characters, numbered if two share it."""
    paths: dict[str, Project] = {}
    for project in projects:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", project.name).strip("-") or "project"
        path, number = f"p/{plain}", 1
        while path in paths:
            number += 1
            path = f"p/{plain}-{number}"
        paths[path] = project
    return paths


def serve(
    projects: Sequence[Project],
    segmenter: Segmenter,
    host: str = "127.0.0.1",
    port: int = 8765,
    ready: Callable[[list[str]], None] = print,
    public: str = "",
) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        projects: What is annotated.
        segmenter: What makes masks.
        host: Address to serve on.
        port: Port; 0 for any that is free.
        ready: Called with the addresses of the page once the port is taken: for this machine, then for others.
        public: Address that a proxy before this server has; everyone needs a token then.

    Raises:
        ConfigError: The port cannot be used, or others could come in without a token.
    """
    hosts = allowed_hosts(projects, host, public)
    listener = listen(host, port)
    server = make_server(make_app(projects, segmenter, hosts, tokens=bool(public) or host not in LOOPBACK))
    own = page_addresses(host, listener.getsockname()[1])
    ready([*own, public] if public else own)
    server.run(sockets=[listener])


def allowed_hosts(projects: Sequence[Project], host: str, public: str = "") -> frozenset[str]:
    """Names under which a server on `host` may be addressed; empty for any, which tokens make safe.

    Raises:
        ConfigError: Others could come in, and nobody has a token; or `public` is no address.
    """
    address = urlsplit(public)
    if public and (address.scheme not in ("http", "https") or not address.hostname or not public.endswith("/")):
        raise ConfigError(
            f"{public!r} is not the address of a page.",
            "Give it as https://annotate.example.org/, with the / at its end.",
        )
    if host in LOOPBACK and not public:
        return LOOPBACK
    if not any(project.store.people.list() for project in projects):
        raise ConfigError(
            f"On {public or host} others could reach the annotations, and nobody has a token.",
            "Invite people first: soundwhere annotate PROJECT --invite NAME; or leave out --host and --public.",
        )
    return LOOPBACK | {address.hostname or ""} if host in LOOPBACK else frozenset()
