"""`soundwhere annotate`: masks for sounding objects, made in the browser."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import tyro

from soundwhere.cli.options import FLAG, named, parse

DESCRIPTION = """\
Serve the page on which boxes become masks. Every decision is on the disk before the page says so; stop with Ctrl-C and
start again whenever you like.

Examples:
  soundwhere benchmark init masks/ --manifest vggss.json --data clips/    make the project first
  soundwhere annotate masks/                                              on this machine, anyone with a name
  soundwhere annotate masks/ --invite ann bob --host 0.0.0.0              links with a token each
  soundwhere annotate masks/ --host 0.0.0.0 --segmenter onnx:sam2-tiny/   for a team
"""


@dataclass(frozen=True)
class Options:
    """Serve the page on which boxes become masks."""

    project: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PROJECT")]
    """Folder made by `soundwhere benchmark init`."""
    segmenter: str = "simple"
    """What makes masks: simple, onnx:DIR, or transformers:MODEL."""
    invite: Annotated[tuple[str, ...], named("NAME ...")] = ()
    """Give these people a new token, print their links, and stop."""
    host: str = "127.0.0.1"
    """Address to serve on; any other than this machine's own is only for people with tokens."""
    port: int = 8765
    """Port to serve on."""
    browser: Annotated[bool, *FLAG] = True
    """Do not open the page in the browser."""


def run(arguments: list[str]) -> int:
    """Serve until Ctrl-C."""
    options = parse(Options, arguments, "annotate", description=DESCRIPTION)
    from soundwhere.annotate.project import Project
    from soundwhere.cli.terminal import print_links
    from soundwhere.web.addresses import open_later, page_addresses

    project = Project(options.project)
    if options.invite:
        links = page_addresses(options.host, options.port)
        for name in options.invite:
            door = f"#{quote(name)}:{project.store.invite(name)}"
            for link in links[1:] + links[:1]:  # those who are invited have machines of their own
                print(f"{name}  {link}{door}")
        return 0
    from soundwhere.annotate.segmenter.protocol import open_segmenter
    from soundwhere.annotate.server import allowed_hosts, serve

    allowed_hosts(project, options.host)
    segmenter = open_segmenter(options.segmenter)
    states = project.store.progress()["states"]
    left = f"{states['todo'] + states['begun'] + states['reopened']} of {sum(states.values())} frames to do"

    def ready(links: list[str]) -> None:
        print_links(links, f"{left}, segmenter {segmenter.name}; Ctrl-C stops", options.host)
        if options.browser:
            open_later(links[0])

    with suppress(KeyboardInterrupt):  # the server has stopped in good order by then
        serve(project, segmenter, options.host, options.port, ready)
    return 0
