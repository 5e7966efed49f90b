"""`soundwhere annotate`: masks for sounding objects, made in the browser."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from soundwhere.annotate.people import Role
from soundwhere.errors import ConfigError
from soundwhere.terminal.options import FLAG, named, parse

if TYPE_CHECKING:
    from soundwhere.annotate.project import Project

DESCRIPTION = """\
Serve the page on which boxes become masks. Every decision is on the disk before the page says so; stop with Ctrl-C and
start again whenever you like.

Examples:
  soundwhere benchmark init masks/ --manifest vggss.json --data clips/    make the project first
  soundwhere annotate masks/                                              on this machine, anyone with a name
  soundwhere annotate masks/ more-masks/                                  several projects, with an overview
  soundwhere annotate masks/ --invite ann bob --host 0.0.0.0              links with a token each
  soundwhere annotate masks/ --invite eve --role reviewer                 who may also accept and reopen
  soundwhere annotate masks/ --host 0.0.0.0 --segmenter onnx:sam2-tiny/   for a team
  soundwhere annotate masks/ --public https://masks.example.org/          behind a proxy with TLS
"""


@dataclass(frozen=True)
class Options:
    """Serve the page on which boxes become masks."""

    project: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PROJECT ...", help_behavior_hint="")
    ]
    """Folders made by `soundwhere benchmark init`."""
    segmenter: str = "simple"
    """What makes masks: simple, onnx:DIR, or transformers:MODEL."""
    invite: Annotated[tuple[str, ...], named("NAME ...")] = ()
    """Give these people a new token for every PROJECT, print their links, and stop."""
    role: Role = "annotator"
    """What they may do: annotate; as reviewer also accept and reopen what others did; as owner also invite."""
    host: str = "127.0.0.1"
    """Address to serve on; any other than this machine's own is only for people with tokens."""
    port: int = 8765
    """Port to serve on."""
    public: Annotated[str, named("URL")] = ""
    """Address that a proxy with TLS before this server has; links carry it, and everyone needs a token."""
    browser: Annotated[bool, *FLAG] = True
    """Do not open the page in the browser."""


def run(arguments: list[str]) -> int:
    """Serve until Ctrl-C."""
    options = parse(Options, arguments, "annotate", description=DESCRIPTION)
    from soundwhere.annotate.project import Project
    from soundwhere.terminal.messages import announce

    if not options.project:
        raise ConfigError("No project is given.", "Make one with: soundwhere benchmark init")
    projects = [Project(path) for path in options.project]
    if options.invite:
        _invite(projects, options)
        return 0
    from soundwhere.annotate.segmenter.protocol import open_segmenter
    from soundwhere.annotate.server import allowed_hosts, serve

    allowed_hosts(projects, options.host, options.public)
    segmenter = open_segmenter(options.segmenter)
    left, every = _left(projects)
    words = f"{left} of {every} frames to do, segmenter {segmenter.name}; Ctrl-C stops"
    ready = announce(words, options.host, options.browser)
    with suppress(KeyboardInterrupt):  # the server has stopped in good order by then
        serve(projects, segmenter, options.host, options.port, ready, options.public)
    left, every = _left(projects)
    export = f"next: soundwhere benchmark export {options.project[0]} --out SET"
    print(
        f"stopped, {left} of {every} frames to do; {export if left < every else 'the same command goes on'}", flush=True
    )
    return 0


def _left(projects: list[Project]) -> tuple[int, int]:
    """How many frames there still are to do, of how many."""
    from soundwhere.annotate.events import OPEN

    states = [state for project in projects for state in project.store.progress()["states"].items()]
    left = sum(count for state, count in states if state in OPEN)
    return left, sum(count for _, count in states)


def _invite(projects: list[Project], options: Options) -> None:
    """Print for each name the links with which they come in: one token for all projects."""
    from soundwhere.annotate.routes import door
    from soundwhere.annotate.server import allowed_hosts
    from soundwhere.web.addresses import page_addresses

    own = page_addresses(options.host, options.port)
    links = [options.public] if options.public else own[1:] + own[:1]  # those who are invited have their own machines
    for name in options.invite:
        token: str | None = None
        for project in projects:
            token = project.store.people.invite(name, options.role, token)
        allowed_hosts(projects, options.host, options.public)
        for link in links:
            print(f"{name}  {link}{door(name, token or '')}")
